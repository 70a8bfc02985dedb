//! Values that are a function of the entry's number, so that every answer can be checked.
use super::{Random, Sizes, mix};
use crate::{Error, Result};
use rand::Rng;
use rand_xoshiro::rand_core::SeedableRng;

/// How values look: their size, and which share of it compresses away.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueSpec {
    /// Bytes of a value; which value has how many follows from its entry's number.
    pub size: Sizes,
    /// The share of the bytes, 0 to 1, that any compressor removes (they are zeros).
    pub compressible: f64,
}

impl ValueSpec {
    /// Values of `size` random bytes.
    pub fn random(size: impl Into<Sizes>) -> Self {
        Self {
            size: size.into(),
            compressible: 0.0,
        }
    }

    /// The value of entry `number`, into `buf`, which is overwritten.
    pub fn write(&self, number: u64, buf: &mut Vec<u8>) {
        let mut random = Random::seed_from_u64(mix(number));
        let size = self.size.draw(&mut random);
        let noise = ((1.0 - self.compressible.clamp(0.0, 1.0)) * size as f64).round() as usize;
        buf.clear();
        buf.resize(size, 0);
        random.fill_bytes(&mut buf[..noise]);
    }

    /// Fails unless `found` is exactly the value of entry `number`. `scratch` is overwritten.
    pub fn check(&self, number: u64, found: &[u8], scratch: &mut Vec<u8>) -> Result<()> {
        self.write(number, scratch);
        if found == scratch.as_slice() {
            return Ok(());
        }
        Err(Error::WrongAnswer(format!(
            "entry {number}: a value of {} bytes that is not the one written ({} bytes)",
            found.len(),
            scratch.len()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_differ_by_entry_and_repeat() {
        let spec = ValueSpec::random(32);
        let value = |number| {
            let mut buf = vec![1; 7];
            spec.write(number, &mut buf);
            buf
        };
        assert_eq!(value(1), value(1));
        assert_ne!(value(1), value(2));
        assert_eq!(value(1).len(), 32);
    }

    #[test]
    fn the_compressible_share_is_zeros() {
        let spec = ValueSpec {
            size: Sizes::Fixed(1000),
            compressible: 0.5,
        };
        let mut buf = Vec::new();
        spec.write(3, &mut buf);
        let zeros = buf.iter().filter(|b| **b == 0).count();
        assert!((500..520).contains(&zeros), "{zeros}");
    }

    #[test]
    fn a_changed_byte_is_noticed() {
        let spec = ValueSpec::random(8);
        let mut buf = Vec::new();
        spec.write(9, &mut buf);
        spec.check(9, &buf, &mut Vec::new()).unwrap();
        buf[3] ^= 1;
        assert!(spec.check(9, &buf, &mut Vec::new()).is_err());
    }
}
