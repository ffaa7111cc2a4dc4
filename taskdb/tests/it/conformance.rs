//! A file and a database in memory alike: writes, versions, repeats, queues, events, expiry.

use std::sync::Arc;

use a2a_protocol::task::{Role, TaskState};
use a2a_taskdb::{InvalidWrite, Queued, Repeated, SentMessage, StoredTask, Write, WriteOutcome};
use serde_json::json;

use super::setup::*;

#[test]
fn empty_store_finds_nothing() {
    on_each(|tasks, reader| {
        assert!(tasks.commit(Vec::new()).unwrap().is_empty());
        assert!(reader.get(id(1)).unwrap().is_none());
        assert!(reader.open().unwrap().is_empty());
        assert!(reader.events(id(1), 0, 10).unwrap().is_empty());
        assert!(reader.pushes(id(1)).unwrap().is_empty());
        assert!(reader.outbox_due(at(0), 10).unwrap().is_empty());
        assert!(reader.next_due().unwrap().is_none());
        assert_eq!(
            one(tasks, update(&then(&new_task(1), TaskState::Working, 1))),
            WriteOutcome::Conflict { version: None }
        );
        for write in [
            Write::Delete(id(1)),
            Write::Answer { id: id(1), message: Box::new(text_message(Role::Agent, "hi")) },
            Write::PutPush { task: id(1), config: push("a") },
            Write::DeletePush { task: id(1), id: label("a") },
            Write::PushDone { outbox: 1 },
            Write::PushRetry { outbox: 1, attempts: 1, next: at(1) },
        ] {
            assert_eq!(one(tasks, write.clone()), WriteOutcome::Missing, "{write:?}");
        }
        assert_eq!(
            one(tasks, Write::Expire { older_than: at(9), limit: 9 }),
            WriteOutcome::Expired(0)
        );
    });
}

#[test]
fn every_task_field_round_trips() {
    on_each(|tasks, reader| {
        let mut first = new_task(1);
        first.spoken_version = Some("0.3".into());
        done(tasks, vec![create(&first)]);
        assert_eq!(reader.get(id(1)).unwrap().unwrap(), first);
        let mut full = then(&first, TaskState::InputRequired, 20);
        full.dispatched = true;
        full.worked_ms = 77;
        full.applied_seqs = vec![7, u64::from(u32::MAX)];
        full.working_since = Some(at(19));
        full.queued = None;
        let task = Arc::make_mut(&mut full.task);
        task.status.message = Some(text_message(Role::Agent, "which one?").into());
        task.artifacts = vec![artifact("a"), artifact("b")];
        task.history.push(text_message(Role::Agent, "hm").into());
        task.metadata = json!({"k": [1, null, {"ü": "\u{1F600} ' \" \\ \0"}]}).as_object().cloned();
        done(tasks, vec![update(&full)]);
        assert_eq!(reader.get(id(1)).unwrap().unwrap(), full);
        // Optional fields can be cleared.
        let mut bare = then(&full, TaskState::Working, 30);
        bare.working_since = None;
        let task = Arc::make_mut(&mut bare.task);
        task.artifacts.clear();
        task.history.clear();
        task.metadata = None;
        done(tasks, vec![update(&bare)]);
        assert_eq!(reader.get(id(1)).unwrap().unwrap(), bare);
        done(tasks, vec![Write::Delete(id(1))]);
        assert!(reader.get(id(1)).unwrap().is_none());
    });
}

#[test]
fn every_task_state_round_trips() {
    on_each(|tasks, reader| {
        for (state, n) in TaskState::ALL.iter().zip(1..) {
            let mut stored = new_task(n);
            Arc::make_mut(&mut stored.task).status.state = *state;
            done(tasks, vec![create(&stored)]);
            assert_eq!(reader.get(id(n)).unwrap().unwrap().task.status.state, *state);
        }
        let open = TaskState::ALL.iter().filter(|state| !state.is_terminal()).count();
        assert_eq!(reader.open().unwrap().len(), open);
    });
}

#[test]
fn update_with_other_version_conflicts() {
    on_each(|tasks, reader| {
        let first = new_task(1);
        let second = then(&first, TaskState::Working, 10);
        done(tasks, vec![create(&first), update(&second)]);
        // A caller that read the first version.
        let late = then(&first, TaskState::Failed, 20);
        assert_eq!(one(tasks, update(&late)), WriteOutcome::Conflict { version: Some(2) });
        assert_eq!(one(tasks, create(&first)), WriteOutcome::Conflict { version: Some(2) });
        assert_eq!(reader.get(id(1)).unwrap().unwrap(), second);
    });
}

#[test]
fn write_that_does_not_apply_leaves_rest_of_batch() {
    on_each(|tasks, reader| {
        let (one, two) = (new_task(1), new_task(2));
        let answers = tasks
            .commit(vec![
                create_for(&one, "m"),
                create_for(&two, "m"),
                update(&then(&two, TaskState::Working, 5)),
                create(&new_task(3)),
            ])
            .unwrap();
        let expected = [
            WriteOutcome::Done,
            WriteOutcome::Repeated(Repeated::Task(id(1))),
            WriteOutcome::Conflict { version: None },
            WriteOutcome::Done,
        ];
        assert_eq!(answers, expected);
        assert_eq!(ids(&reader.open().unwrap()), [id(1), id(3)]);
    });
}

#[test]
fn invalid_write_is_refused() {
    on_each(|tasks, reader| {
        let first = new_task(1);
        let refused = |misfit| WriteOutcome::Refused(misfit);
        let mut second = first.clone();
        second.version = 2;
        assert_eq!(one(tasks, create(&second)), refused(InvalidWrite::Version));
        let with_events = |version, last, numbers: &[u64]| {
            let mut stored = first.clone();
            (stored.version, stored.last_event) = (version, last);
            let events = numbers.iter().map(|number| event(&stored, *number)).collect();
            if version == 1 {
                return Write::Create { stored, message: None, events, push: Vec::new() };
            }
            Write::Update { stored, expected: version - 1, events, message: None }
        };
        for (last, numbers) in [
            (0, &[0][..]),
            (1, &[]),
            (2, &[1]),
            (2, &[2, 2]),
            (1, &[2, 1]),
            (u64::MAX, &[u64::MAX]),
        ] {
            let write = with_events(1, last, numbers);
            assert_eq!(
                one(tasks, write),
                refused(InvalidWrite::EventNumbers),
                "{last} {numbers:?}"
            );
        }
        let nameless = a2a_protocol::operation::PushConfig { id: None, ..push("a") };
        let push = vec![nameless.clone()];
        let write = Write::Create { stored: first.clone(), message: None, events: vec![], push };
        assert_eq!(one(tasks, write), refused(InvalidWrite::PushWithoutId));
        assert!(reader.open().unwrap().is_empty());

        done(tasks, vec![with_events(1, 2, &[1, 2])]);
        for (last, numbers) in [(2, &[2][..]), (1, &[]), (3, &[])] {
            let write = with_events(2, last, numbers);
            assert_eq!(
                one(tasks, write),
                refused(InvalidWrite::EventNumbers),
                "{last} {numbers:?}"
            );
        }
        assert_eq!(
            one(tasks, Write::PutPush { task: id(1), config: nameless }),
            refused(InvalidWrite::PushWithoutId)
        );
        let mut other = then(&reader.get(id(1)).unwrap().unwrap(), TaskState::Working, 5);
        other.owner = "client:other".into();
        assert_eq!(one(tasks, update(&other)), refused(InvalidWrite::Identity));
        assert_eq!(reader.get(id(1)).unwrap().unwrap().version, 1);
        assert_eq!(reader.events(id(1), 0, 9).unwrap().len(), 2);
    });
}

#[test]
fn message_id_is_unique_per_owner_and_agent() {
    on_each(|tasks, reader| {
        let first = new_task(1);
        let mut other_owner = new_task(2);
        other_owner.owner = "client:other".into();
        let mut other_agent = new_task(3);
        other_agent.agent = agent("ann");
        done(
            tasks,
            vec![
                create_for(&first, "m"),
                create_for(&other_owner, "m"),
                create_for(&other_agent, "m"),
            ],
        );
        let repeated = WriteOutcome::Repeated(Repeated::Task(id(1)));
        assert_eq!(one(tasks, create_for(&new_task(4), "m")), repeated);
        let found = |owner, name, message| {
            reader.message(owner, &agent(name), &label(message).into()).unwrap()
        };
        let follow = |stored: &StoredTask, message| Write::Update {
            stored: stored.clone(),
            expected: stored.version - 1,
            events: Vec::new(),
            message: Some(label(message).into()),
        };
        let second = then(&first, TaskState::Working, 5);
        done(tasks, vec![follow(&second, "n")]);
        assert_eq!(one(tasks, create_for(&new_task(4), "n")), repeated);
        // An update applies even when its message id belongs to another task.
        let fifth = new_task(5);
        let sixth = then(&fifth, TaskState::Working, 5);
        done(tasks, vec![create_for(&fifth, "x"), follow(&sixth, "n")]);
        assert_eq!(reader.get(id(5)).unwrap().unwrap().version, 2);
        assert_eq!(found("client:acme", "tim", "n"), Some(Repeated::Task(id(1))));
        done(tasks, vec![Write::Delete(id(5))]);
        assert_eq!(found("client:acme", "tim", "n"), Some(Repeated::Task(id(1))));
        assert_eq!(found("client:acme", "tim", "M"), None);
        assert_eq!(found("client:other", "tim", "m"), Some(Repeated::Task(id(2))));
        assert_eq!(found("client:acme", "ann", "m"), Some(Repeated::Task(id(3))));
        // Deleting a task deletes its message ids.
        done(tasks, vec![Write::Delete(id(1)), create_for(&new_task(4), "m")]);
        assert_eq!(found("client:acme", "tim", "n"), None);
    });
}

#[test]
fn message_id_with_other_content_conflicts() {
    on_each(|tasks, reader| {
        let sent = |print| SentMessage { id: label("m"), fingerprint: Some(print), bytes: 9 };
        let create = |stored: &StoredTask, print| Write::Create {
            stored: stored.clone(),
            message: Some(sent(print)),
            events: vec![],
            push: vec![],
        };
        let repeat_of =
            |message: &SentMessage| reader.message("client:acme", &agent("tim"), message).unwrap();
        done(tasks, vec![create(&new_task(1), u64::MAX)]);
        let first = Repeated::Task(id(1));
        assert_eq!(
            one(tasks, create(&new_task(2), u64::MAX)),
            WriteOutcome::Repeated(first.clone())
        );
        assert_eq!(
            one(tasks, create(&new_task(2), 7)),
            WriteOutcome::Repeated(Repeated::DifferentContent)
        );
        assert_eq!(repeat_of(&sent(u64::MAX)), Some(first.clone()));
        assert_eq!(repeat_of(&sent(7)), Some(Repeated::DifferentContent));
        // Without a fingerprint the content is not compared.
        assert_eq!(repeat_of(&label("m").into()), Some(first));
        let message = Box::new(text_message(Role::Agent, "42"));
        done(tasks, vec![Write::Answer { id: id(1), message }]);
        assert_eq!(repeat_of(&sent(7)), Some(Repeated::DifferentContent));
        assert!(matches!(repeat_of(&sent(u64::MAX)), Some(Repeated::Answer(_))));
        assert!(reader.get(id(2)).unwrap().is_none());
    });
}

#[test]
fn answer_is_returned_for_repeat_after_task_is_deleted() {
    on_each(|tasks, reader| {
        let first = new_task(1);
        let second = then(&first, TaskState::Working, 50);
        let follow = Write::Update {
            stored: second,
            expected: 1,
            events: vec![],
            message: Some(label("n").into()),
        };
        done(tasks, vec![create_for(&first, "m"), follow]);
        let answer = Box::new(text_message(Role::Agent, "42"));
        done(tasks, vec![Write::Answer { id: id(1), message: answer.clone() }]);
        assert!(reader.get(id(1)).unwrap().is_none());
        for message in ["m", "n"] {
            let repeated = WriteOutcome::Repeated(Repeated::Answer(answer.clone()));
            assert_eq!(one(tasks, create_for(&new_task(2), message)), repeated);
        }
        assert_eq!(
            one(tasks, Write::Answer { id: id(1), message: answer.clone() }),
            WriteOutcome::Missing
        );
        // An answer is as old as its task was.
        let expire = |ms| Write::Expire { older_than: at(ms), limit: 1 };
        assert_eq!(one(tasks, expire(50)), WriteOutcome::Expired(0));
        assert_eq!(one(tasks, expire(51)), WriteOutcome::Expired(1));
        assert_eq!(
            reader.message("client:acme", &agent("tim"), &label("m").into()).unwrap(),
            None,
            "in order"
        );
        assert_eq!(one(tasks, expire(51)), WriteOutcome::Expired(1));
        assert_eq!(one(tasks, expire(51)), WriteOutcome::Expired(0));
    });
}

#[test]
fn queued_tasks_have_queue_positions() {
    on_each(|tasks, reader| {
        let running = new_task(1);
        let elsewhere = {
            let mut stored = waiting(9, -5);
            Arc::make_mut(&mut stored.task).context_id = context("other");
            stored
        };
        let mut of_ann = waiting(8, -9);
        of_ann.agent = agent("ann");
        let queue = [waiting(4, 10), waiting(3, 20), waiting(2, 20)];
        done(tasks, vec![create(&running), create(&elsewhere), create(&of_ann)]);
        done(tasks, queue.iter().map(create).collect());
        let place =
            |n: u64| metadata(&reader.get(id(n)).unwrap().unwrap())["queuePosition"].clone();
        assert_eq!([place(1), place(9), place(8)], [json!(null), json!(1), json!(1)]);
        assert_eq!([place(4), place(2), place(3)], [json!(1), json!(2), json!(3)], "equals by id");
        let expected = json!({"queuedAt": 1_771_698_600_002_i64, "queuePosition": 2});
        assert_eq!(metadata(&reader.get(id(2)).unwrap().unwrap()), expected);
        let pending = reader.pending_by_context(&agent("tim"), &context("ctx")).unwrap();
        assert_eq!(ids(&pending), [id(4), id(2), id(3)]);
        assert_eq!(metadata(&pending[1]), expected);
        let found = reader.find_by_context(&context("ctx"), 4).unwrap();
        assert_eq!(ids(&found), [id(8), id(4), id(3), id(2)], "newest first");
        assert_eq!(metadata(&found[3]), expected);

        // A follow-up goes to the head of the queue; a task that begins leaves it.
        let head = Queued { order: 9, at: at(90) };
        let mut follow = then(&running, TaskState::Submitted, 90);
        follow.queued = Some(head);
        let mut begun = then(&queue[0], TaskState::Working, 91);
        begun.queued = None;
        done(tasks, vec![update(&follow), update(&begun)]);
        assert_eq!([place(1), place(2), place(3)], [json!(1), json!(2), json!(3)]);
        assert_eq!(metadata(&reader.get(id(4)).unwrap().unwrap()), json!(null));
        // Tasks that are not queued come first, then the queues.
        let open = reader.open().unwrap();
        assert_eq!(ids(&open), [id(4), id(8), id(9), id(1), id(2), id(3)]);
        assert!(open.iter().all(|stored| stored.task.metadata.is_none()), "as it was written");
    });
}

#[test]
fn queue_position_is_never_stored() {
    on_each(|tasks, reader| {
        let mut kept = waiting(1, 1);
        Arc::make_mut(&mut kept.task).metadata = json!({"mine": 1}).as_object().cloned();
        done(tasks, vec![create(&kept), create(&waiting(2, 2))]);
        for n in [1, 2] {
            // Read, changed, written back.
            let mut begun = then(&reader.get(id(n)).unwrap().unwrap(), TaskState::Working, 10);
            begun.queued = None;
            done(tasks, vec![update(&begun)]);
        }
        assert_eq!(metadata(&reader.get(id(1)).unwrap().unwrap()), json!({"mine": 1}));
        assert_eq!(metadata(&reader.get(id(2)).unwrap().unwrap()), json!(null));
    });
}

#[test]
fn events_are_read_after_any_number() {
    on_each(|tasks, reader| {
        let mut first = new_task(1);
        first.last_event = 3;
        let events: Vec<_> = [1, 3].map(|number| event(&first, number)).into();
        done(
            tasks,
            vec![Write::Create { stored: first.clone(), message: None, events, push: vec![] }],
        );
        let mut second = then(&first, TaskState::Completed, 10);
        second.last_event = 10;
        let last = event(&second, 10);
        let write = Write::Update {
            stored: second,
            expected: 1,
            events: vec![last.clone()],
            message: None,
        };
        done(tasks, vec![write, create(&new_task(2))]);
        let numbers = |after, limit| -> Vec<u64> {
            reader.events(id(1), after, limit).unwrap().iter().map(|(number, _)| *number).collect()
        };
        assert_eq!(numbers(0, 9), [1, 3, 10]);
        assert_eq!(numbers(1, 1), [3]);
        assert!(numbers(10, 9).is_empty());
        assert!(numbers(u64::MAX, 9).is_empty());
        assert_eq!(reader.events(id(1), 3, 9).unwrap(), [(10, last.event)]);
        assert!(reader.events(id(2), 0, 9).unwrap().is_empty());
    });
}

#[test]
fn history_of_context_is_limited_to_owner_and_agent() {
    on_each(|tasks, reader| {
        let mut first = new_task(1);
        Arc::make_mut(&mut first.task).history.push(text_message(Role::Agent, "did 1").into());
        let mut foreign = new_task(2);
        foreign.owner = "client:other".into();
        let mut of_ann = new_task(3);
        of_ann.agent = agent("ann");
        let mut silent = new_task(4);
        Arc::make_mut(&mut silent.task).history.clear();
        let all = [first, foreign, of_ann, silent, new_task(5)];
        done(tasks, all.iter().map(create).collect());
        let texts = |limit| -> Vec<String> {
            let history =
                reader.history_of_context("client:acme", &agent("tim"), &context("ctx"), limit);
            history.unwrap().iter().map(|message| message.text()).collect()
        };
        assert_eq!(texts(9), ["do 1", "did 1", "do 5"]);
        assert_eq!(texts(2), ["did 1", "do 5"]);
        assert!(texts(0).is_empty());
    });
}

#[test]
fn expire_deletes_ended_tasks_with_their_rows() {
    on_each(|tasks, reader| {
        let ends =
            [TaskState::Completed, TaskState::Failed, TaskState::Canceled, TaskState::Rejected];
        for (state, n) in ends.into_iter().zip(1..) {
            let mut stored = new_task(n);
            stored.last_event = 1;
            Arc::make_mut(&mut stored.task).status.state = state;
            let write = Write::Create {
                message: Some(label(&n.to_string()).into()),
                events: vec![event(&stored, 1)],
                push: vec![push("a")],
                stored,
            };
            done(tasks, vec![write]);
        }
        done(tasks, vec![create(&new_task(0))]);
        let expire = |ms, limit| Write::Expire { older_than: at(ms), limit };
        assert_eq!(one(tasks, expire(1, 9)), WriteOutcome::Expired(0));
        assert_eq!(one(tasks, expire(9, 2)), WriteOutcome::Expired(2));
        assert!(reader.get(id(2)).unwrap().is_none(), "the oldest first");
        assert!(reader.get(id(3)).unwrap().is_some());
        assert!(reader.events(id(1), 0, 9).unwrap().is_empty());
        assert!(reader.pushes(id(1)).unwrap().is_empty());
        assert_eq!(reader.message("client:acme", &agent("tim"), &label("1").into()).unwrap(), None);
        assert_eq!(reader.outbox_due(at(99), 9).unwrap().len(), 2);
        assert_eq!(
            one(tasks, expire(4, 9)),
            WriteOutcome::Expired(1),
            "its own moment is not older"
        );
        assert_eq!(one(tasks, expire(99, 9)), WriteOutcome::Expired(1));
        assert_eq!(ids(&reader.open().unwrap()), [id(0)]);
    });
}
