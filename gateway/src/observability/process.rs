//! Process statistics from `/proc`; absent where the system has none.

/// Resources of the process; `None` where unknown.
#[derive(Debug, Default)]
pub(super) struct Process {
    /// Resident memory in bytes.
    pub(super) resident_bytes: Option<u64>,
    pub(super) open_files: Option<u64>,
}

impl Process {
    /// Reads them; blocks.
    pub(super) fn read() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").ok();
        let open = std::fs::read_dir("/proc/self/fd").ok();
        Self {
            resident_bytes: status.as_deref().and_then(resident_bytes),
            // One of them is this directory listing.
            open_files: open.map(|files| (files.count() as u64).saturating_sub(1)),
        }
    }
}

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resident_memory_is_found() {
        let status = "Name:\tbus\nVmSize:\t  99 kB\nVmRSS:\t    1234 kB\nThreads:\t7\n";
        assert_eq!(resident_bytes(status), Some(1_263_616));
        assert_eq!(resident_bytes("VmRSS:\tmuch\n"), None);
        assert_eq!(resident_bytes(""), None);
    }
}
