//! Numbers and byte strings taken off the front of a fuzzer's input. When it is used up, everything
//! is 0 or empty.

/// What is left of an input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// A byte string behind its length, of two bytes.
    pub(crate) fn chunk(&mut self) -> &'a [u8] {
        let len = usize::from(self.u16());
        self.take(len)
    }
}

/// An input that [`Input::chunk`] takes apart again.
pub(crate) fn chunked<'a>(head: &[u8], chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = head.to_vec();
    for chunk in chunks {
        let len = u16::try_from(chunk.len()).expect("a short chunk");
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(chunk);
    }
    out
}
