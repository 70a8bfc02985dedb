//! Options of filters for scans, and functions of the caller's that say what the prefixes of keys
//! are.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::check::range;
use super::{KeyspaceOptions, Options};
use crate::error::{Error, Result};
use crate::filter::{Prefix, PrefixFunction, PrefixRule, ScanRule};

/// Bits per key of filters of ranges. Of fewer one range in two or more would pass; with more keys
/// themselves could be kept.
const LEAST_RANGE_BITS: f64 = 4.0;
const MOST_RANGE_BITS: f64 = 32.0;

/// Checks what a keyspace is to have filters for scans of.
///
/// # Errors
/// [`Error::InvalidOption`].
pub(super) fn validate_scan_filter(options: &KeyspaceOptions) -> Result<()> {
    options.prefix.iter().try_for_each(Prefix::validate)?;
    let bits = options.range_filter.unwrap_or(LEAST_RANGE_BITS);
    range("range_filter", bits, LEAST_RANGE_BITS, MOST_RANGE_BITS)?;
    if options.prefix.is_some() && options.range_filter.is_some() {
        let what = "a keyspace has filters of prefixes or of ranges, not both";
        return Err(Error::option("range_filter", what));
    }
    Ok(())
}

/// Functions by their names.
#[derive(Clone, Default)]
pub(crate) struct PrefixFunctions(BTreeMap<String, Arc<PrefixFunction>>);

impl PrefixFunctions {
    /// What the tables of a keyspace have filters for scans of; `None` where its options say
    /// nothing of it, or name a function that was not given.
    pub(crate) fn scan_rule(&self, options: &KeyspaceOptions) -> Option<Arc<ScanRule>> {
        if let Some(bits) = options.range_filter {
            let millibits = (bits * 1000.0) as u32;
            return Some(Arc::new(ScanRule::Ranges { millibits }));
        }
        let rule = PrefixRule::of(options.prefix.as_ref()?, |name| {
            let function = self.0.get(name).cloned();
            if function.is_none() {
                log::warn!("no function {name} was given: scans ask no filters of its prefixes");
            }
            function
        });
        rule.map(ScanRule::Prefixes).map(Arc::new)
    }

    /// Checks options that an open names.
    pub(super) fn validate(&self, options: &KeyspaceOptions) -> Result<()> {
        options.validate()?;
        self.check(options)
    }

    /// Refuses options that name a function which was not given.
    pub(crate) fn check(&self, options: &KeyspaceOptions) -> Result<()> {
        match &options.prefix {
            Some(Prefix::Function(name)) if !self.0.contains_key(name) => Err(Error::option(
                "prefix",
                format!("no function was given of the name {name} (`Options::prefix_function`)"),
            )),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for PrefixFunctions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Options {
    /// Gives the function of a name, for keyspaces whose options name it
    /// ([`Prefix::Function`]). It says how many of the first bytes of a key are its prefix, 1 to
    /// 255, or that it has none.
    ///
    /// Bytes are a prefix if the function says so of them: that all of them are. It is asked about
    /// beginnings of keys, too, of which a key may have several that are prefixes. One that panics,
    /// or says more bytes than there are, says that there is none. It must say the same of the same
    /// bytes each time and at every open: another function needs another name, and filters of the
    /// one are not asked for the other. Else scans may miss keys.
    ///
    /// It is not kept. Where options that are kept name a function that an open does not give,
    /// scans ask no filters, and new tables have none.
    ///
    /// ```
    /// # fn main() -> shamba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use shamba::{KeyspaceOptions, Options, Prefix};
    /// let directory = |path: &[u8]| path.iter().rposition(|byte| *byte == b'/').map(|at| at + 1);
    /// let db = Options::new()
    ///     .prefix_function("directory", directory)
    ///     .keyspace(KeyspaceOptions::new().prefix(Prefix::Function("directory".to_owned())))
    ///     .open(dir.path())?;
    /// db.put("usr/lib/libm.so", "")?;
    /// assert_eq!(db.prefix("usr/").count(), 1);
    /// assert_eq!(db.prefix("usr/share/").count(), 0);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn prefix_function(
        mut self,
        name: impl Into<String>,
        function: impl Fn(&[u8]) -> Option<usize> + Send + Sync + 'static,
    ) -> Self {
        let functions = &mut self.prefix_functions.0;
        functions.insert(name.into(), Arc::new(function));
        self
    }
}
