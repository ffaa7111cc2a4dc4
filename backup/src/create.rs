//! Creates a backup, with or without a server running on the state folder.

use std::error::Error;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use chrono::{DateTime, NaiveDate, Utc};

use super::log_snapshot::LogSnapshot;
use super::manifest::{self, Manifest};
use super::staging::{StagingFolder, parent};
use super::{BackupError, verify};
use crate::check_formats;
use a2a_journal::{
    HEADS_FILE, LOG_FOLDER, Verified, VerifyError, bytes_missing_in_log, is_continued_in_index,
    list_segments, verify_log,
};
use a2a_taskdb::{self as taskdb, PausedWrites, Snapshot, TaskOpenError};

/// Attempts when the copied log fails verification: a server may have truncated a failed write
/// while it was read, or expired day files.
const ATTEMPTS: usize = 5;
/// Free space to leave on the disk for a running server.
const RESERVED_BYTES: u64 = 64 << 20;

/// The cause of a failure in the caller's code.
pub type Cause = Box<dyn Error + Send + Sync>;

/// A file to include besides log and task database. It may be missing.
#[derive(Debug, Clone)]
pub struct ExtraFile {
    /// Source path.
    pub from: PathBuf,
    /// Path relative to the state folder.
    pub name: &'static str,
}

/// Source and target of a backup.
pub struct BackupJob<'a> {
    /// The state folder.
    pub state_dir: &'a Path,
    /// The folder to create.
    pub target: &'a Path,
    /// The time for the manifest.
    pub now: DateTime<Utc>,
    /// Further files.
    pub also: &'a [ExtraFile],
    /// Exports the days before this one from the index to files. Called only when the index alone
    /// has them. The files are removed after they were copied.
    pub older: &'a mut dyn FnMut(NaiveDate) -> Result<Vec<PathBuf>, Cause>,
}

/// Creates a backup. The target exists only once the backup is complete and synced.
///
/// # Errors
/// The state folder cannot be backed up, or the disk fails. Nothing is left behind.
pub fn create_backup(mut job: BackupJob<'_>) -> Result<Manifest, BackupError> {
    let (state_dir, target) = (job.state_dir, job.target);
    check_formats(state_dir)?;
    if !state_dir.join(LOG_FOLDER).is_dir() {
        return Err(BackupError::NoState { path: state_dir.to_owned() });
    }
    let (log, data) = (state_dir.join(LOG_FOLDER), state_dir.join("data"));
    match bytes_missing_in_log(&log, &data).map_err(BackupError::at(&data))? {
        0 => {}
        bytes => return Err(BackupError::NotInLog { bytes }),
    }
    if fs::symlink_metadata(target).is_ok() {
        return Err(BackupError::Exists { path: target.to_owned() });
    }
    let needed = bytes_needed(&job);
    let folder = parent(target);
    check_free_space(folder, needed)?;
    let mut name = target.as_os_str().to_owned();
    name.push(".partial");
    let staging = StagingFolder::new(name.into())?;
    copy_and_rename(&mut job, staging).map_err(|error| error.needing(needed, folder))
}

fn copy_and_rename(
    job: &mut BackupJob<'_>,
    mut staging: StagingFolder,
) -> Result<Manifest, BackupError> {
    let (verified, schema) = copy_snapshot(job, &mut staging)?;
    for ExtraFile { from, name } in job.also {
        match staging.copy(name, from) {
            Err(BackupError::Io { source, .. })
                if source.kind() == ErrorKind::NotFound && !from.exists() => {}
            copied => drop(copied?),
        }
    }
    let manifest = Manifest::new(job.now, &verified, schema, staging.files.clone());
    let path = staging.path().join(manifest::NAME);
    let text = manifest.text().map_err(BackupError::at(&path))?;
    staging.write(manifest::NAME, 0o600, text.as_slice())?;
    staging.rename(job.target)?;
    Ok(manifest)
}

/// Copies log and task database of one moment. Returns the verified log and the schema version of
/// the tasks.
fn copy_snapshot(
    job: &mut BackupJob<'_>,
    staging: &mut StagingFolder,
) -> Result<(Verified, Option<u32>), BackupError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let (tasks, log) = snapshot(job.state_dir)?;
        let schema = match tasks {
            Some(tasks) => Some(copy_tasks(&tasks, staging)?),
            None => None,
        };
        let (first_day, was_written) = (log.first_day(), log.was_written());
        log.copy_to(staging)?;
        copy_older(job, first_day, was_written, staging)?;
        match verify_log(staging.path(), &[]) {
            Ok(verified) => return Ok((verified, schema)),
            Err(VerifyError::Fault(_)) if attempts < ATTEMPTS => staging.clear()?,
            Err(error) => return Err(in_source(error, job, staging)),
        }
    }
}

/// Snapshots of the task database and the log at one moment. The lengths of the day files are read
/// while writes to the tasks are paused: every line that the tasks depend on is in the log, and
/// every change that the log records as done is in the tasks.
fn snapshot(state_dir: &Path) -> Result<(Option<Snapshot>, LogSnapshot), BackupError> {
    let path = state_dir.join(taskdb::FILE);
    let store = |error| BackupError::Tasks(TaskOpenError::Store(error));
    loop {
        if path.exists() {
            let paused = PausedWrites::new(&path).map_err(store)?;
            let log = LogSnapshot::open(state_dir)?;
            return Ok((Some(paused.into_snapshot().map_err(store)?), log));
        }
        let log = LogSnapshot::open(state_dir)?;
        if !path.exists() {
            return Ok((None, log));
        }
    }
}

fn copy_tasks(tasks: &Snapshot, staging: &mut StagingFolder) -> Result<u32, BackupError> {
    let path = staging.path().join(taskdb::FILE);
    tasks.copy_to(&path).map_err(BackupError::Tasks)?;
    staging.add(taskdb::FILE)?;
    verify::check_tasks(&path)
}

/// Copies the days that only the index has.
fn copy_older(
    job: &mut BackupJob<'_>,
    first_day: Option<NaiveDate>,
    was_written: bool,
    staging: &mut StagingFolder,
) -> Result<(), BackupError> {
    let dir = staging.path().join(LOG_FOLDER);
    let before = match first_day {
        Some(day) if is_continued_in_index(&dir).map_err(BackupError::at(&dir))? => day,
        // Lines were written, but no day file is left.
        None if was_written => NaiveDate::from_ymd_opt(9999, 12, 31).unwrap_or(NaiveDate::MAX),
        _ => return Ok(()),
    };
    let files = (job.older)(before).map_err(|cause| BackupError::Older { before, cause })?;
    let mut result = Ok(());
    for file in &files {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let name = format!("{}/{name}", LOG_FOLDER);
        result = result.and_then(|()| staging.copy(&name, file).map(drop));
        if let Err(error) = fs::remove_file(file) {
            tracing::warn!(%error, file = %file.display(), "cannot be removed");
        }
    }
    if let Some(folder) = files.first().and_then(|file| file.parent()) {
        // Only when it is empty.
        let _ = fs::remove_dir(folder);
    }
    result
}

/// The fault is in the source log as well, so its file is named instead of the copy.
fn in_source(error: VerifyError, job: &BackupJob<'_>, staging: &StagingFolder) -> BackupError {
    let VerifyError::Fault(mut fault) = error else { return BackupError::Log(error) };
    fault.file = fault.file.map(|file| match file.strip_prefix(staging.path()) {
        Ok(inside) => job.state_dir.join(inside),
        Err(_) => file,
    });
    BackupError::Log(VerifyError::Fault(fault))
}

/// Approximate size of the copies.
fn bytes_needed(job: &BackupJob<'_>) -> u64 {
    let size = |path: PathBuf| fs::metadata(path).map_or(0, |found| found.len());
    let days = list_segments(&job.state_dir.join(LOG_FOLDER)).unwrap_or_default();
    // The last commits are in SQLite's WAL.
    let own = [taskdb::FILE, "data/a2a-tasks.db-wal", HEADS_FILE];
    let own = own.map(|name| job.state_dir.join(name));
    let also = job.also.iter().map(|also| also.from.clone());
    days.into_iter().map(|file| file.path).chain(own).chain(also).map(size).sum()
}

/// Fails early when the disk is too small: a full disk would stop the server, too.
pub(super) fn check_free_space(folder: &Path, needed: u64) -> Result<(), BackupError> {
    let Ok(found) = rustix::fs::statvfs(folder) else { return Ok(()) };
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    if free < needed.saturating_add(RESERVED_BYTES) {
        let path = folder.to_owned();
        return Err(BackupError::Full { path, needed: needed + RESERVED_BYTES, free: Some(free) });
    }
    Ok(())
}
