//! Checks of the stored data: journal and index, task database, hash chain.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Instant;

use a2a_journal::{OfflineJournal, OpenError, RecoveryReport, read_offline};
use a2a_protocol::task::TaskState;
use a2a_taskdb::{ListQuery, MAX_PAGE, TaskDb, TaskOpenError};
use chrono::{TimeDelta, Utc};

use super::finding::{Finding, RUN_AS_SERVER_USER, bytes, is_denied, unreadable};
use super::folder::size_of;
use crate::cli::log::verify::{self, Checked};
use crate::cli::server_locator::{Located, ServerLocator};
use crate::cli::stdout::note;

/// Logs above this size get a note, because verifying them takes a while.
const LARGE: u64 = 256 << 20;
/// Age after which an unanswered question counts as forgotten.
const FORGOTTEN: TimeDelta = TimeDelta::hours(1);
const PUT_BACK: &str = "stop the server, keep a copy of the state folder, and put a good copy back";

/// Checks whether the journal opens and its index matches the log.
pub(super) fn journal(locator: &ServerLocator, found: &Located) -> Vec<Finding> {
    const NAME: &str = "journal";
    let state = locator.state.path();
    if matches!(found, Located::NotRunning)
        && let Some(denied) =
            unreadable(NAME, &[&state.join("a2a-log"), &state.join("data/a2a-journal/db")])
    {
        return vec![denied];
    }
    match found {
        Located::Server(_) => vec![Finding::ok(NAME, "the server has it open")],
        // Reported by the address check.
        Located::Unresponsive => Vec::new(),
        Located::NotRunning if !state.join("a2a-log").is_dir() => {
            vec![Finding::ok(NAME, "there is none yet")]
        }
        Located::NotRunning => vec![match read_offline(state) {
            Ok(Some(OfflineJournal { report, .. })) => opened(&report),
            Ok(None) => Finding::warning(
                NAME,
                "the index (data/a2a-journal) is missing, far behind, or does not fit the log",
                "nothing is lost: the next start builds it anew from the log, which may take a while",
            ),
            Err(OpenError::Locked { .. }) => {
                Finding::ok(NAME, "somebody opened it while this looked; it can be opened")
            }
            Err(error) => {
                let error = anyhow::Error::from(error);
                let denied = is_denied(&error);
                let next = if denied { RUN_AS_SERVER_USER } else { PUT_BACK };
                Finding::problem(NAME, format!("{error:#}"), next)
            }
        }],
    }
}

fn opened(report: &RecoveryReport) -> Finding {
    const NAME: &str = "journal";
    let RecoveryReport { unreadable_lines, broken_links, torn_bytes, lines_replayed, .. } = report;
    if report.lost_bytes > 0 {
        let bytes = report.lost_bytes;
        let detail =
            format!("the log ends {bytes} bytes before what was durable when it was last written");
        return Finding::problem(NAME, detail, PUT_BACK);
    }
    if *unreadable_lines > 0 || *broken_links > 0 {
        let detail = format!(
            "behind what the index holds, {unreadable_lines} lines cannot be read and {broken_links} do not follow the line before"
        );
        return Finding::problem(NAME, detail, PUT_BACK);
    }
    if *torn_bytes > 0 {
        return Finding::warning(
            NAME,
            format!("the last write was cut short: {torn_bytes} bytes were never promised"),
            "nothing that was acknowledged is in them; the next start sets them aside",
        );
    }
    match lines_replayed {
        0 => Finding::ok(NAME, "it opens, and the index holds every line of the log"),
        lines => Finding::ok(NAME, format!("it opens; {lines} lines are not in the index yet")),
    }
}

/// Checks the integrity of the task database.
pub(super) fn tasks(state: &Path) -> Option<Finding> {
    const NAME: &str = "tasks";
    let file = state.join("data/a2a-tasks.db");
    // SQLite does not name the file that it cannot open.
    let beside = [state.join("data/a2a-tasks.db-wal"), state.join("data/a2a-tasks.db-shm")];
    let files = [&state.join("data"), &file, &beside[0], &beside[1]];
    if let Some(denied) = unreadable(NAME, &files.map(PathBuf::as_path)) {
        return Some(denied);
    }
    Some(match TaskDb::check_integrity(state) {
        Ok(found) if found.faults.is_empty() => {
            let (size, schema) = (bytes(found.bytes), found.schema);
            Finding::ok(NAME, format!("the database is whole: {size}, schema {schema}"))
        }
        Ok(found) => {
            let detail = format!("the database is damaged: {}", found.faults.join("; "));
            Finding::problem(NAME, detail, PUT_BACK)
        }
        Err(TaskOpenError::Absent { .. }) if !state.join("data").is_dir() => return None,
        Err(TaskOpenError::Absent { .. }) => Finding::ok(NAME, "there is no database yet"),
        Err(TaskOpenError::Older { found, known, .. }) => Finding::warning(
            NAME,
            format!("the database has schema {found}, this program {known}"),
            "keep a copy; the next start brings it up to date",
        ),
        Err(TaskOpenError::Newer(newer)) => Finding::problem(
            NAME,
            format!(
                "the database has schema {}, this program knows {}",
                newer.found,
                newer.known.unwrap_or_default()
            ),
            "start the newer version of this program, or put back a copy from before it ran",
        ),
        Err(error) => Finding::problem(NAME, format!("{:#}", anyhow::Error::from(error)), PUT_BACK),
    })
}

/// Verifies the hash chain in the files and in the index.
pub(super) fn chain(locator: &ServerLocator, found: &Located, quick: bool) -> Finding {
    const NAME: &str = "chain";
    let folder = locator.state.path().join("a2a-log");
    if !folder.is_dir() {
        return Finding::ok(NAME, "there is no log yet");
    }
    if let Some(denied) = unreadable(NAME, &[&folder]) {
        return denied;
    }
    let size = size_of(&folder);
    if quick {
        return Finding::ok(NAME, format!("not proven (--quick): {} of log", bytes(size)));
    }
    if size > LARGE && std::io::stderr().is_terminal() {
        note(&format!("reading {} of log; --quick leaves that out", bytes(size)));
    }
    let begin = Instant::now();
    match verify::check(locator, found, &[]) {
        Ok(Checked::Whole { files, index }) => {
            let (size, took) = (bytes(size), begin.elapsed().as_secs_f64());
            let detail = format!("{} lines are whole ({size} in {took:.1} s)", files.lines);
            if index {
                return Finding::ok(NAME, detail);
            }
            let detail = format!("{detail}; the index was not checked, as another process has it");
            Finding::warning(NAME, detail, "look again when that process answers or has ended")
        }
        Ok(Checked::Broken { details, place }) => {
            let problem = details["problem"].as_str().unwrap_or("it is not whole");
            Finding::problem(
                NAME,
                format!("{place}{problem}"),
                "keep a copy of the state folder as evidence, then put a good copy back; `openclaw-a2a log verify` says more",
            )
        }
        Err(error) if is_denied(&error) => {
            Finding::problem(NAME, format!("it could not be proven: {error:#}"), RUN_AS_SERVER_USER)
        }
        Err(error) => Finding::warning(
            NAME,
            format!("it could not be proven: {error:#}"),
            "if the server asks for a token, give an operator's with --token; otherwise run `openclaw-a2a log verify`",
        ),
    }
}

/// Reports tasks that have waited long for an answer of their caller.
pub(super) fn waiting(state: &Path) -> Option<Finding> {
    const NAME: &str = "waiting";
    let reader = TaskDb::open_read_only(state).ok()?;
    let query = ListQuery {
        status: Some(TaskState::InputRequired),
        page_size: MAX_PAGE,
        history_length: Some(0),
        ..ListQuery::default()
    };
    let page = reader.list(&query).ok()?;
    let before = Utc::now() - FORGOTTEN;
    let is_old = |time: &a2a_protocol::task::UtcMillis| time.to_utc() < before;
    let old = page.tasks.iter().filter(|stored| is_old(&stored.task.status.timestamp)).count();
    let total = page.total_size;
    Some(match old {
        0 if total == 0 => Finding::ok(NAME, "no task waits for its caller"),
        0 => Finding::ok(NAME, format!("{total} tasks wait for their callers, none for an hour")),
        old => Finding::warning(
            NAME,
            format!(
                "of {total} tasks that wait for their callers, at least {old} do so for over an hour"
            ),
            "answer or cancel them: tasks in input-required wait until they are answered or expire",
        ),
    })
}
