//! A2A under SIGKILL: what a caller was promised holds. No task that was acknowledged is lost,
//! none ends twice, and each comes to an end.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::a2a_caller::FAR;
use crate::server::{Client, Server, id_of, message, new_id};

/// How often the server is killed.
const LIVES: u64 = 6;
const CALLERS: usize = 3;
/// Longer than anything takes; a test that reaches it has failed.
const TOO_LONG: Duration = Duration::from_secs(240);

const CONFIG: &str = "[delivery]\nattempts = 1000\nfirst_pause_ms = 1\nlongest_pause_ms = 4\n";

/// The answers that callers got.
#[derive(Default)]
struct Book {
    /// By the id of the message: the task that was acknowledged.
    promised: HashMap<String, String>,
    /// By task: the end that a caller got.
    ended: HashMap<String, String>,
    /// By the id of the message: sent, without an answer so far.
    unanswered: HashMap<String, Value>,
}

type Shared<'a> = &'a Mutex<Book>;

fn open(book: Shared<'_>) -> MutexGuard<'_, Book> {
    // One thread's failure is not another's: the first is what counts.
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start(folder: &Path) -> Server {
    Server::with_config(folder, &format!("{FAR}{CONFIG}"))
}

fn is_end(state: &str) -> bool {
    ["COMPLETED", "FAILED", "CANCELED", "REJECTED"].iter().any(|end| state.ends_with(end))
}

/// Notes a task that a caller got.
fn note(book: Shared<'_>, message: &str, task: &Value) {
    let id = task["id"].as_str().unwrap().to_owned();
    let state = task["status"]["state"].as_str().unwrap().to_owned();
    let mut book = open(book);
    book.unanswered.remove(message);
    let first = book.promised.entry(message.to_owned()).or_insert_with(|| id.clone());
    assert_eq!(*first, id, "one message, two tasks");
    if is_end(&state) {
        let known = book.ended.entry(id.clone()).or_insert_with(|| state.clone());
        assert_eq!(*known, state, "{id} ended twice");
    }
}

/// Sends until the server is gone: every third waits for the end.
fn call(client: &Client, me: usize, book: Shared<'_>) {
    // Requests without an answer are repeated first: they must not be done twice.
    let again: Vec<Value> = open(book).unanswered.values().cloned().collect();
    let fresh = (0..).map(|n| {
        json!({
            "message": {
                "messageId": new_id(),
                "contextId": format!("talk-{me}-{}", n % 2),
                "role": "ROLE_USER",
                "parts": [{"text": "work"}],
            },
            "configuration": {"returnImmediately": n % 3 != 0},
        })
    });
    for params in again.into_iter().filter(|_| me == 0).chain(fresh) {
        let id = params["message"]["messageId"].as_str().unwrap().to_owned();
        open(book).unanswered.insert(id.clone(), params.clone());
        let body = params.to_string();
        let Ok(answer) = client.try_post("/agents/tim/message:send", body.as_bytes()) else {
            return;
        };
        match answer.status {
            200 => note(book, &id, &answer.body["task"]),
            // It stops, or cannot take more just now; nothing was promised.
            503 => {}
            other => panic!("{other}: {answer:?}"),
        }
    }
}

/// Takes work and does it until the server is gone.
fn work(client: &Client) {
    while let Ok(answer) = client.try_get("/bus/agents/tim/inbox?wait=1s&limit=8") {
        let Some(messages) = answer.body["messages"].as_array() else { continue };
        for received in messages {
            if received["message"]["type"] == "task_request" && answered(client, received).is_none()
            {
                return;
            }
            // Acknowledged after the answer, so that nothing is forgotten.
            if client.try_settle("tim", id_of(received), "ack").is_err() {
                return;
            }
        }
    }
}

fn answered(client: &Client, received: &Value) -> Option<()> {
    let request = &received["message"];
    let mut answer = message("tim", "x", "x");
    answer["to"] = json!({"agentId": request["from"]["agentId"]});
    answer["correlationId"] = request["correlationId"].clone();
    answer["type"] = "task_response".into();
    answer["payload"] = json!({"taskId": request["payload"]["taskId"], "action": "completed"});
    let receipt = client.try_send(&answer).ok()?;
    // 409: it was answered before the crash, and the request came once more.
    assert!(matches!(receipt.status, 202 | 409 | 503), "{receipt:?}");
    Some(())
}

/// One life of the server: load on every edge, then SIGKILL.
fn live(folder: &Path, book: Shared<'_>, promises: usize) {
    let server = start(folder);
    server.inbox("tim", "limit=1");
    let before = open(book).promised.len();
    let clients: Vec<Client> = (0..=CALLERS).map(|_| server.client()).collect();
    thread::scope(|scope| {
        let (worker, callers) = clients.split_first().unwrap();
        scope.spawn(|| work(worker));
        for (me, caller) in callers.iter().enumerate() {
            scope.spawn(move || call(caller, me, book));
        }
        let deadline = Instant::now() + TOO_LONG;
        while open(book).promised.len() < before + promises {
            assert!(Instant::now() < deadline, "no progress");
            thread::yield_now();
        }
        server.kill();
    });
}

#[test]
fn what_was_acknowledged_is_kept_and_ends_once() {
    let folder = tempfile::tempdir().unwrap();
    let book = Mutex::new(Book::default());
    for life in 0..LIVES {
        // So many answers that it is never at the same place.
        live(folder.path(), &book, usize::try_from(3 + (life * 7) % 17).unwrap());
    }
    let server = start(folder.path());
    thread::scope(|scope| {
        let worker = server.client();
        scope.spawn(move || work(&worker));
        let client = server.client();
        let unanswered: Vec<Value> = open(&book).unanswered.values().cloned().collect();
        for params in unanswered {
            let id = params["message"]["messageId"].as_str().unwrap().to_owned();
            let answer = client.post("/agents/tim/message:send", params.to_string().as_bytes());
            assert_eq!(answer.status, 200, "{answer:?}");
            note(&book, &id, &answer.body["task"]);
        }
        let promised = open(&book).promised.clone();
        assert!(promised.len() > 20, "little was promised");
        let deadline = Instant::now() + TOO_LONG;
        for (message, task) in &promised {
            loop {
                let answer = client.get(&format!("/agents/tim/tasks/{task}"));
                assert_eq!(answer.status, 200, "{task} is lost: {answer:?}");
                note(&book, message, &answer.body);
                if open(&book).ended.contains_key(task) {
                    break;
                }
                assert!(Instant::now() < deadline, "{task} never ends: {}", answer.body);
            }
            assert_eq!(ends(&client, task), 1, "{task}");
        }
        // No work was done without a request.
        let mut tasks: Vec<&String> = promised.values().collect();
        tasks.sort();
        tasks.dedup();
        let listed = client.get("/agents/tim/tasks?pageSize=1");
        assert_eq!(listed.body["totalSize"], json!(tasks.len()), "{listed:?}");
        drop(client);
        server.kill();
    });
}

/// How many of a task's events are an end.
fn ends(client: &Client, task: &str) -> usize {
    let client = client.with("last-event-id", "0");
    let path = format!("/agents/tim/tasks/{task}:subscribe");
    let response = client.open("GET", &path, &Value::Null).unwrap();
    let text = response.into_body().read_to_string().unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let events = data.map(|data| serde_json::from_str::<Value>(data).unwrap());
    events
        .filter(|event| event["statusUpdate"]["status"]["state"].as_str().is_some_and(is_end))
        .count()
}

/// Creates tasks and cancels each until the server is gone; notes those whose cancel was answered.
fn create_and_cancel(client: &Client, cancelled: &Mutex<Vec<String>>) {
    let send = json!({
        "message": {"role": "ROLE_USER", "parts": [{"text": "work"}]},
        "configuration": {"returnImmediately": true},
    });
    loop {
        let mut params = send.clone();
        params["message"]["messageId"] = new_id().into();
        let body = params.to_string();
        let Ok(answer) = client.try_post("/agents/tim/message:send", body.as_bytes()) else {
            return;
        };
        if answer.status != 200 {
            continue;
        }
        let id = answer.body["task"]["id"].as_str().unwrap().to_owned();
        let path = format!("/agents/tim/tasks/{id}:cancel");
        let Ok(answer) = client.try_post(&path, b"{}") else { return };
        if answer.status == 200 {
            assert_eq!(answer.body["status"]["state"], "TASK_STATE_CANCELED", "{answer:?}");
            cancelled.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        }
    }
}

#[test]
fn cancel_that_was_answered_holds_in_both_stores_after_sigkill() {
    let folder = tempfile::tempdir().unwrap();
    let cancelled = Mutex::new(Vec::new());
    for life in 0..LIVES {
        let server = start(folder.path());
        if life == 0 {
            server.inbox("tim", "limit=1");
        }
        let before = cancelled.lock().unwrap().len();
        let clients: Vec<Client> = (0..CALLERS).map(|_| server.client()).collect();
        thread::scope(|scope| {
            for client in &clients {
                scope.spawn(|| create_and_cancel(client, &cancelled));
            }
            let deadline = Instant::now() + TOO_LONG;
            let enough = before + usize::try_from(2 + (life * 5) % 11).unwrap();
            while cancelled.lock().unwrap_or_else(PoisonError::into_inner).len() < enough {
                assert!(Instant::now() < deadline, "no progress");
                thread::yield_now();
            }
            server.kill();
        });
    }
    let server = start(folder.path());
    let client = server.client();
    let mut on_the_bus = 0;
    for id in cancelled.lock().unwrap().iter() {
        let task = client.get(&format!("/agents/tim/tasks/{id}"));
        assert_eq!(task.body["status"]["state"], "TASK_STATE_CANCELED", "{task:?}");
        let assignment = client.get(&format!("/bus/tasks/{id}"));
        if assignment.status == 404 {
            // Cancelled before its turn came: the bus never had it.
            continue;
        }
        assert_eq!(assignment.body["state"], "cancelled", "{assignment:?}");
        on_the_bus += 1;
    }
    assert!(on_the_bus > 0, "no cancelled task was on the bus");
    let held = server.inbox("tim", "limit=100");
    let requests = held.iter().filter(|held| held["message"]["type"] == "task_request");
    let cancelled = cancelled.lock().unwrap();
    for request in requests {
        let id = request["message"]["payload"]["taskId"].as_str().unwrap();
        assert!(!cancelled.iter().any(|cancelled| cancelled == id), "delivered: {request}");
    }
    server.kill();
}
