//! Which databases this process has open to write, and what keeps each open, so that an open that
//! is refused can say it. Thread-safe; looking at a database does not hold it.

use std::path::Path;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::db::DbShared;
use crate::db::close::HeldCounts;
use crate::error::Holders;

struct OpenDatabase {
    counts: Arc<HeldCounts>,
    /// For the number of its handles of all kinds: it is never upgraded, for what dropped the last
    /// of them means to have closed it.
    db: Weak<DbShared>,
}

static OPEN: Mutex<Vec<(Box<Path>, OpenDatabase)>> = Mutex::new(Vec::new());

/// Adds a database that was opened to write.
pub(super) fn add(dir: &Path, db: &Arc<DbShared>) {
    let opened = OpenDatabase {
        counts: Arc::clone(db.counts()),
        db: Arc::downgrade(db),
    };
    let mut open = OPEN.lock();
    open.retain(|(_, known)| known.db.strong_count() > 0 && !known.counts.is_closed());
    open.push((dir.into(), opened));
}

/// What keeps the database of a folder open in this process, if that is known. Not where there are
/// several, in file systems of their own.
pub(super) fn holders(dir: &Path) -> Option<Holders> {
    let open = OPEN.lock();
    let mut here = open.iter().filter_map(|(path, known)| {
        let handles = known.db.strong_count();
        let holds = **path == *dir && handles > 0 && !known.counts.is_closed();
        holds.then(|| known.counts.of(handles))
    });
    let first = here.next();
    first.filter(|_| here.next().is_none())
}
