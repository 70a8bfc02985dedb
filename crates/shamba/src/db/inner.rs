//! The database proper: its components, put together once. Thread-safe, as each of them is.

use std::sync::Arc;

use super::background::Background;
use super::background::reload::Reload;
use super::buffers::{Memtables, WalFiles, Writer};
use super::context::DbContext;
use super::files::Files;
use super::jobs::{Compactor, Flusher, Jobs, TableMaker};
use super::keyspaces::KeyspaceInner;
use super::read::ReadPath;
use super::tuning::{Advisor, Redesigner};
use super::visibility::Visibility;
use super::write::WritePath;

/// The components of a database; threads and handles share them.
pub(crate) struct DbInner {
    shared: Arc<DbContext>,
    visibility: Arc<Visibility>,
    files: Arc<Files>,
    wal: Arc<WalFiles>,
    memtables: Arc<Memtables>,
    jobs: Arc<Jobs>,
    flusher: Arc<Flusher>,
    compactor: Arc<Compactor>,
    redesigner: Arc<Redesigner>,
    advisor: Arc<Advisor>,
    background: Arc<Background>,
    writes: WritePath,
    reads: ReadPath,
    default_keyspace: Arc<KeyspaceInner>,
}

impl std::fmt::Debug for DbInner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db")
            .field("dir", &self.shared.dir())
            .field("visible", &self.visibility.newest())
            .finish_non_exhaustive()
    }
}

/// Makes an accessor of each component.
macro_rules! components {
    ($($name:ident: $type:ty),* $(,)?) => {
        $(
            #[inline]
            pub(super) fn $name(&self) -> &$type {
                &self.$name
            }
        )*
    };
}

impl DbInner {
    /// Puts a database together whose logs have come to a position.
    pub(super) fn new(
        (shared, visibility): (Arc<DbContext>, Arc<Visibility>),
        files: Files,
        (position, writer): (u64, Writer),
        default_keyspace: Arc<KeyspaceInner>,
    ) -> DbInner {
        // In the order in which they know each other: each is given those before it.
        let context = (&shared, &visibility);
        let files = Arc::new(files);
        let wal = Arc::new(WalFiles::new(&shared, &files, &visibility, position));
        let memtables = Arc::new(Memtables::new(&shared, &wal, writer));
        let jobs = Arc::new(Jobs::new(&shared, &files));
        let maker = Arc::new(TableMaker::new(&shared, &files));
        let making = (&jobs, &maker);
        let flusher = Arc::new(Flusher::new(context, &files, (&wal, &memtables), making));
        let compactor = Arc::new(Compactor::new(context, &files, making, &flusher));
        let redesigner = Arc::new(Redesigner::new(&shared, &files, &compactor));
        let advisor = Arc::new(Advisor::new(&shared, &files, &compactor, &redesigner));
        // Last, those who decide what the others do and when.
        let background = Arc::new(Background::new(
            context,
            (&files, &memtables),
            (&jobs, &flusher, &compactor),
            (&redesigner, &advisor),
        ));
        DbInner {
            writes: WritePath::new(context, (&wal, &memtables), &background, &default_keyspace),
            reads: ReadPath::new(context, &files, &background),
            shared,
            visibility,
            files,
            wal,
            memtables,
            jobs,
            flusher,
            compactor,
            redesigner,
            advisor,
            background,
            default_keyspace,
        }
    }

    /// What brings back into memory what was there before the database was closed.
    pub(super) fn reload(&self) -> Reload {
        let context = (&self.shared, &self.visibility);
        let reads = ReadPath::new(context, &self.files, &self.background);
        Reload::new(&self.shared, &self.files, reads)
    }

    components! {
        shared: DbContext,
        visibility: Visibility,
        files: Files,
        wal: WalFiles,
        memtables: Memtables,
        jobs: Jobs,
        flusher: Flusher,
        compactor: Compactor,
        redesigner: Redesigner,
        advisor: Advisor,
        background: Arc<Background>,
        writes: WritePath,
        reads: ReadPath,
        default_keyspace: Arc<KeyspaceInner>,
    }
}
