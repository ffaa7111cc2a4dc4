//! Checks of the disk: free space, inodes, and the latency of fsync.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::statvfs;

use super::finding::{Finding, RUN_AS_SERVER_USER, bytes};

/// Less free space than this is a warning.
const LITTLE: u64 = 1 << 30;
/// Less free space than this is a problem.
const NOTHING: u64 = 100 << 20;
/// Every receipt waits for an fsync; a slower one is a warning.
const SLOW: Duration = Duration::from_millis(50);
/// Number of measured writes; the median is reported.
const WRITES: usize = 5;
/// About the size of one batch of messages.
const WRITTEN: [u8; 4_096] = [b'x'; 4_096];

pub(super) fn check(state: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    for folder in file_systems(state) {
        match statvfs(&folder) {
            Ok(found) => {
                let total = found.f_blocks.saturating_mul(found.f_frsize);
                let free = found.f_bavail.saturating_mul(found.f_frsize);
                findings.push(space(&folder, free, total));
                findings.extend(inodes(&folder, found.f_favail, found.f_files));
            }
            Err(error) => {
                let detail = format!("how full {} is cannot be seen: {error}", folder.display());
                findings.push(Finding::warning("disk", detail, "see it with: df -h"));
            }
        }
    }
    findings.extend(state.is_dir().then(|| durable(state)));
    findings
}

/// Folders that the bus writes to, one per file system.
fn file_systems(state: &Path) -> Vec<PathBuf> {
    let Some(existing) = state.ancestors().find(|folder| folder.is_dir()) else {
        return Vec::new();
    };
    let folders = [existing.to_owned(), state.join("a2a-log"), state.join("data")];
    let mut seen = Vec::new();
    let mut one_each = Vec::new();
    for folder in folders {
        let Ok(device) = fs::metadata(&folder).map(|metadata| metadata.dev()) else { continue };
        if !seen.contains(&device) {
            seen.push(device);
            one_each.push(folder);
        }
    }
    one_each
}

fn space(folder: &Path, free: u64, total: u64) -> Finding {
    const NAME: &str = "disk";
    let percent = percent(free, total);
    let detail = format!(
        "{} of {} ({percent} %) are free at {}",
        bytes(free),
        bytes(total),
        folder.display()
    );
    let next = "make room, or keep less of the log: max_age_days in [audit]";
    if free < NOTHING {
        let detail = format!("{detail}; when it is full nothing is accepted");
        return Finding::problem(NAME, detail, next);
    }
    if free < LITTLE || percent < 5 {
        return Finding::warning(NAME, detail, next);
    }
    Finding::ok(NAME, detail)
}

/// `None` where the file system has no inode count.
fn inodes(folder: &Path, free: u64, total: u64) -> Option<Finding> {
    const NAME: &str = "inodes";
    let percent = percent(free, total);
    let detail =
        format!("{free} of {total} files ({percent} %) may be made at {}", folder.display());
    let next = "remove small files there: df -i shows how many are left";
    match free {
        _ if total == 0 => None,
        0..100 => Some(Finding::problem(NAME, detail, next)),
        _ if percent < 5 => Some(Finding::warning(NAME, detail, next)),
        _ => Some(Finding::ok(NAME, detail)),
    }
}

fn percent(free: u64, total: u64) -> u64 {
    let hundred = u128::from(free) * 100;
    u64::try_from(hundred.checked_div(u128::from(total)).unwrap_or(100)).unwrap_or(100)
}

/// Measures the latency of a durable write.
fn durable(state: &Path) -> Finding {
    const NAME: &str = "fsync";
    match measure(state) {
        Ok(took) if took > SLOW => Finding::warning(
            NAME,
            format!("a write takes {:.1} ms to be durable", took.as_secs_f64() * 1_000.0),
            "every receipt waits that long; move the state folder to a faster disk, or see what else writes to this one",
        ),
        Ok(took) => {
            let took = took.as_secs_f64() * 1_000.0;
            Finding::ok(NAME, format!("a write takes {took:.1} ms to be durable"))
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Finding::problem(
            NAME,
            format!("not measured: you may not write to {} ({error})", state.display()),
            RUN_AS_SERVER_USER,
        ),
        Err(error) => Finding::problem(
            NAME,
            format!("nothing can be written to {}: {error}", state.display()),
            "make room, make the folder writable, or look into the system's log for errors of the disk",
        ),
    }
}

/// Temporary file that is removed when dropped.
struct Probe {
    path: PathBuf,
    file: File,
}

impl Probe {
    fn make(folder: &Path) -> io::Result<Self> {
        let path = folder.join(format!(".a2a-doctor-{}", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self { path, file })
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // A failure needs no handling; the file name contains the process id.
        let _ = fs::remove_file(&self.path);
    }
}

fn measure(folder: &Path) -> io::Result<Duration> {
    let mut probe = Probe::make(folder)?;
    let mut took = [Duration::ZERO; WRITES];
    for took in &mut took {
        let begin = Instant::now();
        probe.file.write_all(&WRITTEN)?;
        probe.file.sync_data()?;
        *took = begin.elapsed();
    }
    took.sort_unstable();
    Ok(took[WRITES / 2])
}

#[cfg(test)]
mod tests {
    use super::super::finding::FindingState;
    use super::*;

    #[test]
    fn free_space_below_limits_is_a_warning_or_a_problem() {
        let gib = 1 << 30;
        for (free, total, state) in [
            (50 * gib, 100 * gib, FindingState::Ok),
            (gib, 10 * gib, FindingState::Ok),
            (gib - 1, 10 * gib, FindingState::Warning),
            (4 * gib, 100 * gib, FindingState::Warning),
            (NOTHING, 10 * gib, FindingState::Warning),
            (NOTHING - 1, 10 * gib, FindingState::Problem),
            (0, 0, FindingState::Problem),
        ] {
            let found = space(Path::new("/x"), free, total);
            assert_eq!(found.state, state, "{found:?}");
        }
    }

    #[test]
    fn inodes_are_checked_where_the_file_system_has_them() {
        let state = |free, total| inodes(Path::new("/x"), free, total).map(|found| found.state);
        assert_eq!(state(0, 0), None);
        assert_eq!(state(500, 1_000), Some(FindingState::Ok));
        assert_eq!(state(400, 10_000), Some(FindingState::Warning));
        assert_eq!(state(99, 100), Some(FindingState::Problem));
    }

    #[test]
    fn measuring_fsync_removes_its_file() {
        let folder = tempfile::tempdir().unwrap();
        assert!(measure(folder.path()).unwrap() > Duration::ZERO);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(measure(&folder.path().join("nowhere")).is_err());
    }
}
