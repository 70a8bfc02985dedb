//! Of which build a measurement is: rows, trials and experiments carry it, and a run that is
//! resumed takes none of another build.
use std::sync::OnceLock;

/// The program that measures.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Build {
    /// The commit that was built, `-dirty` if files differed from it; `unknown` outside a
    /// checkout.
    pub commit: String,
    /// XXH3 (128 bits) of the program's file, in hexadecimal digits; `unknown` if it cannot be
    /// read.
    pub binary: String,
}

impl Build {
    /// The one that runs.
    pub fn running() -> &'static Build {
        static BUILD: OnceLock<Build> = OnceLock::new();
        BUILD.get_or_init(|| {
            let program = std::env::current_exe().and_then(std::fs::read);
            let digest = |bytes: Vec<u8>| format!("{:032x}", xxhash_rust::xxh3::xxh3_128(&bytes));
            Build {
                commit: env!("SHAMBA_COMMIT").to_owned(),
                binary: program.map_or_else(|_| "unknown".to_owned(), digest),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_build_is_known() {
        let build = Build::running();
        assert!(!build.commit.is_empty());
        assert_eq!(build.binary.len(), 32, "{build:?}");
        assert_eq!(build, Build::running());
    }
}
