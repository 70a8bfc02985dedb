//! What a block of a partition is worth in memory: pure functions over a [`PartitionView`].

use shamba_model::expected_reads::Partition;

use super::rejections::ColumnEvidence;
use super::view::PartitionView;
use crate::fs::BlockKind;

/// What a block is worth, or the part of it that would be evicted first.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct PartValue {
    /// Page reads saved per window.
    pub(crate) value: f32,
    /// Columns that would be left without the part; 0: the part is the whole block.
    pub(crate) columns_left: u8,
}

impl PartitionView<'_> {
    /// What a block would be worth that is not, or not wholly, resident; of a block of columns, the
    /// last of so many.
    pub(super) fn value_of_next(&self, kind: BlockKind, columns: u8) -> f32 {
        let evidence = ColumnEvidence::UNKNOWN;
        self.value_of(kind, columns, evidence).value
    }

    /// What a block is worth, of so many columns; of a block of columns, what the last of them is
    /// worth, of which `evidence` is known.
    #[inline]
    pub(super) fn value_of(
        &self,
        kind: BlockKind,
        columns: u8,
        evidence: ColumnEvidence,
    ) -> PartValue {
        match kind {
            BlockKind::Index => PartValue {
                value: Partition {
                    pass: self.observed_fpr(),
                    ..self.modelled(None)
                }
                .value_of_index(self.index_pages),
                columns_left: 0,
            },
            BlockKind::Filter(number) => PartValue {
                value: self.value_of_column(number, columns, evidence),
                columns_left: columns.saturating_sub(1),
            },
            _ => PartValue::default(),
        }
    }

    /// What the last of so many columns of a module is worth, or a block without columns.
    #[inline]
    pub(super) fn value_of_column(&self, number: u8, columns: u8, evidence: ColumnEvidence) -> f32 {
        let Some(module) = self.modules.get(usize::from(number)) else {
            return 0.0;
        };
        let mut others = self.modelled(Some(usize::from(number)));
        let kind = BlockKind::Filter(number);
        if let Some(value) = self.value_by_evidence(&others, kind, columns, evidence) {
            return value;
        }
        // No evidence of single columns: by the model, over the keys of one block.
        let share = 1.0 / f32::from(module.blocks.max(1));
        others.visits.empty *= share;
        others.visits.positive *= share;
        others.pass *= module.fpr_of(columns.saturating_sub(1));
        let rest = module.fpr_without(columns);
        others.value_of_filter(module.fpr, rest, f32::from(module.pages))
    }
}
