//! Reads the system's small text files that state how much memory this process may use
//! (`/proc`, `/sys/fs/cgroup`). Stateless; callable from any thread. What the texts mean is decided
//! by `budget::container`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Pseudo files longer than this are not what the caller expects.
const MAX_LEN: u64 = 64 << 10;

/// The text of the system file at an absolute `path`, or `None` if it is absent, unreadable, not
/// text, or not small.
pub(crate) fn read_small(path: &str) -> Option<String> {
    read_small_under(Path::new("/"), path)
}

/// [`read_small`] with another folder in the place of the file system's root.
pub(crate) fn read_small_under(root: &Path, path: &str) -> Option<String> {
    let file = File::open(root.join(path.trim_start_matches('/'))).ok()?;
    let mut text = String::new();
    let read = file.take(MAX_LEN + 1).read_to_string(&mut text).ok()?;
    (read as u64 <= MAX_LEN).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_text_and_refuses_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        std::fs::write(dir.path().join("proc/a"), "12\n").unwrap();
        std::fs::write(dir.path().join("proc/binary"), [0xff, 0xfe]).unwrap();
        std::fs::write(dir.path().join("proc/huge"), vec![b'1'; 65 << 10]).unwrap();
        let read = |path| read_small_under(dir.path(), path);
        assert_eq!(read("/proc/a").as_deref(), Some("12\n"));
        assert_eq!(read("/proc/b"), None);
        assert_eq!(read("/proc"), None, "a folder");
        assert_eq!(read("/proc/binary"), None);
        assert_eq!(read("/proc/huge"), None);
    }
}
