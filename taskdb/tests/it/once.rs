//! Tasks that are written once, when they have ended, and answers whose task never was there.

use std::sync::Arc;

use a2a_protocol::operation::StreamEvent;
use a2a_protocol::task::{Role, TaskState};
use a2a_taskdb::{Misfit, Repeated, StoredTask, Write, Written, message_key};

use super::setup::{
    agent, artifact, create, create_for, done, id, label, new_task, on_each, one, says,
};

/// A task that has ended with so many artifacts, without an event that is kept.
fn ended(n: u64, artifacts: usize) -> StoredTask {
    let mut stored = new_task(n);
    let task = Arc::make_mut(&mut stored.task);
    task.status.state = TaskState::Completed;
    task.artifacts = (0..artifacts).map(|n| artifact(&format!("made {n}"))).collect();
    stored.last_event = artifacts as u64 + 1;
    stored
}

#[test]
fn what_happened_is_told_from_how_it_ended() {
    on_each(|tasks, reader| {
        let stored = ended(1, 2);
        done(tasks, vec![create_for(&stored, "m")]);
        let told = reader.events(id(1), 0, 10).unwrap();
        let numbers: Vec<u64> = told.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [1, 2, 3]);
        for (at, (_, event)) in told[..2].iter().enumerate() {
            let StreamEvent::ArtifactUpdate(update) = &**event else { panic!("{event:?}") };
            assert_eq!(update.artifact, stored.task.artifacts[at]);
            assert!(update.last_chunk && !update.append);
        }
        let StreamEvent::StatusUpdate(end) = &*told[2].1 else { panic!("{:?}", told[2]) };
        assert_eq!(end.status, stored.task.status);
        assert_eq!(reader.events(id(1), 1, 1).unwrap(), told[1..2]);
        assert!(reader.events(id(1), 3, 10).unwrap().is_empty());
    });
}

#[test]
fn only_an_end_tells_what_happened() {
    on_each(|tasks, reader| {
        let mut working = ended(1, 1);
        Arc::make_mut(&mut working.task).status.state = TaskState::Working;
        let mut miscounted = ended(2, 1);
        miscounted.last_event = 3;
        for wrong in [working, miscounted] {
            assert_eq!(one(tasks, create(&wrong)), Written::Refused(Misfit::EventNumbers));
        }
        assert!(reader.get(id(1)).unwrap().is_none());
    });
}

#[test]
fn an_answer_whose_task_never_was_is_given_again() {
    on_each(|tasks, reader| {
        let answer = Box::new(says(Role::Agent, "4"));
        let at_once = |n, message: &str| Write::AnswerAtOnce {
            stored: new_task(n),
            message: label(message).into(),
            answer: answer.clone(),
        };
        done(tasks, vec![at_once(1, "m")]);
        assert!(reader.get(id(1)).unwrap().is_none());
        let repeated = Written::Repeated(Repeated::Answer(answer.clone()));
        assert_eq!(one(tasks, create_for(&new_task(2), "m")), repeated);
        assert_eq!(one(tasks, at_once(3, "m")), repeated);
        done(tasks, vec![create_for(&new_task(4), "n")]);
        assert_eq!(one(tasks, at_once(5, "n")), Written::Repeated(Repeated::Task(id(4))));
    });
}

#[test]
fn every_message_has_its_key() {
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
