//! Changes bytes and makes their checksums right again, by docs/format.md: damage that no checksum
//! sees.
//!
//! An engine cannot know a forged value from a true one. It must get by with any structure that is
//! forged: no panic, no endless loop, no memory without bound.

use std::path::Path;

use crate::common::Rng;

const PAGE: usize = 4096;
/// Where the footer page's fixed part begins.
const FOOTER: usize = 4064;
const LOG_HEADER: usize = 44;
const RECORD_HEADER: usize = 28;

fn sum(seed: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(seed, bytes)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + 8)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// Changes one byte or a few in a range.
fn change(rng: &mut Rng, bytes: &mut [u8]) {
    if bytes.is_empty() {
        return;
    }
    for _ in 0..rng.between(1, 3) {
        // Structure is at the ends of most things.
        let near = rng.below(bytes.len().min(40) as u64) as usize;
        let at = match rng.below(3) {
            0 => near,
            1 => bytes.len() - 1 - near,
            _ => rng.below(bytes.len() as u64) as usize,
        };
        bytes[at] = match rng.below(4) {
            0 => 0,
            1 => 0xff,
            2 => bytes[at] ^ (1 << rng.below(8)),
            _ => rng.next() as u8,
        };
    }
}

/// Forges something in a file, if it is of a kind that is known here and has what can be forged.
pub fn forge(rng: &mut Rng, path: &Path, bytes: &mut Vec<u8>) -> Option<()> {
    let name = path.file_name()?.to_str()?;
    if name.ends_with(".sst") {
        table(rng, bytes)
    } else if name == "CURRENT" {
        current(rng, bytes)
    } else if name == "HINTS" {
        hints(rng, bytes)
    } else if name == "WARM" {
        warm(rng, bytes)
    } else if name.ends_with(".wal") || name.starts_with("MA") {
        log(rng, bytes)
    } else {
        None
    }
}

fn table(rng: &mut Rng, bytes: &mut [u8]) -> Option<()> {
    let footer = bytes.len().checked_sub(PAGE)?;
    let salt = word(bytes, footer + FOOTER + 12)?;
    if rng.one_in(4) {
        let page = &mut bytes[footer..];
        match rng.below(3) {
            0 => change(rng, &mut page[FOOTER..PAGE - 12]),
            1 => {
                let used = word(page, FOOTER + 8)? as usize;
                change(rng, page.get_mut(..used)?);
            }
            _ => change(rng, &mut page[..PAGE - 12]),
        }
        let right = sum(0, &page[..PAGE - 12]).to_le_bytes();
        page[PAGE - 12..PAGE - 8].copy_from_slice(&right);
        return Some(());
    }
    // A block ends at some page; how many pages it takes is found by its checksum.
    let last = rng.below((footer / PAGE) as u64 + 1).checked_sub(1)? as usize;
    for pages in 1..=(last + 1).min(16) {
        let first = last + 1 - pages;
        let start = sum(sum(0, &salt.to_le_bytes()), &(first as u32).to_le_bytes());
        let block = &mut bytes[first * PAGE..(last + 1) * PAGE];
        let end = block.len() - 4;
        if Some(sum(start, &block[..end])) != word(block, end) {
            continue;
        }
        let used = word(block, end - 5)? as usize;
        if rng.one_in(6) {
            change(rng, &mut block[end - 5..end]);
        } else {
            change(rng, block.get_mut(..used)?);
        }
        let right = sum(start, &block[..end]).to_le_bytes();
        block[end..].copy_from_slice(&right);
        return Some(());
    }
    None
}

/// The checksum of the header of a log's record at a position.
fn header_sum(salt: u32, position: u64, record: &[u8]) -> u32 {
    sum(sum(salt, &position.to_le_bytes()), &record[..24])
}

fn log(rng: &mut Rng, bytes: &mut [u8]) -> Option<()> {
    let salt = word(bytes, 12)?;
    let base = long(bytes, 24)?;
    if rng.one_in(5) {
        change(rng, &mut bytes[8..40]);
        let right = sum(0, &bytes[..40]).to_le_bytes();
        bytes[40..LOG_HEADER].copy_from_slice(&right);
        return Some(());
    }
    let mut records = Vec::new();
    let mut at = LOG_HEADER;
    while let Some(len) = word(bytes, at) {
        let end = at + RECORD_HEADER + len as usize;
        if len == 0 || end > bytes.len() {
            break;
        }
        // The log's header has positions, too.
        let position = base + at as u64;
        if Some(header_sum(salt, position, &bytes[at..end])) != word(bytes, at + 24) {
            break;
        }
        records.push((at, end, position));
        at = end;
    }
    let (at, end, position) = *records.get(rng.below(records.len().max(1) as u64) as usize)?;
    let record = &mut bytes[at..end];
    match rng.below(6) {
        0 => change(rng, &mut record[8..16]),
        // A position behind its own no record may say to be durable.
        1 => record[16..24].copy_from_slice(&rng.below(position + 1).to_le_bytes()),
        _ => change(rng, &mut record[RECORD_HEADER..]),
    }
    let right = sum(salt, &record[RECORD_HEADER..]).to_le_bytes();
    record[4..8].copy_from_slice(&right);
    let right = header_sum(salt, position, record).to_le_bytes();
    record[24..RECORD_HEADER].copy_from_slice(&right);
    Some(())
}

fn current(rng: &mut Rng, bytes: &mut Vec<u8>) -> Option<()> {
    let end = bytes.iter().rposition(|byte| *byte == b' ')?;
    let mut line = bytes[..end].to_vec();
    change(rng, &mut line);
    let right = format!(" {:08x}\n", sum(0, &line));
    line.extend(right.into_bytes());
    *bytes = line;
    Some(())
}

/// One frame of those behind the magic.
fn warm(rng: &mut Rng, bytes: &mut [u8]) -> Option<()> {
    let mut frames = Vec::new();
    let mut at = 8;
    while let Some(len) = bytes.get(at..at + 4) {
        let len = u32::from_le_bytes(len.try_into().ok()?) as usize;
        frames.push(at..at + 8 + len);
        at += 8 + len;
    }
    let frame = frames.get(rng.below(frames.len().max(1) as u64) as usize)?;
    let frame = bytes.get_mut(frame.clone())?;
    let (head, body) = frame.split_at_mut(8);
    change(rng, body);
    head[4..].copy_from_slice(&sum(0, body).to_le_bytes());
    Some(())
}

fn hints(rng: &mut Rng, bytes: &mut [u8]) -> Option<()> {
    change(rng, bytes.get_mut(12..)?);
    let right = sum(0, &bytes[12..]).to_le_bytes();
    bytes[8..12].copy_from_slice(&right);
    Some(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shamba::fs::{Fs, MemFs};
    use shamba::{Options, WriteOptions};

    use super::*;

    /// One record is in the log. Were it forged without a right header, it would be a torn tail: as
    /// if nothing had been written, and nothing else.
    #[test]
    fn a_record_that_is_forged_is_taken_for_one() {
        let options = |fs: &MemFs| Options::new().fs(Arc::new(fs.clone()));
        let fs = MemFs::new();
        let db = options(&fs).open("/db").unwrap();
        let durable = WriteOptions::synced();
        db.put_with("key", [7; 100], durable).unwrap();
        let left = fs.kill_clone();
        let files = left.list(Path::new("/db")).unwrap();
        let mut logs = files.iter().filter(|file| file.name.ends_with(".wal"));
        let path = Path::new("/db").join(&logs.next().unwrap().name);
        let before = left.read_file(&path).unwrap();
        let mut taken = 0;
        for seed in 0..60 {
            let mut bytes = before.clone();
            log(&mut Rng::new(seed), &mut bytes).unwrap();
            if bytes[..LOG_HEADER] != before[..LOG_HEADER] {
                continue;
            }
            let harmed = left.deep_clone();
            harmed.write_file(&path, &bytes).unwrap();
            taken += match options(&harmed).open("/db") {
                Ok(db) => db.len().unwrap(),
                Err(error) => u64::from(error.to_string().contains("batch")),
            };
        }
        assert!(taken > 30, "{taken} of 60");
    }
}
