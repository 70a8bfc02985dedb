//! The catalog: which keyspaces there are, created and dropped by name.
//!
//! A change is an edit of the manifest first, then of the maps that writers and background threads
//! look at, under both locks.

use std::sync::Arc;

use super::DbInner;
use super::batch::DEFAULT_KEYSPACE;
use super::keyspaces::KeyspaceInner;
use crate::error::{Error, Result};
use crate::options::KeyspaceOptions;
use crate::version::VersionEdit;

impl DbInner {
    pub(crate) fn create_keyspace(
        &self,
        name: &str,
        options: KeyspaceOptions,
    ) -> Result<Arc<KeyspaceInner>> {
        options.validate()?;
        self.shared().check_writable()?;
        if name.is_empty() || name.len() > 255 {
            return Err(Error::option(
                "name",
                "a keyspace's name has 1 to 255 bytes",
            ));
        }
        let memory = self.shared().keyspaces().reserve(self.shared().budget());
        let mut writer = self.memtables().lock();
        let mut tree = self.files().tree();
        if tree.manifest.state().keyspace_named(name).is_some() {
            return Err(Error::KeyspaceExists {
                name: name.to_owned(),
            });
        }
        // This one is among them.
        self.shared().keyspaces().check(0, self.shared().limit())?;
        let id = tree.manifest.state().next_keyspace;
        // Nothing logged before this moment is the new keyspace's.
        self.files()
            .log_edit(&mut tree, VersionEdit::create_keyspace(id, name))?;
        if options.auto_design.is_some() {
            self.advisor().begin_to_ask();
        }
        let (name, version) = (name.to_owned(), Arc::default());
        let time = self.shared().options().memory.cache().policy();
        let inner = KeyspaceInner::new(id, name, options, version, 0, memory, time);
        let inner = Arc::new(inner);
        tree.add_keyspace(&inner);
        writer.keyspaces.insert(id, inner.clone());
        Ok(inner)
    }

    pub(crate) fn drop_keyspace(&self, name: &str) -> Result<()> {
        self.shared().check_writable()?;
        let mut writer = self.memtables().lock();
        let mut tree = self.files().tree();
        let keyspace = tree.keyspace_named(name).cloned();
        let keyspace = keyspace.ok_or_else(|| Error::KeyspaceNotFound {
            name: name.to_owned(),
        })?;
        if keyspace.id() == DEFAULT_KEYSPACE {
            return Err(Error::option(
                "name",
                "the default keyspace cannot be dropped",
            ));
        }
        self.files()
            .log_edit(&mut tree, VersionEdit::drop_keyspace(keyspace.id()))?;
        tree.remove_keyspace(&keyspace);
        writer.keyspaces.remove(&keyspace.id());
        keyspace.drop_contents(self.shared().budget());
        self.files().due().dropped(&keyspace);
        self.shared().signal().notify();
        Ok(())
    }
}
