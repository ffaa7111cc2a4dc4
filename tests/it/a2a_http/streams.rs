//! What streams send, to which callers, and from where they resume.

use std::thread;

use serde_json::json;

use super::{code, start, start_with, until};
use crate::a2a_caller::{Caller, FORMS, Form, id};
use crate::a2a_events::{Event, Events};
use crate::log_stream::Stream;
use crate::server::new_id;

fn words(events: &[Event]) -> Vec<String> {
    events.iter().map(Event::word).collect()
}

#[test]
fn all_streams_see_the_same_events_and_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    for form in FORMS {
        let caller = Caller::of(&server, form, "tim");
        let mut first = caller.stream(json!({})).unwrap();
        let task = first.next().unwrap();
        assert_eq!(task.word(), "task working", "{form:?}");
        let request = tim.next();
        let mut others: Vec<_> = FORMS
            .iter()
            .map(|form| Caller::of(&server, *form, "tim").subscribe(&id(&task.data)).unwrap())
            .collect();
        for other in &mut others {
            assert_eq!(other.next().unwrap().word(), "task working", "the task comes first");
        }
        tim.report(&request, "half way");
        tim.complete(&request, "done");
        let seen = first.rest();
        assert_eq!(words(&seen), ["working", "artifact", "completed"], "{form:?}");
        let numbers: Vec<u64> = seen.iter().map(|event| event.number).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        let last = &seen[2].data;
        assert_eq!(last.get("final").is_some(), form == Form::Rpc03 || form == Form::Rest03);
        for (other, their) in others.into_iter().zip(FORMS) {
            let theirs = other.rest();
            let as_seen = |events: &[Event]| -> Vec<(u64, String)> {
                events.iter().map(|event| (event.number, event.word())).collect()
            };
            assert_eq!(as_seen(&theirs), as_seen(&seen), "{form:?} {their:?}");
        }
        // It has ended: there is nothing to watch, but everything to read again.
        assert_eq!(code(caller.subscribe(&id(&task.data)).map(|_| ())), -32004, "{form:?}");
        let again = caller.with("last-event-id", &task.number.to_string());
        assert_eq!(again.subscribe(&id(&task.data)).unwrap().rest(), seen, "{form:?}");
        let after_one = caller.with("last-event-id", &seen[0].number.to_string());
        assert_eq!(after_one.subscribe(&id(&task.data)).unwrap().rest(), seen[1..], "{form:?}");
        let after_all = caller.with("last-event-id", &seen[2].number.to_string());
        assert_eq!(code(after_all.subscribe(&id(&task.data)).map(|_| ())), -32004, "{form:?}");
    }
}

#[test]
fn broken_stream_resumes_without_a_gap() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    for form in FORMS {
        let caller = Caller::of(&server, form, "tim");
        let mut stream = caller.stream(json!({})).unwrap();
        let task = id(&stream.next().unwrap().data);
        let request = tim.next();
        tim.report(&request, "1");
        let seen = stream.next().unwrap();
        drop(stream);
        tim.report(&request, "2");
        tim.report(&request, "3");
        let again = caller.with("last-event-id", &seen.number.to_string());
        let mut stream = again.subscribe(&task).unwrap();
        let (second, third) = (stream.next().unwrap(), stream.next().unwrap());
        assert_eq!((second.number, third.number), (seen.number + 1, seen.number + 2), "{form:?}");
        tim.report(&request, "4");
        assert_eq!(stream.next().unwrap().number, seen.number + 3);
        tim.complete(&request, "done");
        assert_eq!(words(&stream.rest()), ["artifact", "completed"], "{form:?}");
    }
}

#[test]
fn a_stream_of_who_asks_ends_with_the_question_and_another_shows_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    for form in FORMS {
        let caller = Caller::of(&server, form, "tim");
        let mut stream = caller.stream(json!({})).unwrap();
        let task = id(&stream.next().unwrap().data);
        let patient = caller.subscribe(&task).unwrap();
        tim.ask(&tim.next(), "which?");
        assert_eq!(words(&stream.rest()), ["input-required"], "{form:?}");
        let mut answer = caller.stream(json!({"taskId": task, "text": "this"})).unwrap();
        // The first event is the task with the new message.
        let first = answer.next().unwrap();
        assert_eq!(first.word(), "task working", "{form:?}");
        let history = first.data["history"].as_array().unwrap();
        assert!(history.last().unwrap().to_string().contains("\"this\""), "{form:?} {history:?}");
        tim.complete(&tim.next(), "done");
        assert_eq!(words(&answer.rest()), ["artifact", "completed"], "{form:?}");
        let watched = words(&patient.rest());
        let expected = ["task working", "input-required", "working", "artifact", "completed"];
        assert_eq!(watched, expected, "{form:?}");
    }
}

#[test]
fn repeated_message_streams_until_the_task_needs_its_caller() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    for form in FORMS {
        let caller = Caller::of(&server, form, "tim");
        let output = json!({"messageId": new_id()});
        let mut first = caller.stream(output.clone()).unwrap();
        first.next().unwrap();
        let again = caller.stream(output.clone()).unwrap();
        tim.ask(&tim.next(), "which?");
        let seen = first.rest();
        assert_eq!(words(&seen), ["input-required"], "{form:?}");
        assert_eq!(words(&again.rest()), ["task working", "input-required"], "{form:?}");
        // Now it waits for its caller, and there is nothing to wait for.
        let late = caller.stream(output.clone()).unwrap();
        assert_eq!(words(&late.rest()), ["task input-required"], "{form:?}");
        let resumed = caller.with("last-event-id", &seen[0].number.to_string());
        let resumed = resumed.stream(output).unwrap();
        assert_eq!(words(&resumed.rest()), ["task input-required"], "{form:?}");
    }
}

#[test]
fn a_stream_shows_as_much_history_as_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    for form in FORMS {
        let caller = Caller::of(&server, form, "tim");
        let shown = |fields, length| {
            let mut stream = caller.stream_with_history(fields, length).unwrap();
            let task = stream.next().unwrap().data;
            let history = task["history"].as_array().map_or(0, Vec::len);
            (id(&task), history)
        };
        let (task, history) = shown(json!({}), 0);
        assert_eq!(history, 0, "{form:?}");
        tim.ask(&tim.next(), "which?");
        until(&caller, &task, "input-required");
        assert_eq!(shown(json!({ "taskId": task }), 1), (task.clone(), 1), "{form:?}");
        tim.complete(&tim.next(), "done");
        until(&caller, &task, "completed");
    }
}

#[test]
fn only_streams_care_what_was_seen_last() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    for form in FORMS {
        let caller = Caller::of(&server, form, "tim");
        let task = id(&caller.begin(json!({})).unwrap());
        let confused = caller.with("last-event-id", "zzz");
        assert_eq!(id(&confused.get(&task, &[]).unwrap()), task, "{form:?}");
        assert_eq!(code(confused.subscribe(&task).map(|_| ())), -32602, "{form:?}");
        assert_eq!(code(confused.stream(json!({})).map(|_| ())), -32602, "{form:?}");
        tim.complete(&tim.next(), "done");
    }
    assert!(!tim.has_work(), "what was refused has begun nothing");
}

#[test]
fn numbers_continue_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    let caller = Caller::of(&server, Form::Rpc10, "tim");
    let task = id(&caller.begin(json!({})).unwrap());
    let request = tim.next();
    tim.report(&request, "before");
    let from_the_start = caller.with("last-event-id", "0");
    let before = from_the_start.subscribe(&task).unwrap().next().unwrap();
    server.kill();

    let (server, tim) = start(folder.path());
    let caller = Caller::of(&server, Form::Rpc10, "tim");
    let stream = caller.with("last-event-id", &before.number.to_string());
    let stream = stream.subscribe(&task).unwrap();
    tim.report(&request, "after");
    tim.complete(&request, "done");
    let after = stream.rest();
    assert_eq!(words(&after), ["working", "artifact", "completed"]);
    assert_eq!(after[0].number, before.number + 1, "nothing twice, nothing missing");
}

#[test]
fn a_reader_that_never_reads_does_not_slow_the_task() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    let caller = Caller::of(&server, Form::Rest10, "tim");
    let mut lazy = caller.stream(json!({})).unwrap();
    let task = lazy.next().unwrap();
    let request = tim.next();
    let text = "x".repeat(24_000);
    let count = 400;
    // Many at once: the agent is to be faster than its reader.
    thread::scope(|scope| {
        for worker in 0..8 {
            let (tim, request, text) = (&tim, &request, &text);
            scope.spawn(move || {
                for n in 0..count / 8 {
                    // The same artifact anew, so that the task stays small and its events large.
                    let piece = json!({"artifact":
                        {"artifactId": "a", "parts": [{"text": format!("{worker} {n} {text}")}]}});
                    let fields = json!({"status": "in_progress", "progress": "x",
                        "metadata": {"urn:openclaw:a2a:artifact:v1": piece}});
                    assert_eq!(tim.say(request, "status_update", fields).status, 202);
                }
            });
        }
    });
    tim.complete(&request, "done");
    let end = until(&caller, &id(&task.data), "completed");
    // Cut off somewhere; asking on from there nothing is missing.
    let mut seen: Vec<u64> =
        thread::spawn(move || lazy.map(|event| event.number).collect()).join().unwrap();
    let last = seen.last().copied().unwrap_or(task.number);
    let on = caller.with("last-event-id", &last.to_string());
    if let Ok(stream) = on.subscribe(&id(&end)) {
        seen.extend(stream.map(|event| event.number));
    }
    let expected: Vec<u64> = (task.number + 1..=task.number + count + 2).collect();
    assert_eq!(seen, expected);
}

#[test]
fn a_server_that_stops_lets_those_who_wait_go_and_they_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    let caller = Caller::of(&server, Form::Rest10, "tim");
    let mut stream = caller.stream(json!({})).unwrap();
    let task = stream.next().unwrap();
    let request = tim.next();
    let message = json!({"messageId": new_id()});
    let waits = thread::spawn({
        let (caller, message) = (caller.clone(), message.clone());
        move || caller.ask(message)
    });
    let second = tim.next();
    assert_eq!(server.terminate().code(), Some(0));
    assert_eq!(stream.rest(), []);
    assert_eq!(code(waits.join().unwrap()), -32055);

    let (server, tim) = start(folder.path());
    let caller = Caller::of(&server, Form::Rest10, "tim");
    let again = caller.with("last-event-id", &task.number.to_string());
    let stream = again.subscribe(&id(&task.data)).unwrap();
    tim.complete(&request, "done");
    assert_eq!(words(&stream.rest()), ["artifact", "completed"]);
    let done = super::ask_while(&caller, message, || tim.complete(&second, "done")).unwrap();
    assert_eq!(json!(id(&done)), second["payload"]["taskId"], "the same task");
}

/// A stream of the task, as soon as there is a place for one.
fn when_free(caller: &Caller, task: &str) -> Events {
    let free = (0..100_000).find_map(|_| caller.subscribe(task).ok());
    free.expect("a place that is free one day")
}

#[test]
fn stream_permit_of_a_reader_that_left_is_free_before_the_next_keep_alive() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start_with(folder.path(), "[http]\nmax_streams = 2\n");
    for form in FORMS {
        let caller = Caller::of(&server, form, "tim");
        // The clock: before this stream has a comment, no other got one either.
        let mut clock = caller.stream(json!({})).unwrap();
        let task = id(&clock.next().unwrap().data);
        let request = tim.next();
        let mut leaves = caller.subscribe(&task).unwrap();
        leaves.next().unwrap();
        assert_eq!(code(caller.subscribe(&task).map(drop)), -32055, "{form:?}");
        drop(leaves);
        drop(when_free(&caller, &task));
        let of_log = (0..100_000).find_map(|_| Stream::try_open(&server, "", None));
        assert_eq!(code(caller.subscribe(&task).map(drop)), -32055, "{form:?}");
        drop(of_log.expect("a place"));
        drop(when_free(&caller, &task));
        tim.report(&request, "still at it");
        let seen = clock.line().unwrap();
        assert!(seen.starts_with("id: "), "{form:?}: free only after {seen:?}");
        assert!(clock.line().unwrap().starts_with("data: "), "{form:?}");
        tim.complete(&request, "done");
        assert_eq!(words(&clock.rest()), ["artifact", "completed"], "{form:?}");
        // All places are free again for the next.
        let other = id(&caller.begin(json!({})).unwrap());
        drop([when_free(&caller, &other), when_free(&caller, &other)]);
        tim.complete(&tim.next(), "done");
        until(&caller, &other, "completed");
    }
}
