//! What Linux tells of memory.

use std::fs;

/// The size that `file` (`/proc/meminfo`, `/proc/self/status`) gives behind `key`, in bytes; `None` on other systems.
pub fn bytes(file: &str, key: &str) -> Option<usize> {
    let text = fs::read_to_string(file).ok()?;
    size(text.lines(), key)
}

/// The first size behind `key`.
fn size<'t>(mut lines: impl Iterator<Item = &'t str>, key: &str) -> Option<usize> {
    let line = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    let number: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(number * 1024)
}

/// Anonymous memory of the mapping that holds `address`, in bytes: counted page by page, unlike the totals of
/// `/proc/self/status`, which lag.
pub fn anonymous_at(address: usize) -> Option<usize> {
    let smaps = fs::read_to_string("/proc/self/smaps").ok()?;
    let holds = |line: &str| {
        let (start, rest) = line.split_once('-')?;
        let end = rest.split(' ').next()?;
        let [start, end] = [start, end].map(|hex| usize::from_str_radix(hex, 16).ok());
        Some((start?..end?).contains(&address))
    };
    let behind = smaps.lines().skip_while(|line| holds(line) != Some(true));
    size(behind, "Anonymous")
}
