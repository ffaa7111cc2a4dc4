//! Tasks that are stored only when they have ended, and answers whose task was never stored.

use std::sync::Arc;

use a2a_protocol::operation::StreamEvent;
use a2a_protocol::task::{Role, TaskState};
use a2a_taskdb::{InvalidWrite, Repeated, StoredTask, Write, WriteOutcome, message_key};

use super::setup::{
    agent, artifact, create, create_for, done, id, label, new_task, on_each, one, text_message,
};

/// An ended task with so many artifacts and no stored events.
fn ended(n: u64, artifacts: usize) -> StoredTask {
    let mut stored = new_task(n);
    let task = Arc::make_mut(&mut stored.task);
    task.status.state = TaskState::Completed;
    task.artifacts = (0..artifacts).map(|n| artifact(&format!("made {n}"))).collect();
    stored.last_event = artifacts as u64 + 1;
    stored
}

#[test]
fn events_of_ended_task_are_derived_from_final_state() {
    on_each(|tasks, reader| {
        let stored = ended(1, 2);
        done(tasks, vec![create_for(&stored, "m")]);
        let events = reader.events(id(1), 0, 10).unwrap();
        let numbers: Vec<u64> = events.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [1, 2, 3]);
        for (at, (_, event)) in events[..2].iter().enumerate() {
            let StreamEvent::ArtifactUpdate(update) = &**event else { panic!("{event:?}") };
            assert_eq!(update.artifact, stored.task.artifacts[at]);
            assert!(update.last_chunk && !update.append);
        }
        let StreamEvent::StatusUpdate(end) = &*events[2].1 else { panic!("{:?}", events[2]) };
        assert_eq!(end.status, stored.task.status);
        assert_eq!(reader.events(id(1), 1, 1).unwrap(), events[1..2]);
        assert!(reader.events(id(1), 3, 10).unwrap().is_empty());
    });
}

#[test]
fn task_without_events_must_have_ended_with_matching_count() {
    on_each(|tasks, reader| {
        let mut working = ended(1, 1);
        Arc::make_mut(&mut working.task).status.state = TaskState::Working;
        let mut miscounted = ended(2, 1);
        miscounted.last_event = 3;
        for wrong in [working, miscounted] {
            assert_eq!(
                one(tasks, create(&wrong)),
                WriteOutcome::Refused(InvalidWrite::EventNumbers)
            );
        }
        assert!(reader.get(id(1)).unwrap().is_none());
    });
}

#[test]
fn answer_without_task_is_returned_for_repeat() {
    on_each(|tasks, reader| {
        let answer = Box::new(text_message(Role::Agent, "4"));
        let answer_without_task = |n, message: &str| Write::AnswerWithoutTask {
            stored: new_task(n),
            message: label(message).into(),
            answer: answer.clone(),
        };
        done(tasks, vec![answer_without_task(1, "m")]);
        assert!(reader.get(id(1)).unwrap().is_none());
        let repeated = WriteOutcome::Repeated(Repeated::Answer(answer.clone()));
        assert_eq!(one(tasks, create_for(&new_task(2), "m")), repeated);
        assert_eq!(one(tasks, answer_without_task(3, "m")), repeated);
        done(tasks, vec![create_for(&new_task(4), "n")]);
        assert_eq!(
            one(tasks, answer_without_task(5, "n")),
            WriteOutcome::Repeated(Repeated::Task(id(4)))
        );
    });
}

#[test]
fn message_keys_returns_keys_up_to_limit() {
    on_each(|tasks, reader| {
        assert_eq!(reader.message_keys(0).unwrap(), Some(vec![]));
        done(tasks, vec![create_for(&new_task(1), "m"), create_for(&new_task(2), "n")]);
        let owner = new_task(1).owner;
        let key = |message: &str| message_key(&owner, &agent("tim"), &label(message));
        let mut expected = vec![key("m"), key("n")];
        let mut keys = reader.message_keys(2).unwrap().unwrap();
        expected.sort_unstable();
        keys.sort_unstable();
        assert_eq!(keys, expected);
        assert_eq!(reader.message_keys(1).unwrap(), None, "more than may be");
        assert_ne!(key("m"), message_key("client:acmet", &agent("im"), &label("m")));
    });
}
