//! Blocks and the footer: how bytes are framed in pages, checked and compressed (docs/format.md,
//! "Table files"). Pure functions over bytes; nothing does I/O.

#[cfg(feature = "zstd")]
use super::zstd_contexts;
use crate::base::checksum::checksum;
use crate::base::coding::take_u32;
use crate::base::key::{MAX_KEY_LEN, MAX_VALUE_LEN};
use crate::fs::{AlignedBuf, PAGE};

/// The newest format of table files this build reads, and the one it writes.
pub(crate) const FORMAT_VERSION: u32 = 4;

/// The last eight bytes of a table file.
const MAGIC: u64 = u64::from_le_bytes(*b"\xf5SHaMBaT");

/// Bytes of a block's trailer: payload length, codec, checksum.
pub(super) const TRAILER: usize = 9;

/// The most payload of a block of one page.
pub(crate) const PAGE_PAYLOAD: usize = PAGE - TRAILER;

/// Bytes of the footer page's fixed part.
const FOOTER: usize = 32;

/// The most bytes that fit into the footer page before its fixed part.
pub(super) const FOOTER_ROOM: usize = PAGE - FOOTER;

/// No block of entries is longer than this before compression.
const MAX_RAW: usize = MAX_VALUE_LEN + MAX_KEY_LEN + 64;

/// How data blocks are compressed. Filters and indexes are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Compression {
    /// Blocks are stored as they are.
    #[default]
    None,
    /// LZ4: cheap to decompress. Needs the cargo feature `lz4`.
    Lz4,
    /// Zstandard of a level, 1 (quick) to 19 (small): smaller and slower than LZ4. Needs
    /// the cargo feature `zstd`.
    Zstd(i32),
}

impl Compression {
    /// How blocks compressed so are marked.
    pub(super) const fn codec(self) -> Codec {
        match self {
            Compression::None => Codec::Raw,
            Compression::Lz4 => Codec::Lz4,
            Compression::Zstd(_) => Codec::Zstd,
        }
    }

    /// The cargo feature that it needs and that this build lacks.
    pub(crate) const fn missing_feature(self) -> Option<&'static str> {
        self.codec().missing_feature()
    }
}

/// What is wrong with stored bytes; the caller knows file and place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Damage(pub(super) &'static str);

/// Why a stored payload cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecodeError {
    Damage(Damage),
    /// It is compressed, and the build lacks this cargo feature to read it.
    Feature(&'static str),
}

impl From<Damage> for DecodeError {
    fn from(damage: Damage) -> Self {
        DecodeError::Damage(damage)
    }
}

/// How a block's payload is stored. The numbers are on storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Codec {
    Raw = 0,
    Lz4 = 1,
    Zstd = 2,
}

impl Codec {
    /// The cargo feature that it needs and that this build lacks.
    const fn missing_feature(self) -> Option<&'static str> {
        match self {
            Codec::Lz4 if cfg!(not(feature = "lz4")) => Some("lz4"),
            Codec::Zstd if cfg!(not(feature = "zstd")) => Some("zstd"),
            _ => None,
        }
    }
}

/// The pages a block of this payload takes.
pub(super) const fn pages_for(payload: usize) -> usize {
    (payload + TRAILER).div_ceil(PAGE)
}

/// Checksums are started from the table's salt and the block's page, so that a block in the wrong
/// place or of the wrong table is noticed.
pub(super) fn seed(salt: u32, page: u32) -> u32 {
    checksum(checksum(0, &salt.to_le_bytes()), &page.to_le_bytes())
}

/// Appends a block to whole pages, and says how many pages it took.
pub(super) fn seal_block(
    out: &mut AlignedBuf,
    payload: &[u8],
    codec: Codec,
    salt: u32,
    page: u32,
) -> u32 {
    let start = out.len();
    let pages = pages_for(payload.len());
    out.extend_from_slice(payload);
    let padded = out.len();
    let body_end = start + pages * PAGE - TRAILER;
    out.set_len(body_end);
    if let Some(padding) = out.get_mut(padded..) {
        padding.fill(0);
    }
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&[codec as u8]);
    let crc = checksum(seed(salt, page), out.get(start..).unwrap_or_default());
    out.extend_from_slice(&crc.to_le_bytes());
    pages as u32
}

/// Whether a block takes as many pages as these, as it says itself; unchecked.
pub(super) fn is_as_long_as_it_says(pages: &[u8]) -> bool {
    let trailer = pages.last_chunk::<TRAILER>();
    let len = trailer.and_then(|trailer| take_u32(&mut &trailer[..]));
    len.is_some_and(|len| pages_for(len as usize) * PAGE == pages.len())
}

/// Checks the pages of a block and gives its stored payload.
pub(super) fn open_block(pages: &[u8], salt: u32, page: u32) -> Result<(Codec, &[u8]), Damage> {
    let split = pages.split_last_chunk::<4>();
    let Some((body, crc)) = split.filter(|_| pages.len() >= PAGE) else {
        return Err(Damage("a block ends early"));
    };
    if checksum(seed(salt, page), body) != u32::from_le_bytes(*crc) {
        return Err(Damage("a block's checksum does not match"));
    }
    let malformed = Damage("a block's trailer makes no sense");
    let (&codec, body) = body.split_last().ok_or(malformed)?;
    let (body, len) = body.split_last_chunk::<4>().ok_or(malformed)?;
    let len = u32::from_le_bytes(*len) as usize;
    if pages_for(len) * PAGE != pages.len() {
        return Err(malformed);
    }
    let codec = match codec {
        0 => Codec::Raw,
        1 => Codec::Lz4,
        2 => Codec::Zstd,
        _ => {
            return Err(Damage(
                "a block is compressed in a way this build does not know",
            ));
        }
    };
    Ok((codec, body.get(..len).ok_or(malformed)?))
}

/// The bytes that a stored payload takes in other memory once it is decompressed, as it says
/// itself; 0 of one that is not compressed.
pub(super) fn decoded_len(codec: Codec, mut stored: &[u8]) -> usize {
    match codec {
        Codec::Raw => 0,
        _ => take_u32(&mut stored).map_or(0, |len| len as usize),
    }
}

/// Appends a stored payload, decompressed, to `out`.
fn decode_into(codec: Codec, stored: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
    if codec == Codec::Raw {
        out.extend_from_slice(stored);
        return Ok(());
    }
    if let Some(feature) = codec.missing_feature() {
        return Err(DecodeError::Feature(feature));
    }
    let bad = DecodeError::Damage(Damage("a block cannot be decompressed"));
    let mut input = stored;
    let len = take_u32(&mut input).ok_or(bad)? as usize;
    if len > MAX_RAW {
        return Err(bad);
    }
    let start = out.len();
    out.resize(start + len, 0);
    let target = out.get_mut(start..).ok_or(bad)?;
    if decompress(codec, input, target) == Some(len) {
        Ok(())
    } else {
        Err(bad)
    }
}

/// Decompresses into `target`; how many bytes there are.
fn decompress(codec: Codec, input: &[u8], target: &mut [u8]) -> Option<usize> {
    match codec {
        #[cfg(feature = "lz4")]
        Codec::Lz4 => lz4_flex::block::decompress_into(input, target).ok(),
        #[cfg(feature = "zstd")]
        Codec::Zstd => {
            zstd_contexts::with(|context| context.decompress_to_buffer(input, target).ok())
        }
        _ => {
            let _ = (input, target);
            None
        }
    }
}

/// A stored payload, decompressed, in memory of its exact size.
pub(super) fn decode(codec: Codec, stored: &[u8]) -> Result<Box<[u8]>, DecodeError> {
    if codec == Codec::Raw {
        return Ok(stored.into());
    }
    let mut out = Vec::new();
    decode_into(codec, stored, &mut out)?;
    Ok(out.into_boxed_slice())
}

/// Checks the pages of a block and appends its payload, decompressed, to `out`.
pub(super) fn read_block_into(
    pages: &[u8],
    salt: u32,
    page: u32,
    out: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    let (codec, stored) = open_block(pages, salt, page)?;
    decode_into(codec, stored, out)
}

/// Checks the pages of a block and gives its payload, decompressed, in memory of its exact size.
#[cfg(any(test, all(fuzzing, feature = "testing")))]
pub(super) fn read_block(pages: &[u8], salt: u32, page: u32) -> Result<Box<[u8]>, DecodeError> {
    let (codec, stored) = open_block(pages, salt, page)?;
    decode(codec, stored)
}

/// The last page of a table file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Footer {
    /// Where the properties and the top-level index start, when they are in a block of their own.
    pub(super) meta_page: u32,
    /// That block's pages; 0 when they are in the footer page.
    pub(super) meta_pages: u32,
    /// The length of properties and top-level index in the footer page.
    pub(super) inline_len: u32,
    /// The table's salt.
    pub(super) salt: u32,
}

/// Why a page is no footer this build can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FooterError {
    Damage(Damage),
    Version(u32),
}

impl Footer {
    /// Appends the footer page, with `inline` (at most [`FOOTER_ROOM`] bytes) at its start.
    pub(super) fn seal(&self, inline: &[u8], version: u32, out: &mut AlignedBuf) {
        let start = out.len();
        out.extend_from_slice(inline);
        let padded = out.len();
        out.set_len(start + FOOTER_ROOM);
        if let Some(padding) = out.get_mut(padded..) {
            padding.fill(0);
        }
        for word in [
            self.meta_page,
            self.meta_pages,
            self.inline_len,
            self.salt,
            version,
        ] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        let crc = checksum(0, out.get(start..).unwrap_or_default());
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&MAGIC.to_le_bytes());
    }

    /// Checks the last page of a file; gives the footer and the bytes at the page's start.
    pub(super) fn open(page: &[u8]) -> Result<(Footer, &[u8]), FooterError> {
        let damage = |what| FooterError::Damage(Damage(what));
        let early = damage("the footer ends early");
        let (body, magic) = page.split_last_chunk::<8>().ok_or(early)?;
        if u64::from_le_bytes(*magic) != MAGIC {
            return Err(damage(
                "the file does not end as a table does; it may be truncated",
            ));
        }
        let (body, crc) = body.split_last_chunk::<4>().ok_or(early)?;
        if checksum(0, body) != u32::from_le_bytes(*crc) {
            return Err(damage("the footer's checksum does not match"));
        }
        let (inline, mut fixed) = body.split_at_checked(FOOTER_ROOM).ok_or(early)?;
        let mut word = || take_u32(&mut fixed).ok_or(early);
        let footer = Footer {
            meta_page: word()?,
            meta_pages: word()?,
            inline_len: word()?,
            salt: word()?,
        };
        let version = word()?;
        if version != FORMAT_VERSION {
            return Err(FooterError::Version(version));
        }
        let inline = inline
            .get(..footer.inline_len as usize)
            .ok_or(damage("the footer makes no sense"))?;
        Ok((footer, inline))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{Budget, Role};
    use crate::table::compressor::Compressor;

    #[test]
    fn blocks_round_trip_in_any_codec_and_only_in_their_place() {
        let raw: Vec<u8> = (0..20_000u32).flat_map(|i| (i / 7).to_le_bytes()).collect();
        let kinds = [Compression::None, Compression::Lz4, Compression::Zstd(3)];
        for kind in kinds
            .into_iter()
            .filter(|kind| kind.missing_feature().is_none())
        {
            let mut compressor = Compressor::new(kind);
            let mut memory = Budget::new(1 << 30).reserve(Role::Compaction, 0);
            let (codec, payload) =
                (compressor.compress(&raw, &mut memory)).unwrap_or((Codec::Raw, &raw));
            let mut out = AlignedBuf::new();
            out.extend_from_slice(&[7; PAGE]);
            let pages = seal_block(&mut out, payload, codec, 9, 5);
            assert_eq!(out.len(), PAGE * (1 + pages as usize));
            let block = &out[PAGE..];
            assert_eq!(&*read_block(block, 9, 5).unwrap(), raw.as_slice());
            assert!(read_block(block, 9, 6).is_err(), "another page");
            assert!(read_block(block, 8, 5).is_err(), "another table");
        }
    }

    /// Which of the two it is depends on how the tests are built; `.ci/run` builds them both ways.
    #[test]
    fn what_this_build_cannot_decompress_names_the_feature() {
        for (codec, feature, there) in [
            (Codec::Lz4, "lz4", cfg!(feature = "lz4")),
            (Codec::Zstd, "zstd", cfg!(feature = "zstd")),
        ] {
            let stored = [4, 0, 0, 0, 1, 2, 3, 4];
            let expected = if there {
                DecodeError::Damage(Damage("a block cannot be decompressed"))
            } else {
                DecodeError::Feature(feature)
            };
            assert_eq!(decode(codec, &stored), Err(expected));
        }
    }

    #[test]
    fn payloads_at_page_boundaries_fit_exactly() {
        for (len, pages) in [(0, 1), (PAGE_PAYLOAD, 1), (PAGE_PAYLOAD + 1, 2)] {
            let mut out = AlignedBuf::new();
            assert_eq!(seal_block(&mut out, &vec![3; len], Codec::Raw, 0, 0), pages);
            assert_eq!(read_block(&out, 0, 0).unwrap().len(), len);
        }
    }

    #[test]
    fn a_newer_footer_is_told_from_a_damaged_one() {
        let footer = Footer {
            meta_page: 3,
            meta_pages: 0,
            inline_len: 5,
            salt: 77,
        };
        let mut page = AlignedBuf::new();
        footer.seal(b"hello", FORMAT_VERSION, &mut page);
        assert_eq!(Footer::open(&page), Ok((footer, b"hello".as_slice())));
        for at in 0..PAGE {
            page[at] ^= 0x10;
            assert!(matches!(Footer::open(&page), Err(FooterError::Damage(_))));
            page[at] ^= 0x10;
        }
        let mut page = AlignedBuf::new();
        footer.seal(b"hello", FORMAT_VERSION + 1, &mut page);
        assert_eq!(
            Footer::open(&page),
            Err(FooterError::Version(FORMAT_VERSION + 1))
        );
        assert!(Footer::open(&page[..20]).is_err());
    }
}
