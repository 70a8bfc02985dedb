//! How much memory this process may use: the least of its control groups' limits and the machine's
//! memory.
//!
//! Pure functions over the texts of `/proc/self/cgroup`, the groups' limit files and
//! `/proc/meminfo`; the caller passes the function that reads a file (`fs::container::read_small`).

/// The assumed memory where the system says nothing, in bytes.
const UNKNOWN_SYSTEM: u64 = 1 << 30;

/// Limits from here on mean "no limit" (version 1 groups state it as about 2^63), in bytes.
const ABSURD: u64 = 1 << 50;

/// Bytes of memory this process may use, by the limits of its control groups of either version
/// (those above it included) and the machine's memory.
pub(crate) fn container_memory(read: impl Fn(&str) -> Option<String>) -> u64 {
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    let physical = read("/proc/meminfo").and_then(|text| physical_memory(&text));
    limit_files(&groups)
        .iter()
        .filter_map(|path| parse_limit(&read(path)?))
        .chain(physical)
        .min()
        .unwrap_or(UNKNOWN_SYSTEM)
}

/// The files that may limit the process, given the text of `/proc/self/cgroup`. Inside a container
/// the path stated there can be the host's, which is not visible: the walk up to the mount's root
/// then still meets the container's own limit.
fn limit_files(groups: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let mounts: &[(&str, &str)] = if controllers.is_empty() {
            &[
                ("/sys/fs/cgroup", "memory.max"),
                ("/sys/fs/cgroup/unified", "memory.max"),
            ]
        } else if controllers.split(',').any(|name| name == "memory") {
            &[("/sys/fs/cgroup/memory", "memory.limit_in_bytes")]
        } else {
            continue;
        };
        for (mount, file) in mounts {
            let mut path = path.trim_end_matches('/');
            loop {
                files.push(format!("{mount}{path}/{file}"));
                match path.rfind('/') {
                    Some(parent) => path = path.get(..parent).unwrap_or_default(),
                    None => break,
                }
            }
        }
    }
    files
}

/// A limit file's number, or `None` when it states no limit that can be meant.
fn parse_limit(text: &str) -> Option<u64> {
    text.trim()
        .parse()
        .ok()
        .filter(|&bytes| bytes > 0 && bytes < ABSURD)
}

/// The machine's memory in bytes, from the text of `/proc/meminfo`.
fn physical_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024).filter(|&bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: (&str, &str) = (
        "/proc/meminfo",
        "MemTotal:        8000000 kB\nMemFree:   1 kB\n",
    );

    fn memory(files: &[(&str, &str)]) -> u64 {
        container_memory(|path| {
            files
                .iter()
                .find(|(name, _)| *name == path)
                .map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn the_machine_bounds_a_process_without_groups() {
        assert_eq!(memory(&[MEMINFO]), 8_192_000_000);
        assert_eq!(memory(&[]), UNKNOWN_SYSTEM);
    }

    #[test]
    fn version_2_takes_the_least_limit_up_to_the_root() {
        let groups = ("/proc/self/cgroup", "0::/a/b\n");
        let leaf = ("/sys/fs/cgroup/a/b/memory.max", "max\n");
        let parent = ("/sys/fs/cgroup/a/memory.max", "5000\n");
        let root = ("/sys/fs/cgroup/memory.max", "7000\n");
        assert_eq!(memory(&[MEMINFO, groups, leaf, parent, root]), 5000);
        assert_eq!(memory(&[MEMINFO, groups, leaf, root]), 7000);
        assert_eq!(memory(&[MEMINFO, groups, leaf]), 8_192_000_000);
    }

    #[test]
    fn version_1_reads_the_memory_controller() {
        let groups = (
            "/proc/self/cgroup",
            "5:cpu,cpuacct:/x\n4:memory:/docker/id\n0::/\n",
        );
        let own = (
            "/sys/fs/cgroup/memory/docker/id/memory.limit_in_bytes",
            "3000\n",
        );
        let other = ("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1000\n");
        assert_eq!(memory(&[MEMINFO, groups, own, other]), 3000);
        let hidden = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "4000\n");
        assert_eq!(memory(&[MEMINFO, groups, hidden]), 4000);
    }

    #[test]
    fn nonsense_limits_are_ignored() {
        let groups = ("/proc/self/cgroup", "junk\n4:memory:/\n");
        for text in ["9223372036854771712\n", "0\n", "-1\n", "", "12k\n"] {
            let file = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", text);
            assert_eq!(memory(&[MEMINFO, groups, file]), 8_192_000_000, "{text:?}");
        }
    }
}
