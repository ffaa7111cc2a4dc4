//! Checks of the state folder: owner, permissions and leftover files.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use a2a_gateway::auth::tokens::TokenFile;
use a2a_journal::exposed;
use rustix::fs::{Access, access};
use rustix::process::geteuid;

use super::finding::{Finding, bytes};

/// Folders of the bus below the state folder.
const FOLDERS: [&str; 3] = ["", "a2a-log", "data"];
/// A temporary file older than this is no longer being written.
const IN_USE: Duration = Duration::from_secs(3_600);
/// Maximum number of file names in a finding.
const LISTED: usize = 5;

pub(super) fn check(state: &Path) -> Vec<Finding> {
    let shown = state.display();
    let metadata = match fs::metadata(state) {
        Ok(metadata) if metadata.is_dir() => metadata,
        Ok(_) => {
            let detail = format!("{shown} is no folder");
            return vec![Finding::problem("state", detail, "name another with --state-dir")];
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return vec![not_there(state)],
        Err(error) => {
            let next = "run this as the user that the server runs as";
            return vec![Finding::problem("state", format!("{shown}: {error}"), next)];
        }
    };
    let mut findings = vec![of_folder(state, &metadata)];
    findings.extend(owners(state, metadata.uid()));
    findings.extend(private(TokenFile::below(state).path(), FileContents::Hashes));
    findings.extend(private(&state.join("data/a2a-tasks.db"), FileContents::Secrets));
    findings.extend(readable(state));
    findings
}

fn not_there(state: &Path) -> Finding {
    let above = state.ancestors().skip(1).find(|folder| folder.is_dir());
    let shown = state.display();
    match above {
        Some(above) if access(above, Access::WRITE_OK | Access::EXEC_OK).is_err() => {
            Finding::problem(
                "state",
                format!("{shown} does not exist, and you may not write to {}", above.display()),
                "name another folder with --state-dir, or make this one and give it to the user that the server runs as",
            )
        }
        _ => Finding::ok(
            "state",
            format!("{shown} does not exist yet; `openclaw-a2a serve` makes it"),
        ),
    }
}

fn of_folder(state: &Path, metadata: &Metadata) -> Finding {
    let shown = state.display();
    let (owner, me) = (metadata.uid(), geteuid());
    if !me.is_root() && owner != me.as_raw() {
        return Finding::warning(
            "state",
            format!("{shown} belongs to user {owner}, and you are user {}", me.as_raw()),
            "run this and the server as that user, or give it the folder: chown -R",
        );
    }
    for folder in FOLDERS.map(|name| state.join(name)) {
        let asked = access(&folder, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK);
        if asked.is_err() && folder.exists() {
            let detail = format!("{} cannot be written to", folder.display());
            let next = "make it writable: chmod -R u+rwX, or mount its file system for writing";
            return Finding::problem("state", detail, next);
        }
        let mode = fs::metadata(&folder).map_or(0, |metadata| metadata.mode());
        if mode & 0o022 != 0 {
            return Finding::warning(
                "state",
                format!("others may write to {} (mode {:03o})", folder.display(), mode & 0o777),
                format!("take that away: chmod go-w {}", folder.display()),
            );
        }
    }
    Finding::ok("state", format!("{shown} is writable, and by its owner alone"))
}

/// Reports files of another user, which the server cannot change.
fn owners(state: &Path, owner: u32) -> Option<Finding> {
    let others: Vec<_> = entries(state).filter(|(_, metadata)| metadata.uid() != owner).collect();
    if others.is_empty() {
        return None;
    }
    let detail = format!("the folder belongs to user {owner}, but not {}", names(&others));
    let next = format!("give it all to one user: chown -R {owner} {}", state.display());
    Some(Finding::problem("owner", detail, next))
}

/// Content of a file that must be private.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileContents {
    /// Hashes: useless to read, but writing them grants access.
    Hashes,
    /// Secrets that grant access when read.
    Secrets,
}

fn private(file: &Path, contents: FileContents) -> Option<Finding> {
    const NAME: &str = "permissions";
    let mode = fs::metadata(file).ok()?.mode() & 0o777;
    let shown = file.display();
    let next = format!("keep it to its owner: chmod 600 {shown}");
    Some(match (mode & 0o077, contents) {
        (0, _) => Finding::ok(NAME, format!("{shown} is its owner's alone")),
        (others, FileContents::Hashes) if others & 0o022 == 0 => {
            let detail = format!("others may read the hashes in {shown} (mode {mode:03o})");
            Finding::warning(NAME, detail, next)
        }
        (_, FileContents::Hashes) => {
            let detail = format!("others may make themselves tokens in {shown} (mode {mode:03o})");
            Finding::problem(NAME, detail, next)
        }
        (_, FileContents::Secrets) => {
            let detail =
                format!("others may read the secrets of webhooks in {shown} (mode {mode:03o})");
            Finding::problem(NAME, detail, next)
        }
    })
}

/// Reports batches of the write-ahead log that recovery could not append to the log and has kept.
pub(super) fn left_out(state: &Path) -> Option<Finding> {
    let kept: Vec<_> = entries(state).filter(|(path, _)| is_kept(path)).collect();
    if kept.is_empty() {
        return None;
    }
    let detail = format!(
        "batches that were written ahead and do not follow what is in the log are kept in {}",
        names(&kept)
    );
    let next = "messages that were accepted may be in them alone: see whether the log was exchanged or cut, put a good copy back, or move these files elsewhere (docs/log.md, Written ahead)";
    Some(Finding::warning("left-out", detail, next))
}

fn is_kept(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    ["a2a-wal-", "a2a-ahead-"].iter().any(|start| name.starts_with(start))
        && name.contains(".kept-")
}

/// Reports files that other users may read.
fn readable(state: &Path) -> Option<Finding> {
    // These have findings of their own.
    let reported = [TokenFile::below(state).path().to_owned(), state.join("data/a2a-tasks.db")];
    let mut exposed = exposed(state).ok()?;
    exposed.retain(|exposed| !reported.contains(&exposed.path));
    let first = exposed.first()?;
    let detail = format!(
        "other users may get at {} of the folders and files here, such as {} (mode {:03o})",
        exposed.len(),
        first.path.display(),
        first.mode & 0o777
    );
    let next = "start the server anew: it sets their modes to 0700 and 0600 and logs it";
    Some(Finding::warning("privacy", detail, next))
}

/// Reports files that a crash, an older version or a user left behind.
pub(super) fn leftovers(state: &Path) -> Finding {
    let now = SystemTime::now();
    let old = |metadata: &Metadata| {
        metadata.modified().ok().and_then(|time| now.duration_since(time).ok()) > Some(IN_USE)
    };
    let left: Vec<_> = entries(state)
        .filter(|(path, metadata)| match leftover(path) {
            Some(Leftover::Unfinished) => old(metadata),
            Some(Leftover::Aside) => true,
            None => false,
        })
        .collect();
    if left.is_empty() {
        return Finding::ok("leftovers", "no stray files in the state folder");
    }
    let size = left.iter().map(|(path, metadata)| match metadata.is_dir() {
        true => size_of(path),
        false => metadata.len(),
    });
    let detail = format!("{} set aside earlier: {}", bytes(size.sum()), names(&left));
    Finding::warning("leftovers", detail, "when nobody needs them any more, delete them")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leftover {
    /// Kept for inspection.
    Aside,
    /// Possibly still being written.
    Unfinished,
}

fn leftover(path: &Path) -> Option<Leftover> {
    let name = path.file_name()?.to_str()?;
    let aside = [".bak", ".torn", ".old", ".orig", "~"].iter().any(|end| name.ends_with(end));
    match name {
        _ if aside || name.contains(".unfit-") || name.contains(".bak-") => Some(Leftover::Aside),
        _ if name.starts_with("torn-") => Some(Leftover::Aside),
        _ if name.ends_with(".new") => Some(Leftover::Unfinished),
        _ => None,
    }
}

/// Entries of the state folder and of the bus's folders in it.
fn entries(state: &Path) -> impl Iterator<Item = (PathBuf, Metadata)> {
    FOLDERS
        .into_iter()
        .filter_map(move |name| fs::read_dir(state.join(name)).ok())
        .flatten()
        .filter_map(|entry| entry.and_then(|entry| Ok((entry.path(), entry.metadata()?))).ok())
}

/// Names of the first entries, and the number of further ones.
fn names(entries: &[(PathBuf, Metadata)]) -> String {
    let name = |(path, _): &(PathBuf, Metadata)| {
        path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
    };
    let listed = entries.iter().take(LISTED).map(name).collect::<Vec<_>>().join(", ");
    match entries.len().saturating_sub(LISTED) {
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}

/// Total size of the files below a folder.
pub(super) fn size_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => size_of(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_distinguished_from_files_in_use() {
        use Leftover::{Aside, Unfinished};
        for (name, expected) in [
            ("a2a.toml", None),
            ("2026-02-21.jsonl", None),
            ("a2a-tasks.db-wal", None),
            ("torn-2026-02-21T18-30-00.000Z.bin", Some(Aside)),
            ("a2a-journal.unfit-2026-02-21T18-30-00.000Z", Some(Aside)),
            ("a2a-tasks.db.bak", Some(Aside)),
            ("a2a-tasks.db.bak-1", Some(Aside)),
            ("a2a.toml~", Some(Aside)),
            ("a2a-tokens.json.new", Some(Unfinished)),
        ] {
            assert_eq!(leftover(Path::new(name)), expected, "{name}");
        }
        assert!(is_kept(Path::new("data/a2a-wal-1.bin.kept-3")));
        assert!(is_kept(Path::new("data/a2a-ahead-1.bin.kept-3"))); // OLD_WAL: files kept by earlier versions
        assert!(!is_kept(Path::new("data/a2a-wal-1.bin")));
    }
}
