//! Values that many tables have alike, held once: what filters they have, and how their modules lie.
//!
//! Thread-safe; for values of which there are a few at a time, since each new one is compared with
//! all. Not charged to the budget: a few hundred bytes in all.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// The values in use.
#[derive(Debug)]
pub(crate) struct Interner<T: ?Sized>(Mutex<Vec<Weak<T>>>);

impl<T: ?Sized> Default for Interner<T> {
    fn default() -> Self {
        Interner(Mutex::default())
    }
}

impl<T: ?Sized + PartialEq> Interner<T> {
    /// The value like this one that is in use, or this one.
    pub(crate) fn share(&self, value: Arc<T>) -> Arc<T> {
        let mut known = self.0.lock();
        known.retain(|known| known.strong_count() > 0);
        let mut alive = known.iter().filter_map(Weak::upgrade);
        if let Some(alike) = alive.find(|known| **known == *value) {
            return alike;
        }
        known.push(Arc::downgrade(&value));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_alike_are_one_while_somebody_has_them() {
        let interner = Interner::<[u8]>::default();
        let first = interner.share([1, 2].into());
        let second = interner.share([1, 2].into());
        let other = interner.share([1, 3].into());
        assert!(Arc::ptr_eq(&first, &second) && !Arc::ptr_eq(&first, &other));
        assert_eq!(interner.0.lock().len(), 2);
        drop((first, second, other));
        assert_eq!(*interner.share([4].into()), [4]);
        assert_eq!(interner.0.lock().len(), 1);
    }
}
