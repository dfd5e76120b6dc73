//! Descriptors that this process may open.

use std::{fs, path::Path};

/// The limit where the system does not tell it: the smallest usual one.
const USUAL: usize = 1024;

/// Descriptors for strangers, of each kind: handshakes before the READY of a listener, those after it, connections
/// to a ZRE node without HELLO, and its attempts to connect because of beacons. All of them take a quarter of the
/// limit of open files; the others are left to peers with a session, and to the program.
pub(crate) fn for_strangers() -> usize {
    (limit(Path::new("/")).unwrap_or(USUAL) / 4 / 4).max(1)
}

/// `RLIMIT_NOFILE`.
fn limit(root: &Path) -> Option<usize> {
    let limits = fs::read_to_string(root.join("proc/self/limits")).ok()?;
    let rest = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match rest.split_whitespace().next()? {
        "unlimited" => Some(usize::MAX),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_open_files_is_read() {
        let root = std::env::temp_dir().join(format!("zwire-descriptors-{}", std::process::id()));
        fs::create_dir_all(root.join("proc/self")).unwrap();
        for (soft, expected) in [("1024", Some(1024)), ("unlimited", Some(usize::MAX)), ("?", None)] {
            let text =
                format!("Max processes  7  7  processes\nMax open files  {soft}  1048576  files     \n");
            fs::write(root.join("proc/self/limits"), text).unwrap();
            assert_eq!(limit(&root), expected);
        }
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(limit(&root), None);
        assert!(for_strangers() >= 1);
    }
}
