//! Whether the file is whole, for those who look after a server: nothing is changed by looking.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::sqlite::{PATIENCE, file_in, open_reader};
use super::{Sqlite, TaskOpenError, TaskStoreError, schema};

/// How many faults are listed.
const MOST: usize = 5;

/// What there is to say about the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspected {
    /// How large it is.
    pub bytes: u64,
    /// Its schema, which is the one this program knows.
    pub schema: i64,
    /// What SQLite finds wrong with it, at most a few; nothing when it is whole.
    pub faults: Vec<String>,
}

impl Sqlite {
    /// Has SQLite check the tasks of a state folder, whether a server runs or not.
    ///
    /// # Errors
    /// There are none, a program of another version wrote them, or they cannot be read.
    pub fn inspect(state_dir: &Path) -> Result<Inspected, TaskOpenError> {
        let path = file_in(state_dir);
        if !path.exists() {
            return Err(TaskOpenError::Absent { path });
        }
        // Beside a database that nobody has open even a reader would leave files behind.
        if log_of(&path).exists() {
            return inspect(&open_reader(&path)?, &path);
        }
        let found = inspect(&open_at_rest(&path)?, &path);
        if log_of(&path).exists() {
            // Somebody opened it meanwhile, so what was read may be of two different states.
            return inspect(&open_reader(&path)?, &path);
        }
        found
    }
}

/// The log that SQLite keeps beside the file as long as somebody has it open.
fn log_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// A connection that believes that nobody writes, and so makes no files of its own.
fn open_at_rest(path: &Path) -> Result<Connection, TaskStoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let address = format!("file:{}?immutable=1", escaped(path.as_os_str()));
    let connection = Connection::open_with_flags(address, flags)?;
    connection.busy_timeout(PATIENCE)?;
    Ok(connection)
}

/// A path as part of an address.
fn escaped(path: &OsStr) -> String {
    let mut text = String::new();
    for byte in path.as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(byte) {
            text.push(char::from(*byte));
        } else {
            // Writing to a text does not fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

fn inspect(connection: &Connection, path: &Path) -> Result<Inspected, TaskOpenError> {
    schema::check(connection, path)?;
    look(connection).map_err(TaskOpenError::from)
}

fn look(connection: &Connection) -> Result<Inspected, TaskStoreError> {
    let number = |name: &str| {
        connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0))
    };
    let bytes = number("page_count")?.saturating_mul(number("page_size")?);
    let schema = number("user_version")?;
    let mut check = connection.prepare(&format!("PRAGMA quick_check({MOST})"))?;
    let said = check.query_map([], |row| row.get::<_, String>(0))?;
    let faults = said.filter(|said| said.as_deref() != Ok("ok")).collect::<Result<_, _>>()?;
    Ok(Inspected { bytes: u64::try_from(bytes).unwrap_or_default(), schema, faults })
}

#[cfg(test)]
mod tests {
    use super::super::{Options, TaskWriter, Write};
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let data = std::fs::read_dir(folder.join("data")).unwrap();
        let mut names: Vec<_> =
            data.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_looked_at_at_rest_and_in_use_and_nothing_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("with ? and %20");
        assert!(matches!(Sqlite::inspect(&folder), Err(TaskOpenError::Absent { .. })));
        let mut store = Sqlite::open(&Options::new(&folder)).unwrap();
        store.commit(Vec::<Write>::new()).unwrap();
        let whole = Sqlite::inspect(&folder).unwrap();
        assert!(whole.faults.is_empty() && whole.bytes > 0 && whole.schema > 0, "{whole:?}");
        drop(store);
        let before = names(&folder);
        assert_eq!(Sqlite::inspect(&folder).unwrap(), whole);
        assert_eq!(names(&folder), before);
    }

    #[test]
    fn damage_is_found() {
        let folder = tempfile::tempdir().unwrap();
        drop(Sqlite::open(&Options::new(folder.path())).unwrap());
        let path = file_in(folder.path());
        let mut bytes = std::fs::read(&path).unwrap();
        // The second page is that of a table; the first says what there is.
        bytes[4_096..8_192].fill(0x5a);
        std::fs::write(&path, &bytes).unwrap();
        match Sqlite::inspect(folder.path()) {
            Ok(found) => assert!(!found.faults.is_empty(), "{found:?}"),
            Err(error) => assert!(error.to_string().contains("damaged"), "{error}"),
        }
    }
}
