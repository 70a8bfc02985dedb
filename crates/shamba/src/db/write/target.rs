//! Where operations go: memtables, and how they get there.

use std::sync::Arc;

use crate::base::key::{EntryKind, SeqNo, Tag};
use crate::db::batch::{BatchOp, OpKind};
use crate::db::keyspaces::KeyspaceInner;
use crate::memtable::{Memtable, MemtableWriter};
use crate::operator::Operator;

/// Where all of a group goes.
pub(super) struct GroupTarget {
    pub(super) memtable: Arc<Memtable>,
    /// By which operands are combined there.
    pub(super) operator: Option<Operator>,
}

/// Where operations go: a keyspace and its active memtable.
pub(super) struct WriteTarget {
    pub(super) keyspace: Arc<KeyspaceInner>,
    pub(super) memtable: Arc<Memtable>,
}

impl WriteTarget {
    pub(super) fn of(keyspace: &Arc<KeyspaceInner>) -> Self {
        WriteTarget {
            keyspace: keyspace.clone(),
            memtable: keyspace.state().active.clone(),
        }
    }

    /// Puts an operation into the memtable where it has room.
    pub(super) fn insert(&self, op: &BatchOp<'_>, seq: SeqNo) -> bool {
        let operator = self.keyspace.operator_at_writes();
        insert(&mut self.memtable.writer(), op, seq, operator)
    }
}

/// Puts an operation into a memtable where it has room; operands are combined by the operator.
#[inline(always)]
pub(super) fn insert(
    inserter: &mut MemtableWriter<'_>,
    op: &BatchOp<'_>,
    seq: SeqNo,
    operator: Option<&Operator>,
) -> bool {
    match (op.kind, operator) {
        (OpKind::Entry(kind @ EntryKind::Operand), Some(operator)) => {
            let combine = |older: &[u8], newer: &[u8]| operator.combine(op.key, older, newer);
            inserter.insert_operand(op.key, Tag::new(seq, kind), op.value, combine)
        }
        (OpKind::Entry(kind), _) => inserter.insert(op.key, Tag::new(seq, kind), op.value),
        (OpKind::DeleteRange, _) => inserter.insert_range(op.key, op.value, seq),
    }
}
