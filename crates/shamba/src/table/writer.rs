//! Appends whole pages to a table file through an aligned buffer, so that direct I/O works. One
//! owner; after an error the file is worthless.

use std::path::{Path, PathBuf};

use super::format::{self, Codec, Footer};
use crate::error::{Error, Result};
use crate::fs::{AlignedBuf, PAGE, WriteFile};

/// A table file being written.
pub(super) struct PageWriter {
    file: Box<dyn WriteFile>,
    path: PathBuf,
    out: AlignedBuf,
    /// Write when the buffer holds this many bytes.
    limit: usize,
    pages: u32,
    salt: u32,
}

impl PageWriter {
    pub(super) fn new(file: Box<dyn WriteFile>, path: PathBuf, limit: usize, salt: u32) -> Self {
        PageWriter {
            file,
            path,
            out: AlignedBuf::new(),
            limit: limit.max(PAGE),
            pages: 0,
            salt,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Pages so far: the number of the next block's first page.
    pub(super) fn pages(&self) -> u32 {
        self.pages
    }

    /// Memory held, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.out.allocated()
    }

    /// Appends a block, and says how many pages it took.
    pub(super) fn block(&mut self, payload: &[u8], codec: Codec) -> Result<u32> {
        let bytes = format::pages_for(payload.len()) * PAGE;
        if !self.out.is_empty() && self.out.len() + bytes > self.limit {
            self.flush()?;
        }
        if bytes > self.limit {
            // Of a large block as many pages as it has; a buffer that grows doubles.
            self.out = AlignedBuf::zeroed(bytes);
            self.out.clear();
        }
        let pages = format::seal_block(&mut self.out, payload, codec, self.salt, self.pages);
        self.advance(pages)?;
        Ok(pages)
    }

    /// Appends the footer page, and makes the file durable if asked to.
    pub(super) fn finish(&mut self, footer: Footer, inline: &[u8], sync: bool) -> Result<()> {
        footer.seal(inline, format::FORMAT_VERSION, &mut self.out);
        self.advance(1)?;
        self.flush()?;
        if !sync {
            return Ok(());
        }
        self.file
            .sync()
            .map_err(|e| Error::io("sync", &self.path, e))
    }

    fn advance(&mut self, pages: u32) -> Result<()> {
        self.pages = self
            .pages
            .checked_add(pages)
            .ok_or_else(|| Error::option("target_file", "a table passes 16 TiB"))?;
        if self.out.len() >= self.limit {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.file
            .append(&self.out)
            .map_err(|e| Error::io("write", &self.path, e))?;
        if self.out.allocated() > self.limit {
            self.out = AlignedBuf::new();
        }
        self.out.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fs::{Access, FaultFs, Faults, Fs, MemFs, Op};

    /// Fails where a large block is gathered with those before it, whose memory it would add to.
    #[test]
    fn a_large_block_is_written_alone() {
        let faults = Faults::new();
        let fs = FaultFs::new(Arc::new(MemFs::new()), faults.clone());
        let file = fs.create(Path::new("/table"), Access::Direct).unwrap();
        let mut writer = PageWriter::new(file, PathBuf::from("/table"), 8 * PAGE, 0);
        for _ in 0..7 {
            assert_eq!(writer.block(&[1; 4000], Codec::Raw).unwrap(), 1);
        }
        assert_eq!((writer.memory(), faults.count(Op::Append)), (7 * PAGE, 0));
        assert_eq!(writer.block(&[2; 16 * PAGE], Codec::Raw).unwrap(), 17);
        assert_eq!((writer.memory(), faults.count(Op::Append)), (0, 2));
        for _ in 0..9 {
            writer.block(&[3; 4000], Codec::Raw).unwrap();
        }
        assert_eq!(faults.count(Op::Append), 3);
        assert_eq!(writer.pages(), 7 + 17 + 9);
    }
}
