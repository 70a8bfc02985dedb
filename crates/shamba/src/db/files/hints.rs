//! How hot the partitions of tables are, kept over a restart in the file `HINTS` (docs/format.md,
//! "Hints").
//!
//! Written at closing and when a new manifest is begun, read when the database opens. Hints only:
//! a file that is missing, damaged, old or of another database changes no answer, and nothing here
//! fails: what cannot be written or read is left out and logged. A file's hint waits in its slot
//! until the file is opened.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use shamba_model::expected_reads::Visits;

use super::{HINTS_MAX_BYTES, Tree};
use crate::base::checksum::checksum;
use crate::base::coding::{put_varint, take, take_len, take_varint};
use crate::budget::{Budget, Reservation, Role};
use crate::db::context::DbContext;
use crate::fs::{Access, BlockKind, Fs, Purpose, ReadTag};
use crate::table::Hint;
use crate::version::Version;

/// The file's name.
pub(super) const HINTS: &str = "HINTS";

const HINTS_TMP: &str = "HINTS.tmp";

/// What the file begins with: a name and the format's version.
const MAGIC: &[u8; 8] = b"shambaH2";

/// The same of files without scans, which are still read.
const MAGIC_1: &[u8; 8] = b"shambaH1";

/// Visits are stored in parts of this.
const PARTS: f32 = 8.0;

/// The visits of each file's partitions.
type Hints = HashMap<u64, Box<[Visits]>>;

/// The bytes of hints, in the order given; files nobody probed are left out.
pub(in crate::db) fn encode(files: impl Iterator<Item = (u64, Vec<Visits>)>) -> Vec<u8> {
    let mut body = Vec::new();
    for (number, visits) in files {
        if visits.iter().all(|visits| visits.is_none()) {
            continue;
        }
        put_varint(&mut body, number);
        put_varint(&mut body, visits.len() as u64);
        for visits in visits {
            for count in [visits.empty, visits.positive, visits.scans] {
                put_varint(&mut body, (count * PARTS).round() as u64);
            }
        }
    }
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&checksum(0, &body).to_le_bytes());
    out.extend_from_slice(&body);
    out
}

/// The hints in these bytes; `None` if they are not sound.
pub(in crate::db) fn decode(bytes: &[u8]) -> Option<Hints> {
    let (mut input, scans) = match bytes.strip_prefix(MAGIC) {
        Some(input) => (input, true),
        None => (bytes.strip_prefix(MAGIC_1)?, false),
    };
    let sum = take(&mut input, 4)?;
    if sum != checksum(0, input).to_le_bytes() {
        return None;
    }
    let mut hints = Hints::new();
    let input = &mut input;
    while !input.is_empty() {
        let number = take_varint(input)?;
        // Each partition takes two bytes at least, so no count can ask for much memory.
        let count = take_len(input, input.len() / 2)?;
        let mut visits = Vec::with_capacity(count);
        for _ in 0..count {
            let mut next = || Some(take_varint(input)? as f32 / PARTS);
            visits.push(Visits {
                empty: next()?,
                positive: next()?,
                scans: if scans { next()? } else { 0.0 },
            });
        }
        hints.insert(number, visits.into_boxed_slice());
    }
    Some(hints)
}

/// What reading hints takes, for each byte of the file: itself, and what is made of it, which is 12
/// bytes for three and up, and an entry of a map for each file.
const BYTES_READ: u64 = 8;

/// The hints of a folder and the memory they take; none if they are not wanted, there are none that
/// are sound, or no memory for them.
pub(in crate::db) fn read(
    fs: &dyn Fs,
    dir: &Path,
    wanted: bool,
    budget: &Arc<Budget>,
) -> (Hints, Reservation) {
    let mut held = budget.open_account(Role::Tables);
    if !wanted {
        return (Hints::new(), held);
    }
    let path = dir.join(HINTS);
    let mut bytes = || -> std::io::Result<Vec<u8>> {
        // No file is as good as one that says nothing.
        if !fs.exists(&path)? {
            return Ok(encode(std::iter::empty()));
        }
        let file = fs.open(&path, Access::Buffered)?;
        if file.len() > HINTS_MAX_BYTES {
            return Ok(Vec::new());
        }
        if !held.try_grow(file.len() * BYTES_READ) {
            return Err(std::io::ErrorKind::OutOfMemory.into());
        }
        let mut bytes = vec![0; file.len() as usize];
        let tag = ReadTag {
            kind: BlockKind::Log,
            last: None,
            purpose: Purpose::Background,
        };
        file.read_exact_at(&mut bytes, 0, tag)?;
        Ok(bytes)
    };
    // Hints only: whatever is wrong with them, the database opens.
    let hints = match bytes() {
        Ok(bytes) => decode(&bytes).unwrap_or_else(|| {
            log::warn!("{} is damaged and ignored", path.display());
            Hints::new()
        }),
        Err(error) => {
            log::warn!("{}: cannot read, ignored: {error}", path.display());
            Hints::new()
        }
    };
    (hints, held)
}

/// Leaves with the files of a version what is known of them, as far as there is memory: first of
/// what [`read`] holds.
pub(in crate::db) fn give(
    (hints, held): &mut (Hints, Reservation),
    version: &Version,
    budget: &Arc<Budget>,
) {
    let any_known = !hints.is_empty();
    for file in version.files() {
        let Some(visits) = hints.remove(&file.number()) else {
            if any_known {
                // All were written of which anything was known, and that is little else.
                file.set_known();
            }
            continue;
        };
        let bytes = size_of_val(&*visits) as u64;
        let mut own = budget.open_account(Role::Tables);
        held.move_to(&mut own, bytes);
        let more = bytes - own.bytes();
        if more == 0 || own.try_grow(more) {
            let hint = Hint { visits, _held: own };
            file.slot().set_hint(hint, budget);
        }
    }
}

/// Writes the hints of all files. Not synced: a torn file is damaged, and so ignored.
pub(super) fn write(shared: &DbContext, tree: &Tree) {
    if !shared.options().inherit_statistics {
        return;
    }
    let ids = tree.keyspaces().keys();
    let versions: Vec<_> = ids.filter_map(|id| tree.manifest.version(*id)).collect();
    let files = versions.iter().flat_map(|version| version.files());
    let bytes = encode(files.map(|file| (file.number(), file.slot().visits())));
    let budget = shared.budget();
    let _held = budget.reserve_at_once(Role::Tables, bytes.len() as u64);
    let fs = shared.fs();
    let (tmp, path) = (shared.dir().join(HINTS_TMP), shared.dir().join(HINTS));
    let write = || -> std::io::Result<()> {
        if bytes.len() == encode(std::iter::empty()).len() && !fs.exists(&path)? {
            return Ok(());
        }
        fs.create(&tmp, Access::Buffered)?.append(&bytes)?;
        fs.rename(&tmp, &path)
    };
    if let Err(error) = write() {
        log::warn!("{}: cannot write: {error}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Vec<(u64, Vec<Visits>)> {
        let visits = |empty, positive| Visits {
            empty,
            positive,
            scans: positive + 1.0,
        };
        vec![
            (7, vec![visits(0.0, 2.5), visits(8191.0, 0.125)]),
            (8, vec![Visits::default()]),
            (900, vec![visits(1.0, 1.0)]),
        ]
    }

    #[test]
    fn hints_are_read_as_they_were_written() {
        let bytes = encode(some().into_iter());
        let hints = decode(&bytes).unwrap();
        assert_eq!(hints.len(), 2, "nobody probed file 8");
        assert_eq!(*hints[&7], *some()[0].1);
        assert_eq!(*hints[&900], *some()[2].1);
        assert_eq!(decode(&encode(std::iter::empty())).unwrap().len(), 0);
    }

    #[test]
    fn hints_without_scans_are_still_read() {
        let mut body = Vec::new();
        for number in [7, 1, 20, 8] {
            put_varint(&mut body, number);
        }
        let mut bytes = MAGIC_1.to_vec();
        bytes.extend_from_slice(&checksum(0, &body).to_le_bytes());
        bytes.extend_from_slice(&body);
        let want = Visits {
            empty: 2.5,
            positive: 1.0,
            scans: 0.0,
        };
        assert_eq!(*decode(&bytes).unwrap()[&7], [want]);
    }

    #[test]
    fn damaged_hints_are_none() {
        let bytes = encode(some().into_iter());
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert!(decode(&bad).is_none(), "byte {at}");
            assert!(decode(&bytes[..at]).is_none(), "cut at {at}");
        }
    }

    #[test]
    fn no_count_makes_the_reader_take_much_memory() {
        let mut body = Vec::new();
        put_varint(&mut body, 1);
        put_varint(&mut body, u64::MAX);
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&checksum(0, &body).to_le_bytes());
        bytes.extend_from_slice(&body);
        assert!(decode(&bytes).is_none());
    }
}
