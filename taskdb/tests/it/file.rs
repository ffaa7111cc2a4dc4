//! What is only true of the file: restarts, other versions, a full disk, many readers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use a2a_protocol::task::{Role, TaskState};
use a2a_taskdb::{
    ListQuery, Options, Sqlite, StoredTask, TaskOpenError, TaskStoreError, TaskWriter, Write,
    Written,
};
use rusqlite::Connection;

use super::setup::*;

fn file(dir: &Path) -> PathBuf {
    dir.join("data").join("a2a-tasks.db")
}

/// As a person with `sqlite3` would look.
fn raw(dir: &Path) -> Connection {
    Connection::open(file(dir)).unwrap()
}

fn text(connection: &Connection, query: &str) -> String {
    connection.query_row(query, [], |row| row.get(0)).unwrap()
}

fn refusal(dir: &Path) -> TaskOpenError {
    Sqlite::open(&Options::new(dir)).err().unwrap()
}

#[test]
fn a_restart_remembers_everything() {
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
fn a_row_that_another_hand_changed_is_not_overwritten() {
    let mut bench = on_disk();
    let first = new_task(1);
    done(&mut bench.tasks, vec![create(&first)]);
    let second = then(&first, TaskState::Completed, 1_500);
    for (hand, version) in [("UPDATE tasks SET version = 7", Some(7)), ("DELETE FROM tasks", None)]
    {
        raw(bench.dir.path()).execute(hand, []).unwrap();
        let written = one(&mut bench.tasks, update(&second));
        assert_eq!(written, Written::Conflict { version }, "{hand}");
    }
}

#[test]
fn people_can_read_it() {
    let mut bench = on_disk();
    let first = waiting(1, 5);
    let mut second = then(&first, TaskState::InputRequired, 1_500);
    Arc::make_mut(&mut second.task).status.message = Some(says(Role::Agent, "which?").into());
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
fn nobody_else_may_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let mut bench = on_disk();
    done(&mut bench.tasks, vec![create(&new_task(1))]);
    for name in ["a2a-tasks.db", "a2a-tasks.db-wal"] {
        let file = bench.dir.path().join("data").join(name);
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{name}");
    }
}

#[test]
fn one_process_writes_and_any_number_reads() {
    let mut bench = on_disk();
    done(&mut bench.tasks, vec![create(&new_task(1))]);
    assert!(matches!(refusal(bench.dir.path()), TaskOpenError::InUse { .. }));
    let reader = Sqlite::open_read_only(bench.dir.path()).unwrap();
    assert!(reader.get(id(1)).unwrap().is_some());
    done(&mut bench.tasks, vec![create(&new_task(2))]);
    assert!(reader.get(id(2)).unwrap().is_some());
    drop(bench.tasks);
    assert!(reader.get(id(2)).unwrap().is_some());
    let reader = Sqlite::open_read_only(bench.dir.path()).unwrap();
    assert_eq!(reader.open().unwrap().len(), 2);
    drop(open(bench.dir.path()));
}

#[test]
fn a_child_that_is_just_being_born_does_not_hold_the_lock() {
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
            (0..300).map(|_| Sqlite::open(&Options::new(dir.path())).map(drop)).collect();
        stop.store(true, Ordering::Relaxed);
        opened.unwrap();
    });
}

#[test]
fn only_databases_of_this_program_are_opened() {
    let dir = tempfile::tempdir().unwrap();
    let absent = Sqlite::open_read_only(dir.path()).err().unwrap();
    assert!(matches!(absent, TaskOpenError::Absent { .. }), "{absent}");
    assert!(!dir.path().join("data").exists(), "looking makes nothing");

    drop(open(dir.path()));
    raw(dir.path()).pragma_update(None, "user_version", 7).unwrap();
    let newer = refusal(dir.path()).to_string();
    assert!(newer.contains("newer version") && newer.contains("format 7"), "{newer}");
    let newer = Sqlite::open_read_only(dir.path()).err().unwrap();
    assert!(matches!(&newer, TaskOpenError::Newer(n) if n.found == 7), "{newer}");
    raw(dir.path()).pragma_update(None, "user_version", 4).unwrap();
    drop(open(dir.path()));

    raw(dir.path()).pragma_update(None, "user_version", 0).unwrap();
    assert!(matches!(refusal(dir.path()), TaskOpenError::Foreign { .. }));
    let older = Sqlite::open_read_only(dir.path()).err().unwrap();
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
fn a_damaged_row_is_named() {
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
            // Any text is an owner.
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

/// A task whose history alone needs this many bytes.
fn heavy(n: u64, bytes: usize) -> a2a_taskdb::StoredTask {
    let mut stored = new_task(n);
    let message = a2a_protocol::task::Message {
        parts: vec![a2a_protocol::task::Part::text("x".repeat(bytes))],
        ..says(Role::User, "heavy")
    };
    Arc::make_mut(&mut stored.task).history = vec![message.into()];
    stored
}

#[test]
fn a_full_disk_takes_nothing_and_the_writer_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { max_bytes: Some(600_000), ..Options::new(dir.path()) };
    let mut tasks = Sqlite::open(&options).unwrap();
    let first = new_task(1);
    done(&mut tasks, vec![create(&first)]);
    // The update would fit; what comes with it does not.
    let mut second = then(&first, TaskState::Working, 10);
    Arc::make_mut(&mut second.task).history.push(says(Role::Agent, "more").into());
    let error = tasks.commit(vec![update(&second), create(&heavy(2, 900_000))]).unwrap_err();
    assert!(matches!(error, TaskStoreError::Full(_)), "{error:?}");
    let reader = tasks.reader();
    assert_eq!(reader.open().unwrap(), [first]);
    // The same once more: nothing of it may count as written.
    done(&mut tasks, vec![update(&second)]);
    assert_eq!(reader.get(id(1)).unwrap().unwrap(), second);
    done(&mut tasks, vec![create(&heavy(3, 200_000))]);
    assert!(matches!(tasks.commit(vec![create(&heavy(4, 400_000))]), Err(TaskStoreError::Full(_))));
    // Room is made, and there is room.
    done(&mut tasks, vec![Write::Delete(id(3))]);
    done(&mut tasks, vec![create(&heavy(4, 300_000))]);
    assert_eq!(ids(&reader.open().unwrap()), [id(1), id(4)]);
}

#[test]
fn what_did_not_change_is_not_written_again() {
    let mut bench = on_disk();
    let mut stored = new_task(1);
    Arc::make_mut(&mut stored.task).artifacts = vec![artifact("a")];
    done(&mut bench.tasks, vec![create(&stored)]);
    // Marks that any writing of the columns would take away.
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
    Arc::make_mut(&mut stored.task).history.push(says(Role::Agent, "more").into());
    done(&mut bench.tasks, vec![update(&stored)]);
    assert_eq!(lengths(), (1, 0), "what was said before is not written again");
    mark();
    stored = then(&stored, TaskState::Working, 12);
    let artifact = &mut Arc::make_mut(&mut stored.task).artifacts[0];
    Arc::make_mut(artifact).name = Some("same length".to_owned());
    done(&mut bench.tasks, vec![update(&stored)]);
    assert_eq!(lengths(), (1, 1));
    // A writer that has just been opened knows nothing and writes all.
    drop(bench.tasks);
    let mut tasks = open(bench.dir.path());
    stored = then(&stored, TaskState::Working, 13);
    done(&mut tasks, vec![update(&stored)]);
    assert_eq!(lengths(), (2, 1));
}

/// Says so many things more about a task.
fn talk(stored: &mut StoredTask, count: usize) {
    let history = &mut Arc::make_mut(&mut stored.task).history;
    let said = (history.len()..).take(count);
    history.extend(said.map(|n| Arc::new(says(Role::Agent, &format!("word {n} \", [x], 'y'")))));
}

#[test]
fn a_word_more_is_a_row_more_and_at_the_end_all_stand_in_one() {
    let mut bench = on_disk();
    let reader = bench.tasks.reader();
    let file = raw(bench.dir.path());
    // Messages in rows of their own, and in the row of the task.
    let standing = || {
        let count = |query| file.query_row(query, [], |row| row.get::<_, i64>(0)).unwrap();
        let rows = count("SELECT count(*) FROM task_messages");
        (rows, count("SELECT coalesce(max(json_array_length(history)), 0) FROM tasks"))
    };
    let mut stored = new_task(1);
    talk(&mut stored, 1);
    done(&mut bench.tasks, vec![create(&stored)]);
    assert_eq!(standing(), (0, 2), "a new task is one row");
    for (more, rows) in [(1, 1), (0, 1), (3, 4)] {
        stored = then(&stored, TaskState::Working, 10 + more as i64);
        talk(&mut stored, more);
        done(&mut bench.tasks, vec![update(&stored)]);
        assert_eq!(standing(), (rows, 2), "{more} more");
        assert_eq!(reader.get(id(1)).unwrap().unwrap(), stored);
    }
    // Another beginning, as when the oldest are dropped.
    stored = then(&stored, TaskState::Working, 20);
    Arc::make_mut(&mut stored.task).history.drain(..2);
    done(&mut bench.tasks, vec![update(&stored)]);
    assert_eq!(standing(), (3, 1));
    assert_eq!(reader.get(id(1)).unwrap().unwrap(), stored);
    // A writer that has just been opened, which takes nothing for granted.
    drop(bench.tasks);
    let mut tasks = open(bench.dir.path());
    let reader = tasks.reader();
    assert_eq!(reader.open().unwrap(), [stored.clone()]);
    stored = then(&stored, TaskState::Working, 21);
    talk(&mut stored, 2);
    done(&mut tasks, vec![update(&stored)]);
    assert_eq!(standing(), (5, 1));
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
    assert_eq!(standing(), (0, 6), "what has ended is one row");
    // What goes leaves nothing behind.
    let mut other = new_task(2);
    done(&mut tasks, vec![create(&other)]);
    other = then(&other, TaskState::Working, 50);
    talk(&mut other, 2);
    done(&mut tasks, vec![update(&other), Write::Delete(id(1)), Write::Delete(id(2))]);
    assert_eq!(standing(), (0, 0));
}

#[test]
fn readers_never_wait_for_a_writer() {
    let mut bench = on_disk();
    done(&mut bench.tasks, vec![create(&new_task(1))]);
    let reader = bench.tasks.reader();
    let writing = raw(bench.dir.path());
    writing.busy_timeout(std::time::Duration::ZERO).unwrap();
    writing.execute_batch("BEGIN IMMEDIATE; UPDATE tasks SET version = 9").unwrap();
    // The transaction stays open for as long as these take.
    assert_eq!(reader.get(id(1)).unwrap().unwrap().version, 1);
    assert_eq!(reader.list(&ListQuery::default()).unwrap().total_size, 1);
    writing.execute_batch("COMMIT").unwrap();
    assert_eq!(reader.get(id(1)).unwrap().unwrap().version, 9);
}

#[test]
fn every_reader_sees_whole_commits() {
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
