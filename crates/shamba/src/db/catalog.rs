//! The catalog: which keyspaces there are, created, altered and dropped by name.
//!
//! A change is an edit of the manifest first, then of the maps that writers and background threads
//! look at, under both locks.

use std::sync::Arc;

use super::DbInner;
use super::batch::DEFAULT_KEYSPACE;
use super::keyspaces::KeyspaceInner;
use crate::error::{Error, Result};
use crate::operator::Operator;
use crate::options::{KeptOptions, KeyspaceOptions};
use crate::version::VersionEdit;

/// What [`DbInner::create_keyspace`] does where there is one of the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfExists {
    /// It gives it, as it is.
    Open,
    /// [`Error::KeyspaceExists`].
    Refuse,
}

impl DbInner {
    /// The keyspace of a name.
    pub(crate) fn keyspace_named(&self, name: &str) -> Result<Arc<KeyspaceInner>> {
        let tree = self.files().tree();
        let found = tree.keyspace_named(name).cloned();
        found.ok_or_else(|| Error::KeyspaceNotFound {
            name: name.to_owned(),
        })
    }

    pub(crate) fn create_keyspace(
        &self,
        name: &str,
        options: KeyspaceOptions,
        if_exists: IfExists,
    ) -> Result<Arc<KeyspaceInner>> {
        // Mostly it is there, and no lock of writers is to be taken.
        if if_exists == IfExists::Open {
            self.shared().check_open()?;
            if let Ok(found) = self.keyspace_named(name) {
                return Ok(found);
            }
        }
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
        if let Some(found) = tree.keyspace_named(name) {
            return match if_exists {
                IfExists::Open => Ok(found.clone()),
                IfExists::Refuse => Err(Error::KeyspaceExists {
                    name: name.to_owned(),
                }),
            };
        }
        // This one is among them.
        self.shared().keyspaces().check(0, self.shared().limit())?;
        let functions = &self.shared().options().prefix_functions;
        functions.check(&options)?;
        let scan_rule = functions.scan_rule(&options);
        let operator = self.shared().options().merge_operators.of(name, None)?;
        let id = tree.manifest.state().next_keyspace;
        // Nothing logged before this moment is the new keyspace's.
        self.files().log_edit(
            &mut tree,
            VersionEdit::create_keyspace_of(
                id,
                name,
                KeptOptions::encode(&options),
                operator.as_ref().map(Operator::name),
            ),
        )?;
        if options.auto_design.is_some() {
            self.advisor().begin_to_ask();
        }
        let (name, version) = (name.to_owned(), Arc::default());
        let cache = self.shared().options().memory.cache();
        let inner = KeyspaceInner::new(id, name, options, version, 0, memory, cache);
        inner.set_operator(operator);
        inner.set_scan_rule(scan_rule);
        let inner = Arc::new(inner);
        tree.add_keyspace(&inner);
        writer.keyspaces.insert(id, inner.clone());
        Ok(inner)
    }

    /// Gives a keyspace other options.
    pub(crate) fn alter_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<()> {
        let keyspace = self.keyspace_named(name)?;
        let asks_designs = options.auto_design.is_some();
        self.redesigner().alter(&keyspace, options)?;
        if asks_designs {
            self.advisor().begin_to_ask();
        }
        Ok(())
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
        let cache = self.shared().options().memory.cache();
        cache.end_entries([keyspace.entries()]);
        self.files().due().dropped(&keyspace);
        self.shared().signal().notify();
        Ok(())
    }
}
