//! An `Arc` that is set once or never, in one word: a `OnceLock<Arc<T>>` takes two.
//!
//! Thread-safe. Reading it is one load.
#![expect(unsafe_code, reason = "a pointer stands for the count that it owns")]

use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

/// An `Arc`, or none yet.
pub(crate) struct OnceArc<T> {
    /// Null, or of `Arc::into_raw`: never changed again then.
    at: AtomicPtr<T>,
    owns: PhantomData<Arc<T>>,
}

impl<T> OnceArc<T> {
    /// None yet.
    pub(crate) const fn new() -> Self {
        OnceArc {
            at: AtomicPtr::new(ptr::null_mut()),
            owns: PhantomData,
        }
    }

    /// What it was set to.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: the pointer is null or that of an `Arc` of which this owns a count.
        unsafe { self.at.load(Ordering::Acquire).as_ref() }
    }

    /// A holder more of what it was set to.
    pub(crate) fn to_arc(&self) -> Option<Arc<T>> {
        // Not by way of a reference, which stands for the value alone and not for the counts beside
        // it.
        let at = self.at.load(Ordering::Acquire);
        if at.is_null() {
            return None;
        }
        // SAFETY: it is of `Arc::into_raw`, and this owns a count beside the one that is made here.
        unsafe {
            Arc::increment_strong_count(at);
            Some(Arc::from_raw(at))
        }
    }

    /// Sets it, if it is not set yet, and says what it is now.
    pub(crate) fn get_or_set(&self, value: Arc<T>) -> &T {
        let own = Arc::into_raw(value).cast_mut();
        let null = ptr::null_mut();
        let set = (self.at).compare_exchange(null, own, Ordering::AcqRel, Ordering::Acquire);
        match set {
            // SAFETY: the count that was the caller's is this one's now.
            Ok(_) => unsafe { &*own },
            Err(other) => {
                // SAFETY: `own` came from `Arc::into_raw` just now; `other` as in `get`.
                unsafe {
                    drop(Arc::from_raw(own));
                    &*other
                }
            }
        }
    }
}

impl<T> Default for OnceArc<T> {
    fn default() -> Self {
        OnceArc::new()
    }
}

impl<T> From<Arc<T>> for OnceArc<T> {
    fn from(value: Arc<T>) -> Self {
        let once = OnceArc::new();
        once.get_or_set(value);
        once
    }
}

impl<T> Drop for OnceArc<T> {
    fn drop(&mut self) {
        let at = *self.at.get_mut();
        if !at.is_null() {
            // SAFETY: the count is this one's, and nobody sees it any more.
            drop(unsafe { Arc::from_raw(at) });
        }
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for OnceArc<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_set_once_and_owns_a_count() {
        let (first, second) = (Arc::new(1), Arc::new(2));
        let once = OnceArc::new();
        assert_eq!((once.get(), once.to_arc()), (None, None));
        assert_eq!(*once.get_or_set(Arc::clone(&first)), 1);
        assert_eq!(*once.get_or_set(Arc::clone(&second)), 1);
        let held = once.to_arc().unwrap();
        assert!(Arc::ptr_eq(&held, &first));
        assert_eq!(
            (Arc::strong_count(&first), Arc::strong_count(&second)),
            (3, 1)
        );
        drop((once, held));
        assert_eq!(Arc::strong_count(&first), 1);
        assert_eq!(OnceArc::from(second).get(), Some(&2));
        assert_eq!(size_of::<OnceArc<u8>>(), 8);
    }
}
