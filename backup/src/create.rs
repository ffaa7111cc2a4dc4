//! Taking a backup, with or without a server at work on the folder.

use std::error::Error;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use chrono::{DateTime, NaiveDate, Utc};

use super::cut::Cut;
use super::manifest::{self, Manifest};
use super::partial::{Partial, parent};
use super::{BackupError, check};
use crate::check_formats;
use a2a_journal::{
    HEADS_FILE, LOG_FOLDER, Verified, VerifyError, bytes_missing_in_log, day_files,
    is_continued_in_index, verify_log,
};
use a2a_taskdb::{self as taskdb, CopiedMoment, Frozen, TaskOpenError};

/// How often another moment is chosen when the log of one does not fit together: a server may
/// have cut a failed write back while it was read, or removed days for their age.
const TRIES: usize = 5;
/// Room that is left on the disk, so that a server on it can go on.
const SPARE: u64 = 64 << 20;

/// Why somebody else could not do something.
pub type Cause = Box<dyn Error + Send + Sync>;

/// A file that belongs into a backup besides what the store knows of; it may be missing.
#[derive(Debug, Clone)]
pub struct Also {
    /// Where it is.
    pub from: PathBuf,
    /// Where it belongs in a state folder.
    pub name: &'static str,
}

/// What to copy, and where to.
pub struct BackupJob<'a> {
    /// The state folder.
    pub state_dir: &'a Path,
    /// A folder that is not there.
    pub target: &'a Path,
    /// The time, for the manifest.
    pub now: DateTime<Utc>,
    /// More files.
    pub also: &'a [Also],
    /// Has the days before this one written to files, by whoever has the index open; asked for
    /// only where the index alone has them. The files are removed when they were copied.
    pub older: &'a mut dyn FnMut(NaiveDate) -> Result<Vec<PathBuf>, Cause>,
}

/// Takes a backup. It is there under its name when it is whole and on the disk, and not at all
/// otherwise.
///
/// # Errors
/// What kept it from being taken; nothing is left behind.
pub fn take_backup(mut job: BackupJob<'_>) -> Result<Manifest, BackupError> {
    let (state_dir, target) = (job.state_dir, job.target);
    check_formats(state_dir)?;
    if !state_dir.join(LOG_FOLDER).is_dir() {
        return Err(BackupError::NoState { path: state_dir.to_owned() });
    }
    let (log, data) = (state_dir.join(LOG_FOLDER), state_dir.join("data"));
    match bytes_missing_in_log(&log, &data).map_err(BackupError::at(&data))? {
        0 => {}
        bytes => return Err(BackupError::NotInTheLog { bytes }),
    }
    if fs::symlink_metadata(target).is_ok() {
        return Err(BackupError::Exists { path: target.to_owned() });
    }
    let needed = needed(&job);
    let folder = parent(target);
    must_have_room(folder, needed)?;
    let mut name = target.as_os_str().to_owned();
    name.push(".partial");
    let partial = Partial::new(name.into())?;
    fill(&mut job, partial).map_err(|error| error.needing(needed, folder))
}

fn fill(job: &mut BackupJob<'_>, mut partial: Partial) -> Result<Manifest, BackupError> {
    let (whole, schema) = copy_moment(job, &mut partial)?;
    for Also { from, name } in job.also {
        match partial.copy(name, from) {
            Err(BackupError::Io { source, .. })
                if source.kind() == ErrorKind::NotFound && !from.exists() => {}
            copied => drop(copied?),
        }
    }
    let manifest = Manifest::new(job.now, &whole, schema, partial.files.clone());
    let path = partial.path().join(manifest::NAME);
    let text = manifest.text().map_err(BackupError::at(&path))?;
    partial.write(manifest::NAME, 0o600, text.as_slice())?;
    partial.rename(job.target)?;
    Ok(manifest)
}

/// Copies log and tasks of one moment; what the log is, and the schema of the tasks.
fn copy_moment(
    job: &mut BackupJob<'_>,
    partial: &mut Partial,
) -> Result<(Verified, Option<u32>), BackupError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let (moment, cut) = moment(job.state_dir)?;
        let schema = match moment {
            Some(moment) => Some(copy_tasks(&moment, partial)?),
            None => None,
        };
        let (first_day, was_written) = (cut.first_day(), cut.was_written());
        cut.copy(partial)?;
        copy_older(job, first_day, was_written, partial)?;
        match verify_log(partial.path(), &[]) {
            Ok(whole) => return Ok((whole, schema)),
            Err(VerifyError::Fault(_)) if tries < TRIES => partial.clear()?,
            Err(error) => return Err(in_source(error, job, partial)),
        }
    }
}

/// The log and the tasks as they are at one moment. While the tasks cannot change, the length of
/// the log is taken: every line whose meaning is in the tasks is in it, and so is in the
/// tasks whatever the log says was done.
fn moment(state_dir: &Path) -> Result<(Option<CopiedMoment>, Cut), BackupError> {
    let path = state_dir.join(taskdb::FILE);
    let store = |error| BackupError::Tasks(TaskOpenError::Store(error));
    loop {
        if path.exists() {
            let frozen = Frozen::new(&path).map_err(store)?;
            let cut = Cut::now(state_dir)?;
            return Ok((Some(frozen.release().map_err(store)?), cut));
        }
        let cut = Cut::now(state_dir)?;
        if !path.exists() {
            return Ok((None, cut));
        }
    }
}

fn copy_tasks(moment: &CopiedMoment, partial: &mut Partial) -> Result<u32, BackupError> {
    let path = partial.path().join(taskdb::FILE);
    moment.copy_to(&path).map_err(BackupError::Tasks)?;
    partial.add(taskdb::FILE)?;
    check::tasks(&path)
}

/// Adds the days that only the index has.
fn copy_older(
    job: &mut BackupJob<'_>,
    first_day: Option<NaiveDate>,
    was_written: bool,
    partial: &mut Partial,
) -> Result<(), BackupError> {
    let dir = partial.path().join(LOG_FOLDER);
    let before = match first_day {
        Some(day) if is_continued_in_index(&dir).map_err(BackupError::at(&dir))? => day,
        // Every file is gone; a log in which nothing was ever written has none.
        None if was_written => NaiveDate::from_ymd_opt(9999, 12, 31).unwrap_or(NaiveDate::MAX),
        _ => return Ok(()),
    };
    let files = (job.older)(before).map_err(|cause| BackupError::Older { before, cause })?;
    let mut result = Ok(());
    for file in &files {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let name = format!("{}/{name}", LOG_FOLDER);
        result = result.and_then(|()| partial.copy(&name, file).map(drop));
        if let Err(error) = fs::remove_file(file) {
            tracing::warn!(%error, file = %file.display(), "cannot be removed");
        }
    }
    if let Some(folder) = files.first().and_then(|file| file.parent()) {
        // Only when nothing else is in it.
        let _ = fs::remove_dir(folder);
    }
    result
}

/// What is wrong is wrong in the log that was copied, so that is what is named.
fn in_source(error: VerifyError, job: &BackupJob<'_>, partial: &Partial) -> BackupError {
    let VerifyError::Fault(mut fault) = error else { return BackupError::Log(error) };
    fault.file = fault.file.map(|file| match file.strip_prefix(partial.path()) {
        Ok(inside) => job.state_dir.join(inside),
        Err(_) => file,
    });
    BackupError::Log(VerifyError::Fault(fault))
}

/// How many bytes the copies take, about.
fn needed(job: &BackupJob<'_>) -> u64 {
    let size = |path: PathBuf| fs::metadata(path).map_or(0, |found| found.len());
    let days = day_files(&job.state_dir.join(LOG_FOLDER)).unwrap_or_default();
    // What was written last is not in the database itself yet.
    let own = [taskdb::FILE, "data/a2a-tasks.db-wal", HEADS_FILE];
    let own = own.map(|name| job.state_dir.join(name));
    let also = job.also.iter().map(|also| also.from.clone());
    days.into_iter().map(|file| file.path).chain(own).chain(also).map(size).sum()
}

/// Refuses to begin what cannot be finished: a disk that was filled would stop the server, too.
pub(super) fn must_have_room(folder: &Path, needed: u64) -> Result<(), BackupError> {
    let Ok(found) = rustix::fs::statvfs(folder) else { return Ok(()) };
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    if free < needed.saturating_add(SPARE) {
        let path = folder.to_owned();
        return Err(BackupError::Full { path, needed: needed + SPARE, free: Some(free) });
    }
    Ok(())
}
