//! Memory of this process and of the machine, as Linux tells it. Other systems tell nothing.

use std::fs;

/// Resident memory of this process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resident {
    /// What it allocated and touched.
    pub(crate) anonymous: u64,
    /// Pages of mapped files, the program's own among them, that are in memory now. The system takes them back when
    /// it needs room.
    pub(crate) file: u64,
}

/// The highest values seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peak {
    /// Each kind by itself, of the samples that were taken.
    resident: Resident,
    /// Of both together, as the system recorded it.
    total: u64,
}

impl Peak {
    /// Looks once more.
    pub(crate) fn sample(&mut self) {
        if let Some(status) = status() {
            self.add(&status);
        }
    }

    fn add(&mut self, status: &str) {
        let of = |name| field(status, name).unwrap_or(0);
        let resident = &mut self.resident;
        resident.anonymous = resident.anonymous.max(of("RssAnon:"));
        // A file in a RAM disk counts as shared memory.
        resident.file = resident.file.max(of("RssFile:") + of("RssShmem:"));
        self.total = self.total.max(of("VmHWM:"));
    }

    /// What was seen, if the system tells it: the kinds, and the peak of their sum.
    pub(crate) fn get(&self) -> Option<(Resident, u64)> {
        (self.total > 0).then_some((self.resident, self.total))
    }
}

fn status() -> Option<String> {
    fs::read_to_string("/proc/self/status").ok()
}

/// Anonymous memory of this process, in bytes: counted page by page, for `RssAnon` of `/proc/self/status` lags by some
/// pages of each processor.
pub(crate) fn anonymous() -> Option<u64> {
    field(&fs::read_to_string("/proc/self/smaps_rollup").ok()?, "Anonymous:")
}

/// Bytes that programs can have without pushing out what is in use (`MemAvailable`).
pub(crate) fn available() -> Option<u64> {
    field(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")
}

/// The value of a line `name   12 kB`, in bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text =
            "VmHWM:\t   10 kB\nRssAnon:\t       3 kB\nRssFile:\t 4 kB\nRssShmem:\t2 kB\nThreads:\t1\nOdd: x kB\n";
        assert_eq!(field(text, "RssAnon:"), Some(3 * 1024));
        assert_eq!(field(text, "Threads:"), None, "not a size");
        assert_eq!(field(text, "Odd:"), None);
        assert_eq!(field(text, "VmRSS:"), None);
        let mut peak = Peak::default();
        assert_eq!(peak.get(), None);
        peak.add(text);
        peak.add("VmHWM: 11 kB\nRssAnon: 2 kB\nRssFile: 9 kB\n");
        let resident = Resident {
            anonymous: 3 * 1024,
            file: 9 * 1024,
        };
        assert_eq!(peak.get(), Some((resident, 11 * 1024)));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_tells() {
        let mut peak = Peak::default();
        peak.sample();
        let (before, total) = peak.get().unwrap();
        let exactly = anonymous().unwrap();
        assert!(before.anonymous > 0 && before.file > 0 && total >= before.anonymous);
        // Without the box the compiler leaves the pages out.
        let pages = std::hint::black_box(vec![1u8; 64 << 20]);
        peak.sample();
        let (after, _) = peak.get().unwrap();
        assert!(after.anonymous >= before.anonymous + (60 << 20), "{before:?} {after:?}");
        assert!(anonymous().unwrap() >= exactly + (60 << 20));
        drop(pages);
        assert!(available().unwrap() > 0);
    }
}
