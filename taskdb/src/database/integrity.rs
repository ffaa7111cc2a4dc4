//! Integrity check of a database file, for `doctor`. It changes nothing and creates no files.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::{BUSY_TIMEOUT, TaskDb, file_in, open_reader};
use crate::{TaskOpenError, TaskStoreError, schema};

/// The most faults in a report.
const MAX_FAULTS: usize = 5;

/// Result of an integrity check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntegrityReport {
    /// Size of the database.
    pub bytes: u64,
    /// Its schema version, which is that of this program.
    pub schema: i64,
    /// Faults that SQLite found, at most a few; empty for an intact database.
    pub faults: Vec<String>,
}

impl TaskDb {
    /// Runs SQLite's `quick_check` on the database of a state folder, whether a server runs or not.
    ///
    /// # Errors
    /// There is no database, a program of another version wrote it, or it cannot be read.
    pub fn check_integrity(state_dir: &Path) -> Result<IntegrityReport, TaskOpenError> {
        let path = file_in(state_dir);
        if !path.exists() {
            return Err(TaskOpenError::Absent { path });
        }
        // While no process has the database open, even a reader would leave files beside it.
        if wal_of(&path).exists() {
            return check_connection(&open_reader(&path)?, &path);
        }
        let found = check_connection(&open_at_rest(&path)?, &path);
        if wal_of(&path).exists() {
            // Another process opened it meanwhile, so the pages read may be of two states.
            return check_connection(&open_reader(&path)?, &path);
        }
        found
    }
}

/// The WAL file, which exists while a process has the database open.
fn wal_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Opens a database that no process writes to, as immutable: SQLite then creates no files.
fn open_at_rest(path: &Path) -> Result<Connection, TaskStoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let address = format!("file:{}?immutable=1", percent_encoded(path.as_os_str()));
    let connection = Connection::open_with_flags(address, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    Ok(connection)
}

/// Percent-encodes a path for a `file:` URI.
fn percent_encoded(path: &OsStr) -> String {
    let mut text = String::new();
    for byte in path.as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(byte) {
            text.push(char::from(*byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

fn check_connection(
    connection: &Connection,
    path: &Path,
) -> Result<IntegrityReport, TaskOpenError> {
    schema::check(connection, path)?;
    quick_check(connection).map_err(TaskOpenError::from)
}

fn quick_check(connection: &Connection) -> Result<IntegrityReport, TaskStoreError> {
    let number = |name: &str| {
        connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0))
    };
    let bytes = number("page_count")?.saturating_mul(number("page_size")?);
    let schema = number("user_version")?;
    let mut check = connection.prepare(&format!("PRAGMA quick_check({MAX_FAULTS})"))?;
    let lines = check.query_map([], |row| row.get::<_, String>(0))?;
    let faults = lines.filter(|line| line.as_deref() != Ok("ok")).collect::<Result<_, _>>()?;
    Ok(IntegrityReport { bytes: u64::try_from(bytes).unwrap_or_default(), schema, faults })
}

#[cfg(test)]
mod tests {
    use crate::{Options, TaskWriter, Write};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let data = std::fs::read_dir(folder.join("data")).unwrap();
        let mut names: Vec<_> =
            data.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn check_of_open_and_closed_database_leaves_no_files() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("with ? and %20");
        assert!(matches!(TaskDb::check_integrity(&folder), Err(TaskOpenError::Absent { .. })));
        let mut store = TaskDb::open(&Options::new(&folder)).unwrap();
        store.commit(Vec::<Write>::new()).unwrap();
        let whole = TaskDb::check_integrity(&folder).unwrap();
        assert!(whole.faults.is_empty() && whole.bytes > 0 && whole.schema > 0, "{whole:?}");
        drop(store);
        let before = names(&folder);
        assert_eq!(TaskDb::check_integrity(&folder).unwrap(), whole);
        assert_eq!(names(&folder), before);
    }

    #[test]
    fn corrupt_page_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        drop(TaskDb::open(&Options::new(folder.path())).unwrap());
        let path = file_in(folder.path());
        let mut bytes = std::fs::read(&path).unwrap();
        // The second page belongs to a table; the first contains the header.
        bytes[4_096..8_192].fill(0x5a);
        std::fs::write(&path, &bytes).unwrap();
        match TaskDb::check_integrity(folder.path()) {
            Ok(found) => assert!(!found.faults.is_empty(), "{found:?}"),
            Err(error) => assert!(error.to_string().contains("damaged"), "{error}"),
        }
    }
}
