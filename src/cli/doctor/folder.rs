//! The state folder: whether it is ours, who else may write to it, and what lies around in it.

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

/// Folders that hold what the bus keeps, in the state folder.
const FOLDERS: [&str; 3] = ["", "a2a-log", "data"];
/// A file that is being written has been so for less.
const IN_USE: Duration = Duration::from_secs(3_600);
/// How many names are listed.
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
    findings.extend(private(TokenFile::below(state).path(), Holds::Hashes));
    findings.extend(private(&state.join("data/a2a-tasks.db"), Holds::Secrets));
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

/// Somebody once ran the program as another user: then the server cannot change these.
fn owners(state: &Path, owner: u32) -> Option<Finding> {
    let others: Vec<_> = entries(state).filter(|(_, metadata)| metadata.uid() != owner).collect();
    if others.is_empty() {
        return None;
    }
    let detail = format!("the folder belongs to user {owner}, but not {}", names(&others));
    let next = format!("give it all to one user: chown -R {owner} {}", state.display());
    Some(Finding::problem("owner", detail, next))
}

/// What is in a file that is for its owner alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// Who reads them cannot come in with them; who writes them can.
    Hashes,
    /// Who reads them can use them.
    Secrets,
}

fn private(file: &Path, holds: Holds) -> Option<Finding> {
    const NAME: &str = "permissions";
    let mode = fs::metadata(file).ok()?.mode() & 0o777;
    let shown = file.display();
    let next = format!("keep it to its owner: chmod 600 {shown}");
    Some(match (mode & 0o077, holds) {
        (0, _) => Finding::ok(NAME, format!("{shown} is its owner's alone")),
        (others, Holds::Hashes) if others & 0o022 == 0 => {
            let detail = format!("others may read the hashes in {shown} (mode {mode:03o})");
            Finding::warning(NAME, detail, next)
        }
        (_, Holds::Hashes) => {
            let detail = format!("others may make themselves tokens in {shown} (mode {mode:03o})");
            Finding::problem(NAME, detail, next)
        }
        (_, Holds::Secrets) => {
            let detail =
                format!("others may read the secrets of webhooks in {shown} (mode {mode:03o})");
            Finding::problem(NAME, detail, next)
        }
    })
}

/// Files of batches that are durable and not in the log: the store keeps them for a person.
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
    name.starts_with("a2a-ahead-") && name.contains(".kept-")
}

/// Messages are for their senders and recipients, and for who runs the server.
fn readable(state: &Path) -> Option<Finding> {
    // These two have findings of their own.
    let told = [TokenFile::below(state).path().to_owned(), state.join("data/a2a-tasks.db")];
    let mut exposed = exposed(state).ok()?;
    exposed.retain(|exposed| !told.contains(&exposed.path));
    let first = exposed.first()?;
    let detail = format!(
        "other users may get at {} of the folders and files here, such as {} (mode {:03o})",
        exposed.len(),
        first.path.display(),
        first.mode & 0o777
    );
    let next = "start the server anew: it takes their rights away and says so";
    Some(Finding::warning("privacy", detail, next))
}

/// Files that a crash, an older version or a person left behind.
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
        return Finding::ok("leftovers", "nothing lies around in the state folder");
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
    /// Kept for somebody to look at.
    Aside,
    /// A write that may be going on.
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

/// What lies in the state folder and in those of the bus in it.
fn entries(state: &Path) -> impl Iterator<Item = (PathBuf, Metadata)> {
    FOLDERS
        .into_iter()
        .filter_map(move |name| fs::read_dir(state.join(name)).ok())
        .flatten()
        .filter_map(|entry| entry.and_then(|entry| Ok((entry.path(), entry.metadata()?))).ok())
}

/// The names of some of them, and how many more there are.
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

/// How much is in the files of a folder and of those in it.
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
    fn what_was_set_aside_is_told_from_what_is_in_use() {
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
        assert!(is_kept(Path::new("data/a2a-ahead-1.bin.kept-3")));
        assert!(!is_kept(Path::new("data/a2a-ahead-1.bin")));
    }
}
