//! A file of the first schema is migrated and keeps its tasks.

use std::path::Path;
use std::sync::Arc;

use a2a_protocol::opt::PlanTaskStatus;
use a2a_protocol::task::TaskState;
use a2a_taskdb::{StoredTask, TaskDb, TaskOpenError, TaskReader, TaskWriter, Write};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::setup::*;

const FIRST: &str = include_str!("../../src/schema/1.sql");

/// Everything that the readers return about the tasks.
fn dump(reader: &dyn TaskReader) -> String {
    let task = |n| {
        let (events, pushes) = (reader.events(id(n), 0, 9), reader.pushes(id(n)));
        format!("{:#?} {events:?} {pushes:?}", reader.get(id(n)))
    };
    let due = reader.outbox_due(at(99), 9);
    let repeat = reader.message("client:acme", &agent("tim"), &label("m").into());
    format!("{} {} {due:?} {repeat:?}", task(1), task(2))
}

fn version(file: &Connection) -> i64 {
    file.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}

/// Schema 1 has no traces.
fn untraced(stored: StoredTask) -> StoredTask {
    StoredTask { trace: None, ..stored }
}

/// Rewrites the file with schema 1 and the rows of tasks, events, messages and push configurations.
fn downgrade(dir: &Path) {
    let (path, old) = (dir.join("data/a2a-tasks.db"), dir.join("old.db"));
    let file = Connection::open(&old).unwrap();
    file.execute_batch(FIRST).unwrap();
    file.pragma_update(None, "user_version", 1).unwrap();
    file.execute("ATTACH ?1 AS new", [path.to_str().unwrap()]).unwrap();
    file.execute_batch("ALTER TABLE new.tasks DROP COLUMN trace").unwrap();
    for table in ["tasks", "task_events", "sent_messages", "push_configs", "push_outbox"] {
        let names = "SELECT group_concat(name) FROM pragma_table_info(?1, 'main')";
        let names: String = file.query_row(names, [table], |row| row.get(0)).unwrap();
        let copy = format!("INSERT INTO main.{table} ({names}) SELECT {names} FROM new.{table}");
        let copied = file.execute(&copy, []).unwrap();
        assert!(copied > 0, "{table}");
    }
    file.execute("DETACH new", []).unwrap();
    drop(file);
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
    }
    std::fs::rename(old, path).unwrap();
}

#[test]
fn first_schema_is_migrated_and_keeps_tasks() {
    let mut bench = on_disk();
    let mut first = waiting(1, 5);
    first.last_event = 1;
    let with_event = Write::Create {
        stored: first.clone(),
        message: Some(label("m").into()),
        events: vec![event(&first, 1)],
        push: vec![push("a")],
    };
    done(&mut bench.tasks, vec![with_event, create(&untraced(task_in(1, 2)))]);
    let before = dump(&*bench.tasks.reader());
    drop(bench.tasks);
    downgrade(bench.dir.path());

    let older = TaskDb::open_read_only(bench.dir.path()).err().unwrap();
    assert!(matches!(older, TaskOpenError::Older { found: 1, known: 4, .. }), "{older}");
    let mut tasks = open(bench.dir.path());
    let reader = tasks.reader();
    assert_eq!(dump(&*reader), before);
    let kept = Connection::open(bench.dir.path().join("data/a2a-tasks.db.v1.bak")).unwrap();
    assert_eq!(version(&kept), 1, "as it was is kept beside it");
    let tasks_kept: i64 =
        kept.query_row("SELECT count(*) FROM tasks", [], |row| row.get(0)).unwrap();
    assert_eq!(tasks_kept, 2);
    assert!(reader.open_objectives().unwrap().is_empty());
    let step = done_by(new_step(1, 0, 0), 2, PlanTaskStatus::Working);
    done(&mut tasks, vec![change(&new_objective(1), &[new_plan(1, 0)], &[step])]);
    done(&mut tasks, vec![update(&then(&first, TaskState::Working, 9)), Write::Delete(id(2))]);
    assert_eq!(reader.plan_task_of(id(2)).unwrap(), None);
    drop((reader, tasks));

    // Opening it again migrates nothing.
    let tasks = open(bench.dir.path());
    assert_eq!(tasks.reader().open_objectives().unwrap().len(), 1);
    drop(tasks);
    let file = Connection::open(bench.dir.path().join("data/a2a-tasks.db")).unwrap();
    assert_eq!(version(&file), 4);
    let sound: String = file.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    let mut stray = file.prepare("PRAGMA foreign_key_check").unwrap();
    assert!(!stray.exists([]).unwrap());
}

#[test]
fn version_in_old_metadata_moves_to_its_column() {
    const KEY: &str = "urn:openclaw:a2a:version:v1";
    let mut bench = on_disk();
    let noted = [
        (json!({KEY: "0.3"}), None, Some("0.3")),
        (json!({"k": [1.50, "é"], KEY: "0.3"}), Some(json!({"k": [1.50, "é"]})), Some("0.3")),
        (json!({"k": 1}), Some(json!({"k": 1})), None),
        // A value that the server did not write stays.
        (json!({KEY: {"k": 1}}), Some(json!({KEY: {"k": 1}})), None),
    ];
    for (n, (before, ..)) in (1..).zip(&noted) {
        let mut stored = new_task(n);
        stored.last_event = 1;
        Arc::make_mut(&mut stored.task).metadata = before.as_object().cloned();
        let (message, events) = (Some(label(&n.to_string()).into()), vec![event(&stored, 1)]);
        let write = Write::Create { stored, message, events, push: vec![push("a")] };
        done(&mut bench.tasks, vec![write]);
    }
    drop(bench.tasks);
    downgrade(bench.dir.path());
    let mut tasks = open(bench.dir.path());
    let reader = tasks.reader();
    for (n, (_, metadata, version)) in (1..).zip(noted) {
        let stored = reader.get(id(n)).unwrap().unwrap();
        assert_eq!(stored.task.metadata.clone().map(Value::Object), metadata);
        assert_eq!(stored.spoken_version.as_deref(), version);
        // An update keeps it.
        let next = then(&stored, TaskState::Working, 9);
        done(&mut tasks, vec![update(&next)]);
        assert_eq!(reader.get(id(n)).unwrap().unwrap(), next);
    }
}

#[test]
fn migrated_and_new_file_have_same_schema() {
    let schema = |dir: &Path| -> Vec<String> {
        let file = Connection::open(dir.join("data/a2a-tasks.db")).unwrap();
        let mut select = file
            .prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")
            .unwrap();
        let rows = select.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    };
    let new = on_disk();
    let mut old = on_disk();
    let mut stored = new_task(1);
    stored.last_event = 1;
    let events = vec![event(&stored, 1)];
    let write =
        Write::Create { stored, message: Some(label("m").into()), events, push: vec![push("a")] };
    done(&mut old.tasks, vec![write]);
    drop(old.tasks);
    downgrade(old.dir.path());
    drop(open(old.dir.path()));
    assert_eq!(schema(old.dir.path()), schema(new.dir.path()));
}
