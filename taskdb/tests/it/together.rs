//! Several writes as one: all of them or none.

use std::sync::Arc;

use a2a_protocol::opt::{ObjectiveStatus, PlanTaskStatus};
use a2a_protocol::task::{Role, TaskState};
use a2a_taskdb::{
    Misfit, Options, Repeated, Sqlite, StoredTask, TaskReader, TaskStoreError, TaskWriter, Write,
    Written,
};

use super::setup::*;

/// A plan with one step, which task `n` does.
fn begin(n: u64) -> Vec<Write> {
    let step = done_by(new_step(n, 0, 0), n, PlanTaskStatus::Working);
    let stored = new_objective(n);
    vec![create(&task_in(n, n)), change(&stored, &[new_plan(n, 0)], &[step])]
}

/// The same, one change on: the task has said something and ended.
fn end(n: u64) -> Vec<Write> {
    let step = done_by(new_step(n, 0, 0), n, PlanTaskStatus::Completed);
    let stored = on(&new_objective(n), ObjectiveStatus::Completed, 50);
    vec![update(&said(n, TaskState::Completed)), change(&stored, &[], &[step])]
}

fn said(n: u64, state: TaskState) -> StoredTask {
    let mut next = then(&task_in(n, n), state, 50);
    Arc::make_mut(&mut next.task).history.push(says(Role::Agent, "more").into());
    next
}

fn seen(reader: &dyn TaskReader, n: u64) -> String {
    let objective = reader.objective(&context(&format!("obj-{n}"))).unwrap();
    let (task, events) = (reader.get(id(n)).unwrap(), reader.events(id(n), 0, 9).unwrap());
    format!("{objective:#?} {task:#?} {events:?} {:?}", reader.pushes(id(n)).unwrap())
}

#[test]
fn all_of_them_happen() {
    on_each(|tasks, reader| {
        let together = Written::Together(vec![Written::Done, Written::Done]);
        assert_eq!(one(tasks, Write::Together(begin(1))), together);
        assert_eq!(one(tasks, Write::Together(end(1))), together);
        let kept = reader.objective(&context("obj-1")).unwrap().unwrap();
        assert_eq!(kept.stored.objective.status, ObjectiveStatus::Completed);
        assert_eq!(kept.plans[0].tasks[0].status, PlanTaskStatus::Completed);
        assert_eq!(reader.get(id(1)).unwrap().unwrap(), said(1, TaskState::Completed));
        assert_eq!(one(tasks, Write::Together(Vec::new())), Written::Together(Vec::new()));
        let nested = vec![Write::Together(begin(2)), Write::Expire { older_than: at(0), limit: 1 }];
        let expected = Written::Together(vec![together, Written::Expired(0)]);
        assert_eq!(one(tasks, Write::Together(nested)), expected);
    });
}

#[test]
fn one_that_does_not_fit_takes_the_others_back() {
    on_each(|tasks, reader| {
        let first = create_for(&new_task(8), "m");
        done(tasks, vec![first, Write::Together(begin(1))]);
        let before = [seen(&*reader, 1), seen(&*reader, 2)];
        let late = change(&on(&new_objective(1), ObjectiveStatus::Failed, 60), &[], &[]);
        let misfits = [
            (create_for(&new_task(9), "m"), Written::Repeated(Repeated::Task(id(8)))),
            (late, Written::Conflict { version: Some(2) }),
            (Write::Delete(id(9)), Written::Missing),
            (change(&new_objective(3), &[new_plan(1, 0)], &[]), Written::Refused(Misfit::Stray)),
        ];
        for (misfit, answer) in misfits {
            let mut all = end(1);
            all.push(Write::Together(begin(2)));
            all.push(Write::PutPush { task: id(2), config: push("a") });
            all.push(misfit.clone());
            all.push(Write::Delete(id(1)));
            // What stands beside it in the batch is not disturbed.
            let beside = [create(&task_in(7, 30)), Write::Delete(id(30))];
            let [ahead, behind] = beside;
            let written = tasks.commit(vec![ahead, Write::Together(all), behind]).unwrap();
            assert_eq!(written, [Written::Done, answer, Written::Done], "{misfit:?}");
            assert_eq!([seen(&*reader, 1), seen(&*reader, 2)], before, "{misfit:?}");
        }
    });
}

#[test]
fn the_answer_is_that_of_the_first_misfit() {
    on_each(|tasks, _| {
        let all = vec![create(&new_task(1)), Write::Delete(id(9)), create(&new_task(1))];
        assert_eq!(one(tasks, Write::Together(all)), Written::Missing);
        let inner = Write::Together(vec![create(&new_task(1)), create(&new_task(1))]);
        let conflict = Written::Conflict { version: Some(1) };
        assert_eq!(one(tasks, Write::Together(vec![inner, Write::Delete(id(9))])), conflict);
    });
}

#[test]
fn what_was_taken_back_does_not_count_as_written() {
    on_each(|tasks, reader| {
        done(tasks, begin(1));
        let push_and_fail = vec![
            update(&said(1, TaskState::Working)),
            Write::PutPush { task: id(1), config: push("a") },
            Write::Delete(id(9)),
        ];
        assert_eq!(one(tasks, Write::Together(push_and_fail)), Written::Missing);
        // The writer that believed its own notes would expect version 3, or leave the history out.
        let mut next = said(1, TaskState::Working);
        next.last_event = 1;
        let events = vec![event(&next, 1)];
        done(
            tasks,
            vec![Write::Update { stored: next.clone(), expected: 1, events, message: None }],
        );
        assert_eq!(reader.get(id(1)).unwrap().unwrap(), next);
        assert!(reader.outbox_due(at(99), 9).unwrap().is_empty());
        // A task that was to be new or to go is as it was, too.
        let undone = vec![create(&task_in(2, 2)), Write::Delete(id(1)), Write::Delete(id(9))];
        assert_eq!(one(tasks, Write::Together(undone)), Written::Missing);
        done(tasks, vec![update(&then(&next, TaskState::Working, 60)), create(&task_in(2, 2))]);
    });
}

#[test]
fn outbox_numbers_are_not_used_up_by_what_was_taken_back() {
    on_each(|tasks, reader| {
        let told = |n| {
            let mut stored = new_task(n);
            stored.last_event = 1;
            let events = vec![event(&stored, 1)];
            Write::Create { stored, message: None, events, push: vec![push("a")] }
        };
        assert_eq!(
            one(tasks, Write::Together(vec![told(1), Write::Delete(id(9))])),
            Written::Missing
        );
        assert!(reader.outbox_due(at(99), 9).unwrap().is_empty());
        done(tasks, vec![told(2)]);
        assert_eq!(reader.outbox_due(at(99), 9).unwrap()[0].outbox, 1);
    });
}

#[test]
fn a_restart_remembers_all_of_it_or_none() {
    let mut bench = on_disk();
    let mut failing = begin(2);
    failing.push(Write::Delete(id(9)));
    bench.tasks.commit(vec![Write::Together(begin(1)), Write::Together(failing)]).unwrap();
    let before = seen(&*bench.tasks.reader(), 1);
    drop(bench.tasks);
    let tasks = open(bench.dir.path());
    let reader = tasks.reader();
    assert_eq!(seen(&*reader, 1), before);
    assert_eq!(reader.open_objectives().unwrap().len(), 1);
    assert!(reader.get(id(2)).unwrap().is_none());
}

#[test]
fn a_full_disk_takes_nothing_and_the_writer_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { max_bytes: Some(600_000), ..Options::new(dir.path()) };
    let mut tasks = Sqlite::open(&options).unwrap();
    done(&mut tasks, begin(1));
    let before = seen(&*tasks.reader(), 1);
    let mut too_much = end(1);
    let mut heavy = new_objective(2);
    heavy.objective.description = Some("x".repeat(900_000));
    too_much.push(change(&heavy, &[], &[]));
    let error = tasks.commit(vec![Write::Together(too_much)]).unwrap_err();
    assert!(matches!(error, TaskStoreError::Full(_)), "{error:?}");
    assert_eq!(seen(&*tasks.reader(), 1), before);
    done(&mut tasks, vec![Write::Together(end(1))]);
}
