//! Keys whose values are numbers, and what each has to be in the end. Plain data.
use crate::engine::data_model::number;
use crate::engine::{Engine, Write};
use crate::workload::{KeyKind, KeySpace, MAX_KEY};
use crate::{Error, Result};

/// Numbers under keys, and what they have to be.
pub(super) struct Numbers {
    pub(super) keys: KeySpace,
    expected: Vec<i64>,
}

impl Numbers {
    /// So many, all the same.
    pub(super) fn new(count: u64, value: i64) -> Self {
        Self {
            keys: KeySpace::new(KeyKind::Plain, count),
            expected: vec![value; count as usize],
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.keys.entries()
    }

    /// What the number of a key has to be more.
    pub(super) fn expect(&mut self, at: u64, more: i64) {
        if let Some(expected) = self.expected.get_mut(at as usize) {
            *expected += more;
        }
    }

    /// Writes them all.
    pub(super) fn fill(&self, engine: &dyn Engine) -> Result<()> {
        let mut key = [0; MAX_KEY];
        for (at, value) in (0..).zip(&self.expected) {
            let value = value.to_le_bytes();
            engine.write_batch(&[Write::Put(self.keys.key(at, &mut key), &value)])?;
        }
        Ok(())
    }

    /// Fails unless the engine has each number as it has to be; a key that was never written counts
    /// as 0.
    pub(super) fn check(&self, engine: &dyn Engine) -> Result<()> {
        let (mut key, mut value) = ([0; MAX_KEY], Vec::new());
        let (mut sum, mut wrong) = (0, 0_u64);
        for (at, &expected) in (0..).zip(&self.expected) {
            let written = engine.get(self.keys.key(at, &mut key), &mut value)?;
            let found = if written { number(&value)? } else { 0 };
            sum += found;
            wrong += u64::from(found != expected);
        }
        if wrong == 0 {
            return Ok(());
        }
        let total: i64 = self.expected.iter().sum();
        let count = self.count();
        Err(Error::WrongAnswer(format!(
            "{wrong} of {count} numbers are wrong; their sum is {sum}, not {total}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine;

    #[test]
    fn a_wrong_number_is_noticed_and_a_missing_one() {
        let engine = engine::map();
        let mut numbers = Numbers::new(10, 5);
        numbers.fill(engine.as_ref()).unwrap();
        numbers.check(engine.as_ref()).unwrap();
        // The sum stays as it was.
        numbers.expect(3, 1);
        numbers.expect(4, -1);
        let error = numbers.check(engine.as_ref()).unwrap_err();
        assert!(error.to_string().contains("2 of 10"), "{error}");
        let mut key = [0; MAX_KEY];
        for (at, number) in [(3, 6_i64), (4, 4)] {
            let key = numbers.keys.key(at, &mut key);
            engine.put(key, &number.to_le_bytes()).unwrap();
        }
        numbers.check(engine.as_ref()).unwrap();
        engine.delete(numbers.keys.key(3, &mut key)).unwrap();
        assert!(numbers.check(engine.as_ref()).is_err());
    }
}
