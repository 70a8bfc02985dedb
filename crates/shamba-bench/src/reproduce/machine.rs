//! On what machine, with which build, and when something was measured.
use crate::provenance::Build;
use std::process::Command;

/// Where and when something was measured.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Place {
    /// The program that measured.
    pub build: Build,
    /// Processor, cores, memory.
    pub machine: String,
    /// Operating system and kernel.
    pub system: String,
    /// The day, in UTC.
    pub date: String,
}

impl Place {
    /// This machine, this day, the commit that the program is of.
    pub fn here() -> Self {
        let said = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output().ok()?;
            let text = String::from_utf8(output.stdout).ok()?;
            (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
        };
        let unknown = || "unknown".to_owned();
        let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = field(&cpu, "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
        let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let memory = field(&memory, "MemTotal").and_then(|text| {
            let kib: f64 = text.split(' ').next()?.parse().ok()?;
            Some(format!(", {:.0} GiB", kib / f64::from(1 << 20)))
        });
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            build: Build::running().clone(),
            machine: format!("{cpu}, {cores} cores{}", memory.unwrap_or_default()),
            system: said("uname", &["-sr"]).unwrap_or_else(unknown),
            date: said("date", &["-u", "+%F"]).unwrap_or_else(unknown),
        }
    }
}

/// The value of the first line `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_says_what_it_is() {
        let here = Place::here();
        assert!(here.machine.contains("cores"), "{here:?}");
    }
}
