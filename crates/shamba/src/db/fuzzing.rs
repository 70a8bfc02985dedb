//! Batches and hints of any bytes ([`crate::fuzzing`]).

use shamba_model::expected_reads::Visits;

use super::batch::{BatchOps, WriteBatch};
use super::files::filenames::{FileKind, classify};
use super::files::{hints, warm};
use crate::base::checksum::checksum;
use crate::budget::container_memory;
use crate::fs::BlockKind;
use crate::table::table_name;

/// A record of the write-ahead log.
pub(crate) fn batch(data: &[u8]) {
    let mut batch = WriteBatch::new();
    let mut sound = true;
    for op in BatchOps(data) {
        let Some(op) = op else {
            sound = false;
            break;
        };
        batch.push_op(&op);
    }
    let again: Vec<_> = BatchOps(batch.rep()).collect();
    assert_eq!(again.len() as u64, batch.count());
    let read: Vec<_> = BatchOps(data).take(again.len()).collect();
    assert_eq!(again, read, "operations come back as they went in");
    assert_eq!(BatchOps(data).all(|op| op.is_some()), sound);
}

pub(crate) fn batch_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let mut batch = WriteBatch::new();
    for (number, key) in ["a", "", "a longer key", "\u{ff}"].iter().enumerate() {
        let keyspace = [0, 1, 300, u32::MAX][number];
        batch.push(keyspace, key.as_bytes(), Some(&vec![7; number * 50]));
        seeds.push(batch.rep().to_vec());
        batch.push(keyspace, key.as_bytes(), None);
        seeds.push(batch.rep().to_vec());
    }
    seeds.push(Vec::new());
    // A kind that does not exist, and a key that ends early.
    seeds.extend([&[9, 0, 1, 7][..], &[1, 0, 200, 7]].map(<[u8]>::to_vec));
    seeds
}

/// `HINTS`, with a checksum that is right unless the first byte is odd. The same bytes as a file's
/// name, and as what the system says of a control group.
pub(crate) fn hints(data: &[u8]) {
    let Some((&how, bytes)) = data.split_first() else {
        return;
    };
    let mut bytes = bytes.to_vec();
    if how & 1 == 0
        && let Some((head, body)) = bytes.split_at_mut_checked(12)
    {
        head[8..].copy_from_slice(&checksum(0, body).to_le_bytes());
    }
    if let Some(found) = hints::decode(&bytes) {
        let list = found
            .iter()
            .map(|(number, visits)| (*number, visits.to_vec()));
        let again = hints::decode(&hints::encode(list)).expect("hints that were encoded");
        for (number, visits) in &again {
            assert_eq!(visits.len(), found[number].len());
        }
    }
    // The same as a frame of what memory held: no record is longer than what it was read from.
    let mut read = 0;
    for record in warm::records(&bytes) {
        read += 1 + match record {
            warm::Record::Entry(entry) => entry.key.len(),
            warm::Record::Block(block) => usize::from(block.kind != BlockKind::Index),
        };
    }
    assert!(read <= bytes.len());
    let text = String::from_utf8_lossy(&bytes);
    if let FileKind::Table(number) = classify(&text) {
        assert!(matches!(classify(&table_name(number)), FileKind::Table(same) if same == number));
    }
    let (groups, file) = text.split_once('\n').unwrap_or((&text, ""));
    let memory = container_memory(|path| match path {
        "/proc/self/cgroup" => Some(groups.to_owned()),
        _ => Some(file.to_owned()),
    });
    assert!(memory > 0, "some memory is assumed");
}

pub(crate) fn hints_seeds() -> Vec<Vec<u8>> {
    let visits = |empty: f32| Visits {
        empty,
        positive: empty / 3.0,
        scans: 1.0,
    };
    let mut seeds: Vec<Vec<u8>> = (0..4u64)
        .map(|files| {
            let file = |number| {
                (
                    number * 1000,
                    vec![visits(number as f32); number as usize + 1],
                )
            };
            let bytes = hints::encode((0..files).map(file));
            [&[0], bytes.as_slice()].concat()
        })
        .collect();
    let texts = [
        "000017.sst",
        "000017.wal",
        "MANIFEST-000001",
        "CURRENT.tmp",
        "0::/a/b\n1000000\n",
        "4:memory:/docker/id\nMemTotal: 8000000 kB\n",
    ];
    seeds.extend(texts.map(|text| [b"\x01", text.as_bytes()].concat()));
    seeds
}
