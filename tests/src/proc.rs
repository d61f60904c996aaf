//! What Linux tells of memory.

use std::fs;

/// The size that `file` (`/proc/meminfo`, `/proc/self/status`) gives behind `key`, in bytes; `None` on other systems.
pub fn bytes(file: &str, key: &str) -> Option<usize> {
    let text = fs::read_to_string(file).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    let number: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(number * 1024)
}
