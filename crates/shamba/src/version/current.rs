//! `CURRENT`, the file of one line that names the manifest in use, and the salt of its logs, so
//! that no other manifest is taken for it. It is replaced as a whole: the line is written to
//! another file, durably, which is then renamed. Bytes: docs/format.md, "Manifest".

use std::path::Path;

use super::edit::FORMAT;
use super::files::{ManifestFiles, manifest_name, number_in, remove};
use crate::base::checksum::checksum;
use crate::error::{Error, Result, is_out_of_files, is_shortage};
use crate::fs::{Access, BlockKind, Fs, Purpose, ReadTag};
use crate::wal::LogInfo;

/// The file that names the manifest in use.
pub(crate) const CURRENT: &str = "CURRENT";

const CURRENT_TMP: &str = "CURRENT.tmp";

/// `CURRENT` is one line; what is longer is something else.
const MAX_CURRENT: u64 = 256;

/// Why `CURRENT` was not made to name another manifest.
pub(super) enum NotSwitched {
    /// It is as it was.
    Untouched(Error),
    /// It names the other one, until a power failure at least: the folder could not be opened to
    /// sync it.
    Unsynced(Error),
    /// Nobody knows.
    Unknown(Error),
}

impl From<NotSwitched> for Error {
    fn from(why: NotSwitched) -> Self {
        let (NotSwitched::Untouched(error)
        | NotSwitched::Unsynced(error)
        | NotSwitched::Unknown(error)) = why;
        error
    }
}

/// What `CURRENT` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CurrentManifest {
    /// The manifest's name.
    pub(super) name: String,
    /// What the headers of its two logs say.
    pub(super) info: LogInfo,
}

/// Makes `CURRENT` name a manifest.
pub(super) fn switch(fs: &dyn Fs, dir: &Path, files: &ManifestFiles) -> Result<(), NotSwitched> {
    let tmp = dir.join(CURRENT_TMP);
    let path = dir.join(CURRENT);
    write_line(fs, &tmp, &current_line(&files.name, files.log.info().salt)).map_err(|error| {
        remove(fs, &tmp);
        NotSwitched::Untouched(error)
    })?;
    fs.rename(&tmp, &path).map_err(|e| {
        let shortage = is_shortage(&e);
        let error = Error::io("rename", &tmp, e);
        if shortage {
            remove(fs, &tmp);
            return NotSwitched::Untouched(error);
        }
        NotSwitched::Unknown(error)
    })?;
    fs.sync_dir(dir).map_err(|e| {
        let not_tried = is_out_of_files(&e);
        let error = Error::io("sync", dir, e);
        if not_tried {
            NotSwitched::Unsynced(error)
        } else {
            NotSwitched::Unknown(error)
        }
    })
}

/// Writes the line that names a manifest, durably.
fn write_line(fs: &dyn Fs, path: &Path, line: &str) -> Result<()> {
    let mut file = fs
        .create(path, Access::Buffered)
        .map_err(|e| Error::io("create", path, e))?;
    file.append(line.as_bytes())
        .map_err(|e| Error::io("write", path, e))?;
    file.sync().map_err(|e| Error::io("sync", path, e))
}

pub(super) fn current_line(name: &str, salt: u32) -> String {
    let text = format!("shamba {FORMAT} {name} {salt:08x}");
    format!("{text} {:08x}\n", checksum(0, text.as_bytes()))
}

/// The manifest that `CURRENT` names.
pub(super) fn read_current(fs: &dyn Fs, dir: &Path) -> Result<CurrentManifest> {
    let path = dir.join(CURRENT);
    let exists = fs
        .exists(&path)
        .map_err(|e| Error::io("look for", &path, e))?;
    if !exists {
        let what = "the file is missing; it names the manifest in use";
        return Err(Error::corruption(path, 0, what));
    }
    // It is small: a length that no line has is damage, and nothing is read for it.
    let file = fs
        .open(&path, Access::Buffered)
        .map_err(|e| Error::io("open", &path, e))?;
    let corrupt = |what| Err(Error::corruption(&path, 0, what));
    if file.len() > MAX_CURRENT {
        return corrupt("the file is longer than any CURRENT");
    }
    let mut bytes = vec![0; file.len() as usize];
    let tag = ReadTag {
        kind: BlockKind::Log,
        last: None,
        purpose: Purpose::Background,
    };
    file.read_exact_at(&mut bytes, 0, tag)
        .map_err(|e| Error::io("read", &path, e))?;
    // The checksum first: what is behind it is believed only if it is right.
    let fields = std::str::from_utf8(&bytes)
        .ok()
        .and_then(|text| text.strip_suffix('\n'))
        .and_then(|line| line.rsplit_once(' '))
        .filter(|(text, sum)| *sum == format!("{:08x}", checksum(0, text.as_bytes())))
        .and_then(|(text, _)| text.strip_prefix("shamba "))
        .and_then(|text| text.split_once(' '));
    let Some((format, manifest)) = fields else {
        return corrupt("the line does not match its checksum");
    };
    // A sound line of another format is no damage.
    match format.parse::<u32>() {
        Ok(found) if found != FORMAT => Err(Error::UnsupportedFormat {
            file: path,
            found,
            supported: FORMAT,
        }),
        Ok(_) => match named(manifest) {
            Some(current) => Ok(current),
            None => corrupt("the line does not name a manifest"),
        },
        Err(_) => corrupt("the line does not name a format"),
    }
}

/// The manifest of a name and a salt, written as [`current_line`] does.
fn named(manifest: &str) -> Option<CurrentManifest> {
    let (name, salt) = manifest.split_once(' ')?;
    let number = number_in(name).filter(|number| name == manifest_name(*number))?;
    let salt = u32::from_str_radix(salt, 16)
        .ok()
        .filter(|value| salt == format!("{value:08x}"))?;
    Some(CurrentManifest {
        name: name.to_owned(),
        info: LogInfo {
            number,
            base: 0,
            salt,
        },
    })
}
