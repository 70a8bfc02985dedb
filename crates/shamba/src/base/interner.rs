//! Values that many tables have alike, held once: what filters they have, and how their modules
//! lie.
//!
//! Thread-safe. Who takes a value that nobody else has is charged for it ([`unpaid_bytes`]). A new
//! value is compared with those known, so no more than [`MOST`] are; others are not shared.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// The most values known at a time.
const MOST: usize = 64;

/// Bytes to charge to who has just got a value: all of it, or what the others have not paid for.
pub(crate) fn unpaid_bytes<T: ?Sized>(value: &Arc<T>, bytes: usize) -> usize {
    match Arc::strong_count(value) {
        1 => bytes,
        _ => 0,
    }
}

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
        if known.len() < MOST {
            known.push(Arc::downgrade(&value));
        }
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

    #[test]
    fn the_first_is_charged_and_only_so_many_are_known() {
        let interner = Interner::<usize>::default();
        let first = interner.share(Arc::new(0));
        assert_eq!(unpaid_bytes(&first, 8), 8);
        assert_eq!(unpaid_bytes(&interner.share(Arc::new(0)), 8), 0);
        let held: Vec<_> = (1..100).map(|n| interner.share(Arc::new(n))).collect();
        assert_eq!(interner.0.lock().len(), MOST);
        assert!(held.iter().all(|value| unpaid_bytes(value, 8) == 8));
        let unknown = interner.share(Arc::new(99));
        assert_eq!((*unknown, unpaid_bytes(&unknown, 8)), (99, 8));
    }
}
