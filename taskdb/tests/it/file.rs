//! Files only: restarts, other versions, a full disk, concurrent readers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use a2a_protocol::task::{Role, TaskState};
use a2a_taskdb::{
    ListQuery, Options, StoredTask, TaskDb, TaskOpenError, TaskStoreError, TaskWriter, Write,
    WriteOutcome,
};
use rusqlite::Connection;

use super::setup::*;

fn file(dir: &Path) -> PathBuf {
    dir.join("data").join("a2a-tasks.db")
}

/// A connection without this crate, as the `sqlite3` shell opens one.
fn raw(dir: &Path) -> Connection {
    Connection::open(file(dir)).unwrap()
}

fn text(connection: &Connection, query: &str) -> String {
    connection.query_row(query, [], |row| row.get(0)).unwrap()
}

fn refusal(dir: &Path) -> TaskOpenError {
    TaskDb::open(&Options::new(dir)).err().unwrap()
}

#[test]
fn committed_rows_survive_restart() {
    let mut bench = on_disk();
    let mut stored = waiting(1, 5);
    stored.last_event = 1;
    let write = Write::Create {
        stored: stored.clone(),
        message: Some(label("m").into()),
        events: vec![event(&stored, 1)],
        push: vec![push("a")],
    };
    done(&mut bench.tasks, vec![write]);
    drop(bench.tasks);
    let tasks = open(bench.dir.path());
    let reader = tasks.reader();
    assert_eq!(reader.open().unwrap(), [stored]);
    assert_eq!(reader.events(id(1), 0, 9).unwrap().len(), 1);
    assert!(reader.message("client:acme", &agent("tim"), &label("m").into()).unwrap().is_some());
    assert_eq!(reader.outbox_due(at(9), 9).unwrap().len(), 1);
}

#[test]
fn row_changed_by_another_program_conflicts() {
    let mut bench = on_disk();
    let first = new_task(1);
    done(&mut bench.tasks, vec![create(&first)]);
    let second = then(&first, TaskState::Completed, 1_500);
    for (hand, version) in [("UPDATE tasks SET version = 7", Some(7)), ("DELETE FROM tasks", None)]
    {
        raw(bench.dir.path()).execute(hand, []).unwrap();
        let written = one(&mut bench.tasks, update(&second));
        assert_eq!(written, WriteOutcome::Conflict { version }, "{hand}");
    }
}

#[test]
fn columns_are_readable_text() {
    let mut bench = on_disk();
    let first = waiting(1, 5);
    let mut second = then(&first, TaskState::InputRequired, 1_500);
    Arc::make_mut(&mut second.task).status.message =
        Some(text_message(Role::Agent, "which?").into());
    done(&mut bench.tasks, vec![create(&first), update(&second)]);
    let sql = raw(bench.dir.path());
    let row = text(
        &sql,
        "SELECT status_state || ' ' || status_timestamp || ' ' || queued_at || ' ' || owner \
         || ' ' || json_extract(status_message, '$.parts[0].text') \
         || ' ' || json_extract(history, '$[0].role') FROM tasks",
    );
    let expected = "input-required 2026-02-21T18:30:01.500Z 2026-02-21T18:30:00.001Z client:acme \
         which? ROLE_USER";
    assert_eq!(row, expected);
    let tables = text(
        &sql,
        "SELECT group_concat(name, ' ') FROM (SELECT name FROM sqlite_schema \
         WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name)",
    );
    let expected = "objectives plan_tasks plans push_configs push_outbox sent_messages task_events \
         task_messages tasks";
    assert_eq!(tables, expected);
}

#[cfg(unix)]
#[test]
fn files_are_readable_by_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let mut bench = on_disk();
    done(&mut bench.tasks, vec![create(&new_task(1))]);
    for name in ["a2a-tasks.db", "a2a-tasks.db-wal"] {
        let file = bench.dir.path().join("data").join(name);
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{name}");
    }
}

#[test]
fn one_process_writes_and_others_read() {
    let mut bench = on_disk();
    done(&mut bench.tasks, vec![create(&new_task(1))]);
    assert!(matches!(refusal(bench.dir.path()), TaskOpenError::InUse { .. }));
    let reader = TaskDb::open_read_only(bench.dir.path()).unwrap();
    assert!(reader.get(id(1)).unwrap().is_some());
    done(&mut bench.tasks, vec![create(&new_task(2))]);
    assert!(reader.get(id(2)).unwrap().is_some());
    drop(bench.tasks);
    assert!(reader.get(id(2)).unwrap().is_some());
    let reader = TaskDb::open_read_only(bench.dir.path()).unwrap();
    assert_eq!(reader.open().unwrap().len(), 2);
    drop(open(bench.dir.path()));
}

#[test]
fn forked_child_does_not_hold_writer_lock() {
    let dir = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Between fork and exec a child has a copy of every open file.
            while !stop.load(Ordering::Relaxed) {
                Command::new("true").status().unwrap();
            }
        });
        let opened: Result<Vec<()>, _> =
            (0..300).map(|_| TaskDb::open(&Options::new(dir.path())).map(drop)).collect();
        stop.store(true, Ordering::Relaxed);
        opened.unwrap();
    });
}

#[test]
fn databases_of_other_programs_and_versions_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let absent = TaskDb::open_read_only(dir.path()).err().unwrap();
    assert!(matches!(absent, TaskOpenError::Absent { .. }), "{absent}");
    assert!(!dir.path().join("data").exists(), "a reader creates no files");

    drop(open(dir.path()));
    raw(dir.path()).pragma_update(None, "user_version", 7).unwrap();
    let newer = refusal(dir.path()).to_string();
    assert!(newer.contains("newer version") && newer.contains("format 7"), "{newer}");
    let newer = TaskDb::open_read_only(dir.path()).err().unwrap();
    assert!(matches!(&newer, TaskOpenError::Newer(n) if n.found == 7), "{newer}");
    raw(dir.path()).pragma_update(None, "user_version", 4).unwrap();
    drop(open(dir.path()));

    raw(dir.path()).pragma_update(None, "user_version", 0).unwrap();
    assert!(matches!(refusal(dir.path()), TaskOpenError::Foreign { .. }));
    let older = TaskDb::open_read_only(dir.path()).err().unwrap();
    assert!(matches!(older, TaskOpenError::Older { found: 0, known: 4, .. }), "{older}");

    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", file(dir.path()).display()));
    }
    std::fs::write(file(dir.path()), "not a database, but long enough to look like one".repeat(99))
        .unwrap();
    let error = refusal(dir.path());
    assert!(matches!(error, TaskOpenError::Store(TaskStoreError::Damaged { .. })), "{error:?}");
}

#[test]
fn undecodable_row_is_named_in_error() {
    let mut bench = on_disk();
    done(&mut bench.tasks, vec![create(&new_task(1)), create(&new_task(2))]);
    let reader = bench.tasks.reader();
    for (column, value) in
        [("history", "[{]"), ("status_state", "WORKING"), ("owner", ""), ("created_at", "then")]
    {
        let old = text(
            &raw(bench.dir.path()),
            &format!("SELECT {column} FROM tasks WHERE agent = 'tim' LIMIT 1"),
        );
        let set = |value: &str| {
            let sql = format!("UPDATE tasks SET {column} = ?1 WHERE id = ?2");
            raw(bench.dir.path()).execute(&sql, [value, &id(1).to_string()]).unwrap();
        };
        set(value);
        match reader.get(id(1)) {
            // Any text is a valid owner.
            Ok(Some(stored)) => assert_eq!((column, &*stored.owner), ("owner", "")),
            Err(error) => {
                let sentence = error.to_string();
                assert!(
                    sentence.contains(column) && sentence.contains(&id(1).to_string()),
                    "{sentence}"
                );
            }
            Ok(None) => panic!("it is there"),
        }
        set(&old);
        assert!(reader.get(id(2)).unwrap().is_some());
    }
}

/// A task with a history of this many bytes.
fn heavy(n: u64, bytes: usize) -> a2a_taskdb::StoredTask {
    let mut stored = new_task(n);
    let message = a2a_protocol::task::Message {
        parts: vec![a2a_protocol::task::Part::text("x".repeat(bytes))],
        ..text_message(Role::User, "heavy")
    };
    Arc::make_mut(&mut stored.task).history = vec![message.into()];
    stored
}

#[test]
fn full_disk_fails_commit_and_writer_stays_usable() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { max_bytes: Some(600_000), ..Options::new(dir.path()) };
    let mut tasks = TaskDb::open(&options).unwrap();
    let first = new_task(1);
    done(&mut tasks, vec![create(&first)]);
    // The update alone would have enough space; the batch has not.
    let mut second = then(&first, TaskState::Working, 10);
    Arc::make_mut(&mut second.task).history.push(text_message(Role::Agent, "more").into());
    let error = tasks.commit(vec![update(&second), create(&heavy(2, 900_000))]).unwrap_err();
    assert!(matches!(error, TaskStoreError::Full(_)), "{error:?}");
    let reader = tasks.reader();
    assert_eq!(reader.open().unwrap(), [first]);
    // The same update again: the row cache must not hold the failed one.
    done(&mut tasks, vec![update(&second)]);
    assert_eq!(reader.get(id(1)).unwrap().unwrap(), second);
    done(&mut tasks, vec![create(&heavy(3, 200_000))]);
    assert!(matches!(tasks.commit(vec![create(&heavy(4, 400_000))]), Err(TaskStoreError::Full(_))));
    // Deleting a task frees its space.
    done(&mut tasks, vec![Write::Delete(id(3))]);
    done(&mut tasks, vec![create(&heavy(4, 300_000))]);
    assert_eq!(ids(&reader.open().unwrap()), [id(1), id(4)]);
}

#[test]
fn unchanged_columns_are_not_written() {
    let mut bench = on_disk();
    let mut stored = new_task(1);
    Arc::make_mut(&mut stored.task).artifacts = vec![artifact("a")];
    done(&mut bench.tasks, vec![create(&stored)]);
    // Overwrites the columns behind the writer's back; only a write of them restores their content.
    let mark = || {
        raw(bench.dir.path())
            .execute("UPDATE tasks SET history = '[]', artifacts = '[]'", [])
            .unwrap()
    };
    let reader = bench.tasks.reader();
    let lengths = || {
        let task = reader.get(id(1)).unwrap().unwrap().task;
        (task.history.len(), task.artifacts.len())
    };
    mark();
    stored = then(&stored, TaskState::Working, 10);
    done(&mut bench.tasks, vec![update(&stored)]);
    assert_eq!(lengths(), (0, 0));
    stored = then(&stored, TaskState::Working, 11);
    Arc::make_mut(&mut stored.task).history.push(text_message(Role::Agent, "more").into());
    done(&mut bench.tasks, vec![update(&stored)]);
    assert_eq!(lengths(), (1, 0), "messages already stored are not written again");
    mark();
    stored = then(&stored, TaskState::Working, 12);
    let artifact = &mut Arc::make_mut(&mut stored.task).artifacts[0];
    Arc::make_mut(artifact).name = Some("same length".to_owned());
    done(&mut bench.tasks, vec![update(&stored)]);
    assert_eq!(lengths(), (1, 1));
    // A new writer has an empty row cache and writes all columns.
    drop(bench.tasks);
    let mut tasks = open(bench.dir.path());
    stored = then(&stored, TaskState::Working, 13);
    done(&mut tasks, vec![update(&stored)]);
    assert_eq!(lengths(), (2, 1));
}

/// Appends so many messages to the history of a task.
fn append_messages(stored: &mut StoredTask, count: usize) {
    let history = &mut Arc::make_mut(&mut stored.task).history;
    let numbers = (history.len()..).take(count);
    history.extend(
        numbers.map(|n| Arc::new(text_message(Role::Agent, &format!("word {n} \", [x], 'y'")))),
    );
}

#[test]
fn appended_message_is_one_row_until_task_ends() {
    let mut bench = on_disk();
    let reader = bench.tasks.reader();
    let file = raw(bench.dir.path());
    // Rows of `task_messages`, and messages in the row of the task.
    let counts = || {
        let count = |query| file.query_row(query, [], |row| row.get::<_, i64>(0)).unwrap();
        let rows = count("SELECT count(*) FROM task_messages");
        (rows, count("SELECT coalesce(max(json_array_length(history)), 0) FROM tasks"))
    };
    let mut stored = new_task(1);
    append_messages(&mut stored, 1);
    done(&mut bench.tasks, vec![create(&stored)]);
    assert_eq!(counts(), (0, 2), "a new task is one row");
    for (more, rows) in [(1, 1), (0, 1), (3, 4)] {
        stored = then(&stored, TaskState::Working, 10 + more as i64);
        append_messages(&mut stored, more);
        done(&mut bench.tasks, vec![update(&stored)]);
        assert_eq!(counts(), (rows, 2), "{more} more");
        assert_eq!(reader.get(id(1)).unwrap().unwrap(), stored);
    }
    // Another first message, as when the oldest are dropped.
    stored = then(&stored, TaskState::Working, 20);
    Arc::make_mut(&mut stored.task).history.drain(..2);
    done(&mut bench.tasks, vec![update(&stored)]);
    assert_eq!(counts(), (3, 1));
    assert_eq!(reader.get(id(1)).unwrap().unwrap(), stored);
    // A new writer, with an empty row cache.
    drop(bench.tasks);
    let mut tasks = open(bench.dir.path());
    let reader = tasks.reader();
    assert_eq!(reader.open().unwrap(), [stored.clone()]);
    stored = then(&stored, TaskState::Working, 21);
    append_messages(&mut stored, 2);
    done(&mut tasks, vec![update(&stored)]);
    assert_eq!(counts(), (5, 1));
    let all = reader.history_of_context("client:acme", &agent("tim"), &stored.task.context_id, 99);
    assert_eq!(all.unwrap().len(), 6);
    for end in [TaskState::Working, TaskState::Completed] {
        stored = then(&stored, end, 30);
        done(&mut tasks, vec![update(&stored)]);
        assert_eq!(
            reader
                .list(&ListQuery { page_size: 1, include_artifacts: true, ..ListQuery::default() })
                .unwrap()
                .tasks,
            [stored.clone()]
        );
    }
    assert_eq!(counts(), (0, 6), "what has ended is one row");
    // Deleting a task deletes its messages.
    let mut other = new_task(2);
    done(&mut tasks, vec![create(&other)]);
    other = then(&other, TaskState::Working, 50);
    append_messages(&mut other, 2);
    done(&mut tasks, vec![update(&other), Write::Delete(id(1)), Write::Delete(id(2))]);
    assert_eq!(counts(), (0, 0));
}

#[test]
fn reader_does_not_wait_for_writer() {
    let mut bench = on_disk();
    done(&mut bench.tasks, vec![create(&new_task(1))]);
    let reader = bench.tasks.reader();
    let writing = raw(bench.dir.path());
    writing.busy_timeout(std::time::Duration::ZERO).unwrap();
    writing.execute_batch("BEGIN IMMEDIATE; UPDATE tasks SET version = 9").unwrap();
    // The write transaction stays open during these reads.
    assert_eq!(reader.get(id(1)).unwrap().unwrap().version, 1);
    assert_eq!(reader.list(&ListQuery::default()).unwrap().total_size, 1);
    writing.execute_batch("COMMIT").unwrap();
    assert_eq!(reader.get(id(1)).unwrap().unwrap().version, 9);
}

#[test]
fn readers_see_whole_commits_only() {
    let mut bench = on_disk();
    let mut pair = [new_task(1), new_task(2)];
    done(&mut bench.tasks, pair.iter().map(create).collect());
    let reader = bench.tasks.reader();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            let reader = &reader;
            scope.spawn(move || {
                let mut last = 0;
                while last < 100 {
                    let page =
                        reader.list(&ListQuery { page_size: 9, ..ListQuery::default() }).unwrap();
                    assert_eq!(page.tasks[0].version, page.tasks[1].version);
                    assert!(page.tasks[0].version >= last, "never back");
                    last = page.tasks[0].version;
                }
            });
        }
        for ms in 3..110 {
            pair = pair.map(|stored| then(&stored, TaskState::Working, ms));
            done(&mut bench.tasks, pair.iter().map(update).collect());
        }
    });
}
