//! Several writes as one: all of them or none.

use std::sync::Arc;

use a2a_protocol::opt::{ObjectiveStatus, PlanTaskStatus};
use a2a_protocol::task::{Role, TaskState};
use a2a_taskdb::{
    InvalidWrite, Options, Repeated, StoredTask, TaskDb, TaskReader, TaskStoreError, TaskWriter,
    Write, WriteOutcome,
};

use super::setup::*;

/// A plan with one plan task, executed by A2A task `n`.
fn begin(n: u64) -> Vec<Write> {
    let step = done_by(new_step(n, 0, 0), n, PlanTaskStatus::Working);
    let stored = new_objective(n);
    vec![create(&task_in(n, n)), change(&stored, &[new_plan(n, 0)], &[step])]
}

/// The next change of the same: the task got a message and completed.
fn end(n: u64) -> Vec<Write> {
    let step = done_by(new_step(n, 0, 0), n, PlanTaskStatus::Completed);
    let stored = on(&new_objective(n), ObjectiveStatus::Completed, 50);
    vec![update(&with_reply(n, TaskState::Completed)), change(&stored, &[], &[step])]
}

fn with_reply(n: u64, state: TaskState) -> StoredTask {
    let mut next = then(&task_in(n, n), state, 50);
    Arc::make_mut(&mut next.task).history.push(text_message(Role::Agent, "more").into());
    next
}

fn dump(reader: &dyn TaskReader, n: u64) -> String {
    let objective = reader.objective(&context(&format!("obj-{n}"))).unwrap();
    let (task, events) = (reader.get(id(n)).unwrap(), reader.events(id(n), 0, 9).unwrap());
    format!("{objective:#?} {task:#?} {events:?} {:?}", reader.pushes(id(n)).unwrap())
}

#[test]
fn atomic_applies_all_writes() {
    on_each(|tasks, reader| {
        let both = WriteOutcome::Atomic(vec![WriteOutcome::Done, WriteOutcome::Done]);
        assert_eq!(one(tasks, Write::Atomic(begin(1))), both);
        assert_eq!(one(tasks, Write::Atomic(end(1))), both);
        let kept = reader.objective(&context("obj-1")).unwrap().unwrap();
        assert_eq!(kept.stored.objective.status, ObjectiveStatus::Completed);
        assert_eq!(kept.plans[0].tasks[0].status, PlanTaskStatus::Completed);
        assert_eq!(reader.get(id(1)).unwrap().unwrap(), with_reply(1, TaskState::Completed));
        assert_eq!(one(tasks, Write::Atomic(Vec::new())), WriteOutcome::Atomic(Vec::new()));
        let nested = vec![Write::Atomic(begin(2)), Write::Expire { older_than: at(0), limit: 1 }];
        let expected = WriteOutcome::Atomic(vec![both, WriteOutcome::Expired(0)]);
        assert_eq!(one(tasks, Write::Atomic(nested)), expected);
    });
}

#[test]
fn write_that_does_not_apply_rolls_back_the_others() {
    on_each(|tasks, reader| {
        let first = create_for(&new_task(8), "m");
        done(tasks, vec![first, Write::Atomic(begin(1))]);
        let before = [dump(&*reader, 1), dump(&*reader, 2)];
        let late = change(&on(&new_objective(1), ObjectiveStatus::Failed, 60), &[], &[]);
        let failing = [
            (create_for(&new_task(9), "m"), WriteOutcome::Repeated(Repeated::Task(id(8)))),
            (late, WriteOutcome::Conflict { version: Some(2) }),
            (Write::Delete(id(9)), WriteOutcome::Missing),
            (
                change(&new_objective(3), &[new_plan(1, 0)], &[]),
                WriteOutcome::Refused(InvalidWrite::WrongParent),
            ),
        ];
        for (write, outcome) in failing {
            let mut all = end(1);
            all.push(Write::Atomic(begin(2)));
            all.push(Write::PutPush { task: id(2), config: push("a") });
            all.push(write.clone());
            all.push(Write::Delete(id(1)));
            // The other writes of the batch apply.
            let beside = [create(&task_in(7, 30)), Write::Delete(id(30))];
            let [before_it, after_it] = beside;
            let written = tasks.commit(vec![before_it, Write::Atomic(all), after_it]).unwrap();
            assert_eq!(written, [WriteOutcome::Done, outcome, WriteOutcome::Done], "{write:?}");
            assert_eq!([dump(&*reader, 1), dump(&*reader, 2)], before, "{write:?}");
        }
    });
}

#[test]
fn outcome_is_that_of_first_write_that_does_not_apply() {
    on_each(|tasks, _| {
        let all = vec![create(&new_task(1)), Write::Delete(id(9)), create(&new_task(1))];
        assert_eq!(one(tasks, Write::Atomic(all)), WriteOutcome::Missing);
        let inner = Write::Atomic(vec![create(&new_task(1)), create(&new_task(1))]);
        let conflict = WriteOutcome::Conflict { version: Some(1) };
        assert_eq!(one(tasks, Write::Atomic(vec![inner, Write::Delete(id(9))])), conflict);
    });
}

#[test]
fn rolled_back_writes_are_not_cached() {
    on_each(|tasks, reader| {
        done(tasks, begin(1));
        let push_and_fail = vec![
            update(&with_reply(1, TaskState::Working)),
            Write::PutPush { task: id(1), config: push("a") },
            Write::Delete(id(9)),
        ];
        assert_eq!(one(tasks, Write::Atomic(push_and_fail)), WriteOutcome::Missing);
        // A stale row cache would expect version 3, or leave out the history.
        let mut next = with_reply(1, TaskState::Working);
        next.last_event = 1;
        let events = vec![event(&next, 1)];
        done(
            tasks,
            vec![Write::Update { stored: next.clone(), expected: 1, events, message: None }],
        );
        assert_eq!(reader.get(id(1)).unwrap().unwrap(), next);
        assert!(reader.outbox_due(at(99), 9).unwrap().is_empty());
        // A rolled back create or delete changes nothing either.
        let undone = vec![create(&task_in(2, 2)), Write::Delete(id(1)), Write::Delete(id(9))];
        assert_eq!(one(tasks, Write::Atomic(undone)), WriteOutcome::Missing);
        done(tasks, vec![update(&then(&next, TaskState::Working, 60)), create(&task_in(2, 2))]);
    });
}

#[test]
fn rolled_back_writes_use_no_outbox_ids() {
    on_each(|tasks, reader| {
        let with_event = |n| {
            let mut stored = new_task(n);
            stored.last_event = 1;
            let events = vec![event(&stored, 1)];
            Write::Create { stored, message: None, events, push: vec![push("a")] }
        };
        assert_eq!(
            one(tasks, Write::Atomic(vec![with_event(1), Write::Delete(id(9))])),
            WriteOutcome::Missing
        );
        assert!(reader.outbox_due(at(99), 9).unwrap().is_empty());
        done(tasks, vec![with_event(2)]);
        assert_eq!(reader.outbox_due(at(99), 9).unwrap()[0].outbox, 1);
    });
}

#[test]
fn atomic_writes_survive_restart_or_leave_nothing() {
    let mut bench = on_disk();
    let mut failing = begin(2);
    failing.push(Write::Delete(id(9)));
    bench.tasks.commit(vec![Write::Atomic(begin(1)), Write::Atomic(failing)]).unwrap();
    let before = dump(&*bench.tasks.reader(), 1);
    drop(bench.tasks);
    let tasks = open(bench.dir.path());
    let reader = tasks.reader();
    assert_eq!(dump(&*reader, 1), before);
    assert_eq!(reader.open_objectives().unwrap().len(), 1);
    assert!(reader.get(id(2)).unwrap().is_none());
}

#[test]
fn full_disk_fails_commit_and_writer_stays_usable() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { max_bytes: Some(600_000), ..Options::new(dir.path()) };
    let mut tasks = TaskDb::open(&options).unwrap();
    done(&mut tasks, begin(1));
    let before = dump(&*tasks.reader(), 1);
    let mut too_much = end(1);
    let mut heavy = new_objective(2);
    heavy.objective.description = Some("x".repeat(900_000));
    too_much.push(change(&heavy, &[], &[]));
    let error = tasks.commit(vec![Write::Atomic(too_much)]).unwrap_err();
    assert!(matches!(error, TaskStoreError::Full(_)), "{error:?}");
    assert_eq!(dump(&*tasks.reader(), 1), before);
    done(&mut tasks, vec![Write::Atomic(end(1))]);
}
