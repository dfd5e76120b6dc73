//! Memory that this process may use, and memory that it gives back.

use core::time::Duration;
use parking_lot::Mutex;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

/// Bytes that this process may still use: the least of the limits of its control groups (v2 and v1), of
/// `RLIMIT_AS` and `RLIMIT_DATA` less what is in use, and of the memory of the machine. `None` if the system
/// tells none of them.
pub(crate) fn available() -> Option<u64> {
    let root = Path::new("/");
    [cgroups(root), limits(root), machine(root)].into_iter().flatten().min()
}

/// The least limit of the control groups of this process and of those that contain them.
fn cgroups(root: &Path) -> Option<u64> {
    let list = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mut least: Option<u64> = None;
    for line in list.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let (mount, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            all if all.split(',').any(|name| name == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // A process in a container sees its own group at the root of the mount.
        let mount = root.join(mount);
        let mut folder: PathBuf = mount.join(path.trim_start_matches('/'));
        loop {
            let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
            // "max" is no limit; v1 writes a number near 2^63.
            let limit = text.trim().parse().ok().filter(|limit| *limit < 1 << 60);
            least = least.into_iter().chain(limit).min();
            if folder == mount || !folder.pop() {
                break;
            }
        }
    }
    least
}

/// What the limits of the process leave of address space and data.
fn limits(root: &Path) -> Option<u64> {
    let limits = fs::read_to_string(root.join("proc/self/limits")).ok()?;
    let status = fs::read_to_string(root.join("proc/self/status")).ok()?;
    let limit = |name: &str| {
        let rest = limits.lines().find_map(|line| line.strip_prefix(name))?;
        rest.split_whitespace().next()?.parse::<u64>().ok()
    };
    let used = |name: &str| {
        let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(rest.split_whitespace().next()?.parse::<u64>().ok()? << 10)
    };
    let left = |name, used: Option<u64>| Some(limit(name)?.saturating_sub(used.unwrap_or(0)));
    let space = left("Max address space", used("VmSize:"));
    let data = left("Max data size", used("VmData:"));
    space.into_iter().chain(data).min()
}

/// Memory of the machine.
fn machine(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(rest.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// Time in which further memory is freed before it is given back.
const TOGETHER: Duration = Duration::from_secs(1);

/// Gives memory that was freed back to the system, in a thread of its own; it may take milliseconds. The
/// allocator of glibc keeps it otherwise, between blocks that are still in use.
pub(crate) fn trim() {
    static WAITING: AtomicBool = AtomicBool::new(false);
    trim_after(TOGETHER, &WAITING, release);
}

/// Calls `release` in a thread after a pause, unless a thread is waiting to do so already.
fn trim_after(pause: Duration, waiting: &'static AtomicBool, release: impl FnOnce() + Send + 'static) {
    if waiting.swap(true, Ordering::AcqRel) {
        return;
    }
    let trimmed = std::thread::Builder::new().name("zwire-trim".to_owned()).spawn(move || {
        // Many links may end together.
        std::thread::sleep(pause);
        // Not behind the release: what is freed meanwhile may be where it has been already.
        waiting.store(false, Ordering::Release);
        release();
    });
    if let Err(error) = trimmed {
        tracing::debug!(%error, "no thread to give memory back to the system: trying after the next release");
        waiting.store(false, Ordering::Release);
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "malloc_trim has no precondition; it locks the arenas that it trims")]
fn release() {
    // SAFETY: the function takes no pointer, and may be called from any thread at any time.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
const fn release() {
    // Other allocators give memory back by themselves, or cannot be asked.
}

/// Sum of memory that was freed since the last [`trim`].
#[derive(Debug, Default)]
pub(crate) struct Freed(Mutex<usize>);

/// Freed bytes after which [`trim`] is worth its time.
const WORTH: usize = 4 << 20;

impl Freed {
    /// Adds freed bytes; gives memory back when there are enough.
    pub(crate) fn add(&self, bytes: usize) {
        let mut sum = self.0.lock();
        *sum += bytes;
        if *sum >= WORTH {
            *sum = 0;
            trim();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("zwire-memory-{}-{name}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_least_limit_of_all_control_groups_counts() {
        let root = folder(
            "v2",
            &[
                ("proc/self/cgroup", "0::/user.slice/robot.service\n"),
                ("sys/fs/cgroup/user.slice/robot.service/memory.max", "max\n"),
                ("sys/fs/cgroup/user.slice/memory.max", "500000000\n"),
                ("sys/fs/cgroup/memory.max", "900000000\n"),
            ],
        );
        assert_eq!(cgroups(&root), Some(500_000_000));
        fs::remove_dir_all(&root).unwrap();
        let root = folder(
            "v1",
            &[
                ("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/abc\n0::/docker/abc\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n"),
                ("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n"),
            ],
        );
        assert_eq!(cgroups(&root), Some(268_435_456));
        fs::remove_dir_all(&root).unwrap();
        let root = folder("none", &[("proc/self/cgroup", "0::/\n:\n")]);
        assert_eq!(cgroups(&root), None);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn limits_count_less_what_is_in_use() {
        let status = "Name:\tx\nVmSize:\t  400000 kB\nVmData:\t  100000 kB\n";
        let limits_of = |text: &str| {
            let root = folder("limits", &[("proc/self/limits", text), ("proc/self/status", status)]);
            let found = limits(&root);
            fs::remove_dir_all(&root).unwrap();
            found
        };
        let head = "Limit                     Soft Limit           Hard Limit           Units     \n";
        let space = "Max address space         716800000            unlimited            bytes     \n";
        let data = "Max data size             unlimited            unlimited            bytes     \n";
        assert_eq!(limits_of(&format!("{head}{data}{space}")), Some(716_800_000 - (400_000 << 10)));
        assert_eq!(limits_of(&format!("{head}{data}")), None);
        assert_eq!(limits_of(&space.replace("716800000", "1000")), Some(0), "all of it is in use");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_tells_its_memory() {
        assert!(available().is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn memory_that_is_freed_during_a_release_is_given_back_by_another_one() {
        static WAITING: AtomicBool = AtomicBool::new(false);
        let (first, released) = std::sync::mpsc::channel();
        let second = first.clone();
        trim_after(Duration::ZERO, &WAITING, move || {
            first.send(1).unwrap();
            trim_after(Duration::ZERO, &WAITING, move || second.send(2).unwrap());
        });
        let within = Duration::from_secs(10);
        assert_eq!([released.recv_timeout(within), released.recv_timeout(within)], [Ok(1), Ok(2)]);
    }
}
