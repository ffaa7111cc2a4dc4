//! SIGKILL during commits: acknowledged commits survive, and none is partly there.
//!
//! The test runs itself as the child process to kill.

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use a2a_protocol::opt::{ObjectiveStatus, PlanTaskStatus};
use a2a_protocol::task::{Role, TaskState};
use a2a_taskdb::{Repeated, StoredTask, TaskReader, TaskWriter, Write};

use super::setup::*;

const ROUNDS: u64 = 16;
/// Tasks that one commit creates; the next commit completes them.
const BATCH: u64 = 16;
const FOLDER: &str = "A2A_TASKS_CRASH_FOLDER";
const FIRST: &str = "A2A_TASKS_CRASH_FIRST";

fn tasks_of(batch: u64) -> Vec<StoredTask> {
    (batch * BATCH..(batch + 1) * BATCH)
        .map(|n| {
            let mut stored = new_task(n);
            stored.last_event = 1;
            let task = Arc::make_mut(&mut stored.task);
            task.history.push(text_message(Role::Agent, &"long ".repeat(40)).into());
            stored
        })
        .collect()
}

/// Greater than the numbers of all other tasks.
const STEPS: u64 = 1 << 32;

/// The start or the end of an objective with one plan task and an A2A task of its own.
fn objective_of(batch: u64, ended: bool) -> Write {
    let (task, stored) = (task_in(batch, STEPS + batch), new_objective(batch));
    let step = |status| done_by(new_step(batch, 0, 0), STEPS + batch, status);
    Write::Atomic(if ended {
        let stored = on(&stored, ObjectiveStatus::Completed, 1_000_000);
        let task = then(&task, TaskState::Completed, 1_000_000);
        vec![update(&task), change(&stored, &[], &[step(PlanTaskStatus::Completed)])]
    } else {
        let step = step(PlanTaskStatus::Working);
        vec![create(&task), change(&stored, &[new_plan(batch, 0)], &[step])]
    })
}

/// Traces of the start of the objective, and of its end when `ended`.
fn signs_of_objective(reader: &dyn TaskReader, batch: u64, ended: bool) -> [bool; 3] {
    let tree = reader.objective(&context(&format!("obj-{batch}"))).unwrap();
    let task = reader.get(id(STEPS + batch)).unwrap();
    let revision = if ended { 2 } else { 1 };
    let steps = tree.as_ref().and_then(|tree| tree.plans.first()).map(|plan| &plan.tasks);
    let step = steps.and_then(|steps| steps.first());
    let status = |status: PlanTaskStatus| !ended || status.is_terminal();
    [
        tree.as_ref().is_some_and(|tree| tree.stored.revision >= revision),
        step.is_some_and(|step| step.a2a_task_id.is_some() && status(step.status)),
        task.is_some_and(|task| task.version >= revision),
    ]
}

/// The commit of this number: new tasks and an objective, and the end of the previous ones.
fn writes_of(batch: u64) -> Vec<Write> {
    let created = tasks_of(batch).into_iter().map(|stored| Write::Create {
        message: Some(label(&stored.task.id.to_string()).into()),
        events: vec![event(&stored, 1)],
        push: vec![push("a")],
        stored,
    });
    let before = batch.checked_sub(1).map(tasks_of).unwrap_or_default();
    let ended = before.into_iter().map(|stored| {
        let mut next = then(&stored, TaskState::Completed, 1_000_000);
        next.last_event = 2;
        let events = vec![event(&next, 2)];
        Write::Update { stored: next, expected: 1, events, message: None }
    });
    let objectives = batch.checked_sub(1).map(|before| objective_of(before, true));
    created.chain(ended).chain([objective_of(batch, false)]).chain(objectives).collect()
}

/// Commits until it is killed, and prints the number of each commit after it returned.
fn commit_for_ever(folder: &Path, first: u64) {
    let mut tasks = open(folder);
    for batch in first.. {
        done(&mut tasks, writes_of(batch));
        let mut out = std::io::stdout().lock();
        writeln!(out, "\nanswered {batch}").unwrap();
        out.flush().unwrap();
    }
}

/// Starts the child, kills it after some commits and returns the number of the last acknowledged
/// one.
fn run_and_kill(folder: &Path, first: u64, answers: u64) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::acknowledged_commits_survive_kill", "--nocapture"])
        .env(FOLDER, folder)
        .env(FIRST, first.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let mut lines = out.lines().map_while(Result::ok);
    let mut answered =
        lines.by_ref().filter_map(|line| line.strip_prefix("answered ")?.parse().ok());
    let last = answered.nth(answers as usize);
    child.kill().unwrap();
    child.wait().unwrap();
    // Lines that it printed before it was killed.
    answered.last().or(last).unwrap()
}

/// Whether a commit is stored; a partial one fails the test.
fn is_there(reader: &dyn TaskReader, batch: u64) -> bool {
    let mut signs = Vec::new();
    for stored in tasks_of(batch) {
        let id = stored.task.id;
        let repeat =
            reader.message(&stored.owner, &stored.agent, &label(&id.to_string()).into()).unwrap();
        signs.push(reader.get(id).unwrap().is_some());
        signs.push(repeat == Some(Repeated::Task(id)));
        signs.push(!reader.events(id, 0, 1).unwrap().is_empty());
        signs.push(reader.pushes(id).unwrap().len() == 1);
    }
    for stored in batch.checked_sub(1).map(tasks_of).unwrap_or_default() {
        let task = reader.get(stored.task.id).unwrap().unwrap();
        signs.push(task.version == 2 && task.task.status.state == TaskState::Completed);
        signs.push(reader.events(stored.task.id, 1, 9).unwrap().len() == 1);
    }
    signs.extend(signs_of_objective(reader, batch, false));
    if let Some(before) = batch.checked_sub(1) {
        signs.extend(signs_of_objective(reader, before, true));
    }
    assert!(signs.iter().all(|sign| *sign == signs[0]), "half of commit {batch}");
    signs[0]
}

#[test]
fn acknowledged_commits_survive_kill() {
    if let (Ok(folder), Ok(first)) = (std::env::var(FOLDER), std::env::var(FIRST)) {
        return commit_for_ever(Path::new(&folder), first.parse().unwrap());
    }
    let dir = tempfile::tempdir().unwrap();
    let mut next = 0;
    for round in 0..ROUNDS {
        let answered = run_and_kill(dir.path(), next, round % 5);
        let tasks = open(dir.path());
        let reader = tasks.reader();
        for batch in next..=answered {
            assert!(is_there(&*reader, batch), "commit {batch} was answered and is gone");
        }
        next = answered + 1;
        while is_there(&*reader, next) {
            next += 1;
        }
        assert!(next <= answered + 2, "at most one commit is under way");
        let due = reader.outbox_due(at(i64::from(u32::MAX)), usize::MAX).unwrap();
        assert_eq!(due.len() as u64, next * BATCH);
        drop(tasks);
        let file = rusqlite::Connection::open(dir.path().join("data/a2a-tasks.db")).unwrap();
        let sound: String = file.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok");
    }
}
