//! Push configurations: set, read, deleted, and the calls that follow from them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::{code, start_with, until};
use crate::a2a_caller::{Caller, FORMS, Form, id, state};
use crate::server::new_id;

pub(crate) const PRIVATE: &str = "[a2a]\nallow_private_webhooks = true\n";

/// One call of the server.
pub(crate) struct Told {
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// A receiver that answers with these statuses in turn, the last for ever.
pub(crate) fn receiver(statuses: &'static [&'static str]) -> (String, Receiver<Told>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (tell, answered) = channel();
    thread::spawn(move || {
        let mut statuses = statuses.iter().chain(statuses.iter().last().into_iter().cycle());
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if stream.read_line(&mut head).unwrap() == 0 {
                    break;
                }
            }
            let length = head.to_ascii_lowercase();
            let length = length.lines().find_map(|line| line.strip_prefix("content-length: "));
            let mut body = vec![0; length.map_or(0, |text| text.parse().unwrap())];
            stream.read_exact(&mut body).unwrap();
            let status = statuses.next().unwrap();
            let answer =
                format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
            let body = serde_json::from_slice(&body).unwrap();
            if tell.send(Told { head, body }).is_err() {
                return;
            }
        }
    });
    (url, answered)
}

pub(crate) fn next(answered: &Receiver<Told>) -> Told {
    answered.recv_timeout(Duration::from_secs(60)).expect("a call")
}

/// A wish, wherever an answer has it.
fn config(value: &Value) -> &Value {
    value.get("pushNotificationConfig").unwrap_or(value)
}

#[test]
fn a_wish_is_made_found_listed_and_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start_with(folder.path(), PRIVATE);
    for form in FORMS {
        let caller = Caller::of(&server, form, "tim");
        let task = id(&caller.begin(json!({})).unwrap());
        let _request = tim.next();
        for name in ["a", "b"] {
            let wish = json!({"id": name, "url": format!("https://example.com/{name}")});
            let made = caller.set_push(&task, &wish).unwrap();
            assert!(config(&made)["url"].as_str().unwrap().ends_with(name), "{form:?} {made}");
        }
        let found = caller.get_push(&task, "b").unwrap();
        assert_eq!(config(&found)["url"], "https://example.com/b", "{form:?}");
        let replaced = json!({"id": "b", "url": "https://example.com/c"});
        caller.set_push(&task, &replaced).unwrap();
        let all = caller.list_pushes(&task).unwrap();
        let all = all.get("configs").unwrap_or(&all).as_array().unwrap().clone();
        let urls: Vec<_> = all.iter().map(|wish| config(wish)["url"].clone()).collect();
        assert_eq!(urls, ["https://example.com/a", "https://example.com/c"], "{form:?}");
        caller.delete_push(&task, "a").unwrap();
        caller.delete_push(&task, "a").unwrap();
        assert_eq!(code(caller.get_push(&task, "a")), -32001, "{form:?}");
        caller.get_push(&task, "b").unwrap();
        let unknown = new_id();
        assert_eq!(code(caller.set_push(&unknown, &replaced)), -32001, "{form:?}");
        assert_eq!(code(caller.list_pushes(&unknown)), -32001, "{form:?}");
        assert_eq!(code(caller.delete_push(&unknown, "b")), -32001, "{form:?}");
    }
}

#[test]
fn wishes_are_listed_in_pages_that_neither_repeat_nor_miss() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start_with(folder.path(), PRIVATE);
    let names = |page: &Value| -> Vec<String> {
        let all = page.get("configs").unwrap_or(page).as_array().unwrap();
        all.iter().map(|wish| config(wish)["id"].as_str().unwrap().to_owned()).collect()
    };
    for form in FORMS {
        let caller = Caller::of(&server, form, "tim");
        let task = id(&caller.begin(json!({})).unwrap());
        let _request = tim.next();
        let wish = |name: &str| {
            let wish = json!({"id": name, "url": "https://example.com/"});
            caller.set_push(&task, &wish).unwrap();
        };
        // Not made in the order of their names.
        ["d", "b", "e", "a", "c"].into_iter().for_each(wish);
        let whole = caller.list_pushes(&task).unwrap();
        assert_eq!(names(&whole), ["a", "b", "c", "d", "e"], "{form:?}");
        let two = ("pageSize", json!(2));
        let first = caller.page_of_pushes(&task, std::slice::from_ref(&two)).unwrap();
        if form.is_old() {
            assert_eq!(names(&first).len(), 5, "0.3 knows no pages: {form:?}");
            continue;
        }
        assert_eq!(names(&first), ["a", "b"], "{form:?}");
        // Where the page ended goes, and others come before it and behind it.
        caller.delete_push(&task, "b").unwrap();
        ["aa", "bb"].into_iter().for_each(wish);
        let mut seen = Vec::new();
        let mut page = first.clone();
        while page["nextPageToken"] != "" {
            let query = [two.clone(), ("pageToken", page["nextPageToken"].clone())];
            page = caller.page_of_pushes(&task, &query).unwrap();
            assert!(names(&page).len() <= 2, "{form:?} {page}");
            seen.extend(names(&page));
        }
        assert_eq!(seen, ["bb", "c", "d", "e"], "{form:?}");
        let whole = caller.page_of_pushes(&task, &[("pageSize", json!(6))]).unwrap();
        assert_eq!((names(&whole).len(), &whole["nextPageToken"]), (6, &json!("")), "{form:?}");
        let tasks = caller.list(&[("pageSize", json!(1))]).unwrap();
        for bad in [json!("x"), tasks["nextPageToken"].clone()] {
            let query = [two.clone(), ("pageToken", bad)];
            assert_eq!(code(caller.page_of_pushes(&task, &query)), -32602, "{form:?}");
        }
        let query = [("pageSize", json!(101))];
        assert_eq!(code(caller.page_of_pushes(&task, &query)), -32602, "{form:?}");
    }
}

#[test]
fn receivers_are_called_in_order_with_their_secrets_and_again_after_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start_with(folder.path(), PRIVATE);
    for form in FORMS {
        let (url, answered) = receiver(&["503 Service Unavailable", "200 OK"]);
        let caller = Caller::of(&server, form, "tim");
        let task = id(&caller.begin(json!({})).unwrap());
        let request = tim.next();
        let authentication = if form.is_old() {
            json!({"schemes": ["Bearer"], "credentials": "cred-7"})
        } else {
            json!({"scheme": "Bearer", "credentials": "cred-7"})
        };
        let wish = json!({"url": url, "token": "token-8", "authentication": authentication});
        caller.set_push(&task, &wish).unwrap();
        tim.report(&request, "half way");
        let (first, again) = (next(&answered), next(&answered));
        assert_eq!(first.body, again.body, "{form:?}: the same call again");
        for answered in [&first, &again] {
            let head = answered.head.to_ascii_lowercase();
            assert!(head.contains("\r\nauthorization: bearer cred-7\r\n"), "{head}");
            assert!(head.contains("\r\nx-a2a-notification-token: token-8\r\n"), "{head}");
        }
        tim.complete(&request, "done");
        until(&caller, &task, "completed");
        if form.is_old() {
            // The current task.
            assert_eq!((&first.body["kind"], &first.body["id"]), (&json!("task"), &json!(task)));
            let (_artifact, end) = (next(&answered), next(&answered));
            assert_eq!(state(&end.body), "completed", "{form:?} {}", end.body);
        } else {
            assert_eq!(first.body["statusUpdate"]["taskId"], json!(task), "{}", first.body);
            assert!(next(&answered).body.get("artifactUpdate").is_some());
            assert_eq!(state(&next(&answered).body["statusUpdate"]), "completed");
        }
        assert!(answered.try_recv().is_err(), "{form:?}");
    }
}

#[test]
fn a_wish_in_the_message_counts_from_the_first_event() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start_with(folder.path(), PRIVATE);
    for form in FORMS {
        let (url, answered) = receiver(&["200 OK"]);
        let caller = Caller::of(&server, form, "tim");
        let (message_key, key) = match form {
            Form::Rpc03 => ("message", "pushNotificationConfig"),
            Form::Rest03 => ("request", "pushNotification"),
            _ => ("message", "taskPushNotificationConfig"),
        };
        let configuration =
            json!({"blocking": false, "returnImmediately": true, key: {"url": url}});
        let message = caller.message(json!({}));
        let params = json!({message_key: message, "configuration": configuration});
        let task = id(&caller.send(params).unwrap());
        let failed = json!({"action": "failed", "reason": "no"});
        assert_eq!(tim.say(&tim.next(), "task_response", failed).status, 202);
        let body = next(&answered).body;
        let body = body.get("statusUpdate").cloned().unwrap_or(body);
        assert_eq!(state(&body), "failed", "{form:?}");
        assert_eq!(body.get("taskId").unwrap_or(&body["id"]), &json!(task));
    }
}

#[test]
fn pending_webhooks_are_called_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start_with(folder.path(), PRIVATE);
    let (url, answered) = receiver(&["503 Service Unavailable"]);
    let caller = Caller::of(&server, Form::Rpc10, "tim");
    let task = id(&caller.begin(json!({})).unwrap());
    let request = tim.next();
    caller.set_push(&task, &json!({"id": "x", "url": url})).unwrap();
    tim.complete(&request, "done");
    let first = next(&answered);
    until(&caller, &task, "completed");
    server.kill();
    let (server, _tim) = start_with(folder.path(), PRIVATE);
    while next(&answered).body != first.body {}
    assert_eq!(
        state(&Caller::of(&server, Form::Rpc10, "tim").get(&task, &[]).unwrap()),
        "completed"
    );
}

#[test]
fn without_webhooks_push_configs_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start_with(folder.path(), "[a2a]\npush_notifications = false\n");
    for form in FORMS {
        let caller = Caller::of(&server, form, "tim");
        let task = id(&caller.begin(json!({})).unwrap());
        let _request = tim.next();
        let wish = json!({"id": "a", "url": "https://example.com"});
        assert_eq!(code(caller.set_push(&task, &wish)), -32003, "{form:?}");
        assert_eq!(code(caller.list_pushes(&task)), -32003, "{form:?}");
    }
}

/// An operator sees the push configurations of all callers, and only its own secrets.
#[test]
fn the_secrets_of_a_webhook_are_shown_to_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = crate::oversight::token_config(&[
        ("client = \"acme\"", "acme"),
        ("operator = \"david\"", "david"),
        ("agent = \"tim\"", "tim"),
    ]);
    let config = format!("{}{tokens}{PRIVATE}", crate::a2a_caller::FAR);
    let server = crate::server::Server::with_config(folder.path(), &config);
    server.client().bearing("tim").inbox("tim", "");
    for form in FORMS {
        let acme = Caller::of(&server.client().bearing("acme"), form, "tim");
        let david = Caller::of(&server.client().bearing("david"), form, "tim");
        let (scheme, bearer) = match form.is_old() {
            true => ("schemes", json!(["Bearer"])),
            false => ("scheme", json!("Bearer")),
        };
        let wish = json!({"id": "w", "url": "http://127.0.0.1:9/x", "token": "token-8",
            "authentication": {scheme: bearer, "credentials": "cred-7"}});
        for (who, other) in [(&acme, &david), (&david, &acme)] {
            let task = id(&who.begin(json!({})).unwrap());
            who.set_push(&task, &wish).unwrap();
            let own = [who.get_push(&task, "w").unwrap(), who.list_pushes(&task).unwrap()];
            for shown in own.map(|shown| shown.to_string()) {
                assert!(shown.contains("token-8") && shown.contains("cred-7"), "{form:?} {shown}");
            }
            if std::ptr::eq(who, &acme) {
                let theirs =
                    [other.get_push(&task, "w").unwrap(), other.list_pushes(&task).unwrap()];
                for shown in theirs.map(|shown| shown.to_string()) {
                    assert!(shown.contains("127.0.0.1:9/x") && shown.contains("Bearer"), "{shown}");
                    assert!(
                        !shown.contains("token-8") && !shown.contains("cred-7"),
                        "{form:?} {shown}"
                    );
                }
            }
        }
    }
}
