//! The webhook outbox delivers every event in order.

use a2a_protocol::operation::PushConfig;
use a2a_protocol::task::TaskState;
use a2a_taskdb::{StoredTask, TaskReader, TaskWriter, Write, WriteOutcome};

use super::setup::*;

/// Advances the task by one event and returns the write.
fn next_event(stored: &mut StoredTask, ms: i64) -> Write {
    let mut next = then(stored, TaskState::Working, ms);
    next.last_event += 1;
    *stored = next.clone();
    let events = vec![event(&next, next.last_event)];
    Write::Update { expected: next.version - 1, stored: next, events, message: None }
}

/// `task config number attempts` of each outbox entry that is due at `ms`.
fn due(reader: &dyn TaskReader, ms: i64) -> Vec<String> {
    let due = reader.outbox_due(at(ms), 99).unwrap();
    let line = |due: &a2a_taskdb::OutboxEntry| {
        let task = due.task.as_uuid().as_u128() & 0xff;
        let config = due.config.id.as_ref().unwrap();
        format!("{task} {config} {} {}", due.number, due.attempts)
    };
    due.iter().map(line).collect()
}

fn first_due(reader: &dyn TaskReader) -> u64 {
    reader.outbox_due(at(99_999), 1).unwrap()[0].outbox
}

fn with_pushes(tasks: &mut dyn TaskWriter, n: u64, names: &[&str]) -> StoredTask {
    let mut stored = new_task(n);
    stored.last_event = 1;
    let write = Write::Create {
        stored: stored.clone(),
        message: None,
        events: vec![event(&stored, 1)],
        push: names.iter().map(|name| push(name)).collect(),
    };
    done(tasks, vec![write]);
    stored
}

#[test]
fn push_configs_keep_order_and_are_replaced_by_id() {
    on_each(|tasks, reader| {
        with_pushes(tasks, 1, &["b", "a"]);
        let moved = PushConfig { url: "https://example.com/moved".to_owned(), ..push("b") };
        let put = |config: &PushConfig| Write::PutPush { task: id(1), config: config.clone() };
        done(tasks, vec![put(&push("c")), put(&moved)]);
        let of_task =
            |config: PushConfig| PushConfig { task_id: Some(id(1).as_uuid().into()), ..config };
        let expected = [of_task(moved.clone()), of_task(push("a")), of_task(push("c"))];
        assert_eq!(reader.pushes(id(1)).unwrap(), expected);
        assert_eq!(reader.push(id(1), &label("b")).unwrap(), Some(of_task(moved)));
        assert_eq!(reader.push(id(1), &label("x")).unwrap(), None);
        let delete = Write::DeletePush { task: id(1), id: label("b") };
        done(tasks, vec![delete.clone()]);
        assert_eq!(one(tasks, delete), WriteOutcome::Missing);
        assert_eq!(reader.push(id(1), &label("b")).unwrap(), None);
    });
}

#[test]
fn later_event_waits_for_earlier_one() {
    on_each(|tasks, reader| {
        let mut stored = with_pushes(tasks, 1, &["a", "b"]);
        done(tasks, vec![next_event(&mut stored, 10), next_event(&mut stored, 20)]);
        assert_eq!(due(&*reader, 0), Vec::<String>::new());
        assert_eq!(reader.next_due().unwrap(), Some(at(1)));
        assert_eq!(due(&*reader, 99), ["1 a 1 0", "1 b 1 0"]);
        assert_eq!(reader.outbox_due(at(99), 1).unwrap().len(), 1);

        // The delivery to `a` succeeds, the one to `b` fails.
        let [first, second] = [0, 1].map(|at_| reader.outbox_due(at(99), 9).unwrap()[at_].outbox);
        let later = Write::PushRetry { outbox: second, attempts: 1, next: at(500) };
        done(tasks, vec![Write::PushDone { outbox: first }, later]);
        assert_eq!(due(&*reader, 99), ["1 a 2 0"]);
        assert_eq!(due(&*reader, 500), ["1 a 2 0", "1 b 1 1"]);
        done(tasks, vec![Write::PushDone { outbox: first_due(&*reader) }]);
        done(tasks, vec![Write::PushDone { outbox: first_due(&*reader) }]);
        assert_eq!(due(&*reader, 499), Vec::<String>::new());
        assert_eq!(reader.next_due().unwrap(), Some(at(500)));
        // The entry is dropped: the next one becomes due.
        done(tasks, vec![Write::PushDone { outbox: second }]);
        assert_eq!(one(tasks, Write::PushDone { outbox: second }), WriteOutcome::Missing);
        assert_eq!(due(&*reader, 10), ["1 b 2 0"]);
        assert_eq!(due(&*reader, 9), Vec::<String>::new(), "not before it happened");
    });
}

#[test]
fn only_oldest_outbox_entry_can_be_rescheduled() {
    on_each(|tasks, reader| {
        let mut stored = with_pushes(tasks, 1, &["a"]);
        done(tasks, vec![next_event(&mut stored, 10)]);
        let second = first_due(&*reader) + 1;
        let later = Write::PushRetry { outbox: second, attempts: 1, next: at(0) };
        assert_eq!(one(tasks, later), WriteOutcome::Missing);
        assert_eq!(due(&*reader, 99), ["1 a 1 0"]);
        // Removing the second entry does not affect the first.
        done(tasks, vec![Write::PushDone { outbox: second }]);
        assert_eq!(due(&*reader, 99), ["1 a 1 0"]);
        done(tasks, vec![Write::PushDone { outbox: first_due(&*reader) }]);
        assert_eq!(reader.next_due().unwrap(), None);
    });
}

#[test]
fn push_config_gets_events_after_its_creation() {
    on_each(|tasks, reader| {
        let mut stored = with_pushes(tasks, 1, &[]);
        assert_eq!(reader.next_due().unwrap(), None);
        let put = Write::PutPush { task: id(1), config: push("a") };
        done(tasks, vec![put.clone(), next_event(&mut stored, 10)]);
        assert_eq!(due(&*reader, 99), ["1 a 2 0"]);
        // Replacing a configuration keeps its outbox entries.
        done(tasks, vec![put]);
        assert_eq!(due(&*reader, 99), ["1 a 2 0"]);
        // Deleting and recreating it removes its outbox entries, and their ids are not reused.
        let old = first_due(&*reader);
        let delete = Write::DeletePush { task: id(1), id: label("a") };
        done(tasks, vec![delete, Write::PutPush { task: id(1), config: push("a") }]);
        assert_eq!(reader.next_due().unwrap(), None);
        done(tasks, vec![next_event(&mut stored, 20)]);
        assert_eq!(due(&*reader, 99), ["1 a 3 0"]);
        assert_eq!(one(tasks, Write::PushDone { outbox: old }), WriteOutcome::Missing);
        done(tasks, vec![Write::Delete(id(1))]);
        assert_eq!(reader.next_due().unwrap(), None);
    });
}
