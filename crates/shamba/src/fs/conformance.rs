//! What every file system must do alike, run over each of them.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;

/// A label for reads whose label does not matter.
pub(super) const TAG: ReadTag = ReadTag {
    kind: BlockKind::Data,
    last: None,
    purpose: Purpose::Lookup,
};

fn kind<T: Debug>(result: io::Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

fn put(fs: &dyn Fs, path: &Path, access: Access, bytes: &[u8]) {
    let mut file = fs.create(path, access).unwrap();
    assert!(file.is_empty());
    for part in bytes.chunks(1777) {
        file.append(part).unwrap();
    }
    assert_eq!(file.len(), bytes.len() as u64);
    file.sync().unwrap();
}

fn get(fs: &dyn Fs, path: &Path, access: Access) -> Vec<u8> {
    let file = fs.open(path, access).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_exact_at(&mut bytes, 0, TAG).unwrap();
    bytes
}

fn names(fs: &dyn Fs, dir: &Path) -> Vec<(String, u64)> {
    let entries = fs.list(dir).unwrap().into_iter();
    let mut names: Vec<_> = entries.map(|e| (e.name, e.len)).collect();
    names.sort();
    names
}

/// Aligned and unaligned reads at once, more than fly at a time, inside and past the end.
fn read_together(fs: &dyn Fs, file: &dyn ReadFile, bytes: &[u8]) {
    let place = |i: usize| match i % 4 {
        0 => (i / 4 % 7 * PAGE, PAGE),
        1 => (i * 97 % bytes.len(), i * 31 % 6000),
        2 => (28_672, bytes.len() - 28_672),
        _ => (i * 4096 % 36_864, 2 * PAGE),
    };
    for count in [0, 1, 2, 300] {
        let mut bufs: Vec<_> = (0..count).map(|i| AlignedBuf::zeroed(place(i).1)).collect();
        let request = |(i, buf)| ReadRequest {
            file,
            offset: place(i).0 as u64,
            buf,
            tag: TAG,
            result: Err(ErrorKind::Other.into()),
        };
        let bufs_mut = bufs.iter_mut().map(|buf| &mut **buf);
        let mut requests: Vec<_> = bufs_mut.enumerate().map(request).collect();
        fs.read_many(&mut requests);
        let results: Vec<_> = requests.into_iter().map(|read| read.result).collect();
        for (i, (result, buf)) in results.into_iter().zip(&bufs).enumerate() {
            let (offset, len) = place(i);
            match bytes.get(offset..offset + len) {
                Some(wanted) => {
                    assert!(result.is_ok(), "{i}: {result:?}");
                    assert_eq!(buf[..], *wanted, "{i}");
                }
                None => assert_eq!(kind(result), ErrorKind::UnexpectedEof, "{i}"),
            }
        }
    }
}

fn conforms(fs: &dyn Fs, root: &Path) {
    let dir = root.join("x/y");
    let (a, b, c) = (dir.join("a"), dir.join("b"), dir.join("c"));
    assert!(!fs.exists(&dir).unwrap());
    assert_eq!(kind(fs.list(&dir)), ErrorKind::NotFound);
    assert_eq!(kind(fs.create(&a, Access::Buffered)), ErrorKind::NotFound);
    fs.create_dir_all(&dir).unwrap();
    fs.create_dir_all(&dir).unwrap();
    assert!(fs.exists(&dir).unwrap());
    assert_eq!(kind(fs.open(&a, Access::Direct)), ErrorKind::NotFound);
    assert_eq!(
        kind(fs.open(&dir, Access::Buffered)),
        ErrorKind::IsADirectory
    );
    assert_eq!(kind(fs.remove(&a)), ErrorKind::NotFound);
    assert_eq!(kind(fs.rename(&a, &b)), ErrorKind::NotFound);
    assert_eq!(kind(fs.hard_link(&a, &b)), ErrorKind::NotFound);
    assert_eq!(kind(fs.sync_file(&a)), ErrorKind::NotFound);

    let bytes: Vec<u8> = (0..30_000u32).map(|i| (i % 253) as u8).collect();
    for (write, read) in [
        (Access::Direct, Access::Direct),
        (Access::Direct, Access::Buffered),
        (Access::Buffered, Access::Direct),
        (Access::Buffered, Access::Buffered),
    ] {
        for len in [0, 1, 4095, 4096, 4097, 30_000] {
            put(fs, &a, write, &bytes[..len]);
            assert_eq!(get(fs, &a, read), &bytes[..len], "{write:?} {read:?} {len}");
        }
    }
    let file = fs.open(&a, Access::Direct).unwrap();
    let mut buf = [0; 100];
    file.read_exact_at(&mut buf, 29_900, TAG).unwrap();
    assert_eq!(buf, bytes[29_900..]);
    for offset in [29_901, 30_000, 1 << 50, u64::MAX] {
        let error = kind(file.read_exact_at(&mut buf, offset, TAG));
        assert_eq!(error, ErrorKind::UnexpectedEof, "{offset}");
    }

    for access in [Access::Direct, Access::Buffered] {
        read_together(fs, &*fs.open(&a, access).unwrap(), &bytes);
    }

    // Windows replaces what is open since version 10, and only on NTFS; Wine never does. It is
    // `CURRENT` that the engine replaces, and no handle to that is kept.
    let open = if cfg!(windows) {
        drop(file);
        None
    } else {
        Some(file)
    };
    put(fs, &b, Access::Direct, b"b");
    assert_eq!(names(fs, &dir), [("a".into(), 30_000), ("b".into(), 1)]);
    assert_eq!(names(fs, &root.join("x")), []);
    assert_eq!(kind(fs.hard_link(&a, &b)), ErrorKind::AlreadyExists);
    fs.hard_link(&a, &c).unwrap();
    fs.rename(&b, &a).unwrap();
    assert_eq!(get(fs, &a, Access::Direct), b"b");
    assert_eq!(get(fs, &c, Access::Direct), bytes);
    fs.remove(&c).unwrap();
    fs.sync_file(&a).unwrap();
    let several: Vec<PathBuf> = (0..40)
        .map(|i| if i % 3 == 0 { c.clone() } else { a.clone() })
        .collect();
    for (i, result) in fs.sync_files(&several).into_iter().enumerate() {
        match i % 3 {
            0 => assert_eq!(kind(result), ErrorKind::NotFound),
            _ => result.unwrap(),
        }
    }
    assert!(fs.sync_files(&[]).is_empty());
    fs.sync_dir(&dir).unwrap();
    assert_eq!(names(fs, &dir), [("a".into(), 1)]);
    assert_eq!(kind(fs.sync_dir(&c)), ErrorKind::NotFound);
    if let Some(file) = open {
        file.read_exact_at(&mut buf, 0, TAG).unwrap();
        assert_eq!(buf, bytes[..100], "an open file outlives its names");
    }

    let mut file = fs.create(&b, Access::Buffered).unwrap();
    file.append(&bytes).unwrap();
    for len in [10_000, 9_999, 4096, 1, 0] {
        file.cut_back(len).unwrap();
        assert_eq!(file.len(), len);
        assert_eq!(get(fs, &b, Access::Buffered), bytes[..len as usize]);
        file.append(&bytes[len as usize..10_000]).unwrap();
        file.sync().unwrap();
        assert_eq!(get(fs, &b, Access::Buffered), bytes[..10_000]);
    }
    fs.remove(&b).unwrap();

    let lock = fs.lock(&dir.join("LOCK")).unwrap();
    assert_eq!(kind(fs.lock(&dir.join("LOCK"))), ErrorKind::WouldBlock);
    drop(lock);
    drop(fs.lock(&dir.join("LOCK")).unwrap());
    assert!(fs.exists(&dir.join("LOCK")).unwrap());
}

#[test]
fn the_systems_files_conform() {
    let dir = tempfile::tempdir().unwrap();
    let fs = OsFs::new();
    conforms(&fs, dir.path());
    let dir = tempfile::tempdir().unwrap();
    let threads = fs.clone().without_io_uring();
    conforms(&threads, dir.path());
    assert!(threads.reads_with_threads());
    let dir = tempfile::tempdir().unwrap();
    conforms(&fs.without_direct_io(), dir.path());
}

#[test]
fn memory_conforms() {
    conforms(&MemFs::new(), Path::new("/"));
}

#[test]
fn wrappers_conform() {
    let faulty = FaultFs::new(Arc::new(MemFs::new()), Faults::new());
    conforms(&MeteredFs::new(Arc::new(faulty)), Path::new("/"));
}
