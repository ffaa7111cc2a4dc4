//! What all four forms have in common: sending, reading, answering, listing, cancelling.

use serde_json::{Value, json};

use super::{ask_while, code, start, until};
use crate::a2a_caller::{Caller, FORMS, Form, agent_text, id, state};
use crate::server::new_id;

#[test]
fn a_message_becomes_a_task_whether_its_caller_waits_or_not() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    for form in FORMS {
        let caller = Caller::of(&server, form, "tim");
        let done = ask_while(&caller, json!({"text": "hello"}), || {
            let request = tim.next();
            assert_eq!(request["payload"]["title"], "hello");
            assert_eq!(request["payload"]["context"]["a2aVersion"] == "0.3", form.is_old());
            tim.complete(&request, "well done");
        });
        let done = done.unwrap();
        assert_eq!((state(&done).as_str(), agent_text(&done).as_str()), ("completed", "well done"));
        assert_eq!(done["artifacts"][0]["artifactId"], "out", "{form:?} {done}");
        assert_eq!(done.get("metadata"), None, "what the server notes is its own: {form:?} {done}");
        let now = caller.begin(json!({})).unwrap();
        assert_eq!(state(&now), "working", "{form:?}");
        assert_ne!(id(&now), id(&done));
        tim.complete(&tim.next(), "later");
        let later = until(&caller, &id(&now), "completed");
        assert_eq!(agent_text(&later), "later");
        assert_eq!(later["contextId"], now["contextId"]);
    }
}

#[test]
fn a_question_is_answered_in_its_own_conversation() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    for form in FORMS {
        let caller = Caller::of(&server, form, "tim");
        let asks = ask_while(&caller, json!({}), || tim.ask(&tim.next(), "which?")).unwrap();
        assert_eq!(
            (state(&asks).as_str(), agent_text(&asks).as_str()),
            ("input-required", "which?")
        );
        let task = id(&asks);
        let wrong = json!({"taskId": task, "contextId": "another"});
        assert_eq!(code(caller.ask(wrong)), -32602, "{form:?}");
        assert_eq!(code(caller.ask(json!({"taskId": new_id()}))), -32001, "{form:?}");
        assert_eq!(code(caller.ask(json!({"taskId": "no uuid"}))), -32001, "{form:?}");
        assert_eq!(caller.get(&task, &[]).unwrap(), asks, "nothing changed");
        let answer = json!({"taskId": task, "contextId": asks["contextId"], "text": "this"});
        let done = ask_while(&caller, answer, || {
            let request = tim.next();
            assert_eq!(request["payload"]["taskId"], json!(task));
            assert_eq!(request["payload"]["title"], "this");
            tim.complete(&request, "done");
        });
        assert_eq!(state(&done.unwrap()), "completed");
        let refused = caller.ask(json!({"taskId": task})).unwrap_err();
        assert_eq!(refused.code, -32004, "{form:?} {refused:?}");
    }
    assert!(!tim.has_work(), "refused messages reached nobody");
}

#[test]
fn as_much_history_is_shown_as_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    for form in FORMS {
        let caller = Caller::of(&server, form, "tim");
        let asks = ask_while(&caller, json!({"text": "one"}), || tim.ask(&tim.next(), "which?"));
        let task = id(&asks.unwrap());
        caller.begin(json!({"taskId": task, "text": "two"})).unwrap();
        let request = tim.next();
        let shown = |length: Option<u32>| {
            let query: Vec<_> = length.map(|n| ("historyLength", json!(n))).into_iter().collect();
            let task = caller.get(&task, &query).unwrap();
            task["history"].as_array().map_or(0, Vec::len)
        };
        assert_eq!([shown(None), shown(Some(0)), shown(Some(1)), shown(Some(99))], [3, 0, 1, 3]);
        let negative = caller.get(&task, &[("historyLength", json!(-1))]);
        assert_eq!(code(negative), -32602, "{form:?}");
        tim.complete(&request, "done");
        until(&caller, &task, "completed");
    }
}

#[test]
fn a_list_has_the_newest_first_in_pages_and_by_filter() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    for form in FORMS {
        let caller = Caller::of(&server, form, "tim");
        let context = new_id();
        let of_context = ("contextId", json!(context));
        let mut made = Vec::new();
        for n in 0..5 {
            let fields = json!({"contextId": context, "text": n.to_string()});
            let done = ask_while(&caller, fields, || tim.complete(&tim.next(), "done"));
            made.push(id(&done.unwrap()));
        }
        made.reverse();
        let open = id(&caller.begin(json!({"contextId": context})).unwrap());
        let request = tim.next();
        let ids = |page: &Value| -> Vec<String> {
            page["tasks"].as_array().unwrap().iter().map(id).collect()
        };
        let all = caller.list(std::slice::from_ref(&of_context)).unwrap();
        assert_eq!((ids(&all)[0].as_str(), &ids(&all)[1..]), (open.as_str(), &made[..]));
        assert_eq!(all["totalSize"], 6);
        if form != Form::Rest03 {
            let numbers = (&all["pageSize"], &all["nextPageToken"]);
            assert_eq!(numbers, (&json!(50), &json!("")), "{form:?}");
        }
        let artifacts = |page: &Value| {
            let tasks = page["tasks"].as_array().unwrap();
            tasks.iter().filter(|task| task.get("artifacts").is_some()).count()
        };
        assert_eq!(artifacts(&all), 0, "{form:?} {all}");
        let with = [of_context.clone(), ("includeArtifacts", json!(true))];
        assert_eq!(artifacts(&caller.list(&with).unwrap()), 5, "{form:?}");
        let state = if form.is_old() { "completed" } else { "TASK_STATE_COMPLETED" };
        let completed = ("status", json!(state));
        let later = ("statusTimestampAfter", json!("2999-01-01T00:00:00Z"));
        assert_eq!(caller.list(&[later]).unwrap()["totalSize"], 0);
        let mut paged = Vec::new();
        let mut token = String::new();
        loop {
            let query = [
                of_context.clone(),
                completed.clone(),
                ("pageSize", json!(2)),
                ("pageToken", json!(token)),
            ];
            let page = caller.list(&query).unwrap();
            paged.extend(ids(&page));
            if form == Form::Rest03 {
                assert_eq!(paged, made[..2]);
                paged.extend_from_slice(&made[2..]);
                break;
            }
            assert_eq!((&page["totalSize"], &page["pageSize"]), (&json!(5), &json!(2)));
            token = page["nextPageToken"].as_str().unwrap().to_owned();
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(paged, made, "{form:?}");
        for (key, value) in [
            ("pageSize", json!(0)),
            ("pageSize", json!(101)),
            ("pageToken", json!("nonsense")),
            ("status", json!("finished")),
            ("statusTimestampAfter", json!("yesterday")),
        ] {
            assert_eq!(code(caller.list(&[(key, value)])), -32602, "{form:?} {key}");
        }
        tim.complete(&request, "done");
        until(&caller, &open, "completed");
    }
}

#[test]
fn task_is_cancelled_while_pending_or_working_and_not_after() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    for form in FORMS {
        let caller = Caller::of(&server, form, "tim");
        let context = json!({"contextId": new_id()});
        let works = id(&caller.begin(context.clone()).unwrap());
        let request = tim.next();
        let waits = caller.begin(context.clone()).unwrap();
        assert_eq!(state(&waits), "submitted");
        assert_eq!(waits["metadata"]["queuePosition"], 1, "{form:?} {waits}");
        assert!(waits["metadata"]["queuedAt"].as_u64().is_some(), "{waits}");
        let waits = id(&waits);
        for task in [&waits, &works] {
            assert_eq!(state(&caller.cancel(task).unwrap()), "canceled", "{form:?}");
            assert_eq!(code(caller.cancel(task)), -32002, "{form:?}");
            assert_eq!(state(&caller.get(task, &[]).unwrap()), "canceled");
        }
        assert_eq!(code(caller.cancel(&new_id())), -32001, "{form:?}");
        // Late answers change nothing and complete no other caller's task.
        let next = id(&caller.begin(context).unwrap());
        let done = json!({"action": "completed", "result": {"message": "late"}});
        assert_eq!(tim.say(&request, "task_response", done).status, 409);
        let request = tim.next();
        assert_eq!(request["payload"]["taskId"], json!(next), "the one that waited never ran");
        assert_eq!(state(&caller.get(&next, &[]).unwrap()), "working");
        tim.complete(&request, "done");
        until(&caller, &next, "completed");
        assert_eq!(state(&caller.get(&works, &[]).unwrap()), "canceled");
    }
}

#[test]
fn the_same_message_again_is_the_same_task() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    for form in FORMS {
        let caller = Caller::of(&server, form, "tim");
        let message = json!({"messageId": new_id()});
        let first = caller.begin(message.clone()).unwrap();
        assert_eq!(id(&caller.begin(message.clone()).unwrap()), id(&first), "{form:?}");
        let request = tim.next();
        let done = ask_while(&caller, message.clone(), || tim.complete(&request, "once")).unwrap();
        assert_eq!((id(&done), state(&done).as_str()), (id(&first), "completed"));
        assert_eq!(caller.ask(message.clone()).unwrap(), done);
        let mut stream = caller.stream(message).unwrap();
        assert_eq!(id(&stream.next().unwrap().data), id(&first));
        assert!(stream.next().is_none());
        assert!(!tim.has_work(), "{form:?}: it was done twice");
    }
}

#[test]
fn an_answer_without_a_task_is_given_and_given_again() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    for form in FORMS {
        let caller = Caller::of(&server, form, "tim");
        let message = json!({"messageId": new_id()});
        let answer = || {
            let result = json!({"message": "42", "direct": true});
            let fields = json!({"action": "completed", "result": result});
            assert_eq!(tim.say(&tim.next(), "task_response", fields).status, 202);
        };
        let output = ask_while(&caller, message.clone(), answer).unwrap();
        let parts = output.get("parts").or_else(|| output.get("content")).unwrap();
        assert_eq!(parts[0]["text"], "42", "{form:?} {output}");
        assert!(output.get("status").is_none(), "{output}");
        assert_eq!(caller.ask(message).unwrap(), output, "{form:?}");
    }
}

#[test]
fn caller_speaks_as_a_user() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    for form in FORMS {
        let caller = Caller::of(&server, form, "tim");
        let role = if form == Form::Rpc03 { "agent" } else { "ROLE_AGENT" };
        let refused = caller.begin(json!({ "role": role })).unwrap_err();
        assert_eq!(refused.code, -32602, "{form:?}");
        let output = refused.answer.body.to_string();
        assert!(output.contains("/role") && output.to_lowercase().contains("user"), "{output}");
        // Nor about a task that waits for its caller, which continues to wait.
        let task = id(&caller.begin(json!({})).unwrap());
        tim.ask(&tim.next(), "which?");
        until(&caller, &task, "input-required");
        let follow_up = caller.begin(json!({"role": role, "taskId": task}));
        assert_eq!(code(follow_up), -32602, "{form:?}");
        assert_eq!(state(&caller.get(&task, &[]).unwrap()), "input-required", "{form:?}");
        caller.begin(json!({ "taskId": task })).unwrap();
        tim.complete(&tim.next(), "done");
        until(&caller, &task, "completed");
    }
}

#[test]
fn tasks_of_an_unknown_agent_are_not_listed() {
    let folder = tempfile::tempdir().unwrap();
    let (server, _tim) = start(folder.path());
    for form in FORMS {
        assert_eq!(code(Caller::of(&server, form, "nobody").list(&[])), -32054, "{form:?}");
        assert_eq!(Caller::of(&server, form, "tim").list(&[]).unwrap()["totalSize"], 0);
    }
}
