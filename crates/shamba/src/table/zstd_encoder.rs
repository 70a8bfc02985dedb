//! Zstandard as tables are compressed with it: what bounds its memory, and what compresses so. One
//! owner. Without the feature `zstd` there is no [`ZstdEncoder`], and the bounds are only numbers.

#[cfg(feature = "zstd")]
pub(super) use encoder::ZstdEncoder;
#[cfg(not(feature = "zstd"))]
pub(super) use none::ZstdEncoder;

/// What bounds the memory of compressing with Zstandard. Left to itself it takes what fits the
/// data, which for the largest entries is tens of MiB at high levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ZstdBounds {
    level: i32,
    /// The logarithm of the window, in bytes.
    window_log: u32,
}

/// Blocks of several entries are shorter than 64 KiB, so that a longer window gains only for single
/// entries, little.
const MOST_WINDOW_LOG: u32 = 17;

/// From the level after this on Zstandard looks for what is best with tables of their own.
const ZSTD_QUICK: i32 = 9;

/// Below this budget there is no memory for that.
const ZSTD_BEST_FROM: u64 = 16 << 20;

impl ZstdBounds {
    /// Those of a level under a limit. The window is a 256th of it, so that what Zstandard takes,
    /// about ten windows, leaves room for a merge and a flush at once under the least one; half of
    /// that where it takes more.
    pub(super) fn of(level: i32, limit: u64) -> Self {
        let level = if limit < ZSTD_BEST_FROM {
            level.min(ZSTD_QUICK)
        } else {
            level
        };
        let share = if level > ZSTD_QUICK { 512 } else { 256 };
        let window_log = (limit / share).max(1 << 10).ilog2();
        ZstdBounds {
            level,
            window_log: window_log.min(MOST_WINDOW_LOG),
        }
    }

    /// The most that it takes, in bytes. A test compares it with what Zstandard says.
    pub(super) fn memory(self) -> u64 {
        let (windows, fixed) = if self.level > ZSTD_QUICK {
            (14, 208 << 10)
        } else {
            (10, 18 << 10)
        };
        windows * (1 << self.window_log) + fixed
    }
}

#[cfg(feature = "zstd")]
mod encoder {
    use super::ZstdBounds;
    use zstd::bulk::Compressor;
    use zstd::zstd_safe::{CParameter, compress_bound};

    /// A context to compress with.
    pub(in crate::table) struct ZstdEncoder {
        bounds: ZstdBounds,
        context: Compressor<'static>,
    }

    impl ZstdEncoder {
        /// The most bytes that so many become.
        pub(in crate::table) fn bound(raw: usize) -> Option<usize> {
            Some(compress_bound(raw))
        }

        /// One within bounds; `None` when it cannot be made. Its tables have half as many entries
        /// as the window has bytes.
        pub(in crate::table) fn new(bounds: ZstdBounds) -> Option<Self> {
            let mut context = Compressor::new(bounds.level).ok()?;
            for parameter in [
                CParameter::WindowLog(bounds.window_log),
                CParameter::HashLog(bounds.window_log - 1),
                CParameter::ChainLog(bounds.window_log - 1),
            ] {
                context.set_parameter(parameter).ok()?;
            }
            Some(ZstdEncoder { bounds, context })
        }

        pub(in crate::table) fn bounds(&self) -> ZstdBounds {
            self.bounds
        }

        /// Compresses into `target`; how many bytes it became.
        pub(in crate::table) fn compress(
            &mut self,
            raw: &[u8],
            target: &mut [u8],
        ) -> Option<usize> {
            self.context.compress_to_buffer(raw, target).ok()
        }

        /// What Zstandard says that it takes.
        #[cfg(test)]
        pub(in crate::table) fn measured(&mut self) -> usize {
            self.context.context_mut().sizeof()
        }
    }
}

#[cfg(not(feature = "zstd"))]
mod none {
    use super::ZstdBounds;

    /// There is none: options that ask for one are refused.
    pub(in crate::table) enum ZstdEncoder {}

    impl ZstdEncoder {
        pub(in crate::table) fn bound(_raw: usize) -> Option<usize> {
            None
        }

        pub(in crate::table) fn new(_bounds: ZstdBounds) -> Option<Self> {
            None
        }

        pub(in crate::table) fn bounds(&self) -> ZstdBounds {
            match *self {}
        }

        pub(in crate::table) fn compress(
            &mut self,
            _raw: &[u8],
            _target: &mut [u8],
        ) -> Option<usize> {
            match *self {}
        }
    }
}
