//! Load on every edge while backups are taken. Clients write down what they were promised; each
//! backup is restored, and the promises made before it began are held against that server.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tungstenite::Message;

use super::{backup, check, restored};
use crate::a2a_caller::FAR;
use crate::log_command::log;
use crate::server::{Client, Server, id_of, message, new_id, stderr};
use crate::socket::Socket;

const BACKUPS: usize = 4;
/// So much is promised between two backups, at least.
const PROMISES: usize = 40;
const SENDERS: [&str; 3] = ["roman", "xavier", "tony"];
const CALLERS: usize = 2;
/// Longer than anything takes; a test that reaches it has failed.
const TOO_LONG: Duration = Duration::from_secs(300);

const CONFIG: &str = "[delivery]\nattempts = 1000\nfirst_pause_ms = 1\nlongest_pause_ms = 4\n";

/// The answers that clients got.
#[derive(Default, Clone)]
struct Book {
    /// Messages with a receipt, and their recipients.
    accepted: BTreeMap<String, &'static str>,
    /// Messages whose acknowledgement is durable.
    acknowledged: BTreeSet<String>,
    /// Tasks that were taken on.
    tasks: BTreeSet<String>,
    /// Tasks that ended, as they were then.
    ended: BTreeMap<String, Value>,
}

impl Book {
    fn promises(&self) -> usize {
        self.accepted.len() + self.acknowledged.len() + self.tasks.len()
    }
}

type Shared<'a> = &'a Mutex<Book>;

fn open(book: Shared<'_>) -> MutexGuard<'_, Book> {
    // One thread's failure is not another's: the first is what counts.
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

fn send(client: &Client, name: &str, book: Shared<'_>) {
    for n in 0.. {
        let to = ["ann", "bob"][n % 2];
        let sent = message(name, to, &format!("{n} {}", "x".repeat(n % 900)));
        let Ok(answer) = client.try_send(&sent) else { return };
        assert_eq!(answer.status, 202, "{answer:?}");
        open(book).accepted.insert(id_of(&sent).to_owned(), to);
    }
}

/// Receives messages over HTTP; one of seven is left without acknowledgement.
fn consume(client: &Client, book: Shared<'_>) {
    for n in 0.. {
        let Ok(answer) = client.try_inbox("ann", "wait=1s&limit=1") else { return };
        for delivery in answer.body["messages"].as_array().unwrap() {
            if n % 7 == 6 {
                continue;
            }
            let Ok(answer) = client.try_settle("ann", id_of(delivery), "ack") else { return };
            assert_eq!(answer.status, 200, "{answer:?}");
            open(book).acknowledged.insert(id_of(delivery).to_owned());
        }
    }
}

/// The same over a WebSocket, where everything is acknowledged.
fn listen(socket: &mut Socket, book: Shared<'_>) {
    while let Some(frame) = socket.try_receive() {
        let id = id_of(&frame).to_owned();
        match frame["type"].as_str() {
            Some("deliver") => {
                let ack = json!({"type": "ack", "messageId": id}).to_string();
                if !socket.try_send_raw(Message::text(ack)) {
                    return;
                }
            }
            Some("ack") => {
                assert_eq!(frame["durable"], true, "{frame}");
                open(book).acknowledged.insert(id);
            }
            _ => panic!("{frame}"),
        }
    }
}

fn is_end(task: &Value) -> bool {
    let state = task["status"]["state"].as_str().unwrap();
    ["COMPLETED", "FAILED", "CANCELED", "REJECTED"].iter().any(|end| state.ends_with(end))
}

/// Asks tim for things: every other call waits for the end, one in three asks back first.
fn call(client: &Client, me: usize, book: Shared<'_>) {
    for n in 0.. {
        let text = if n % 3 == 2 { "ask me first" } else { "work" };
        let say = |task: Option<&str>, text: &str| {
            json!({
                "message": {
                    "messageId": new_id(), "taskId": task, "role": "ROLE_USER",
                    "contextId": format!("talk-{me}-{}", n % 2), "parts": [{"text": text}],
                },
                "configuration": {"returnImmediately": n % 2 == 0},
            })
        };
        let first = say(None, text).to_string();
        let Ok(answer) = client.try_post("/agents/tim/message:send", first.as_bytes()) else {
            return;
        };
        assert_eq!(answer.status, 200, "{answer:?}");
        let id = answer.body["task"]["id"].as_str().unwrap().to_owned();
        open(book).tasks.insert(id.clone());
        let deadline = Instant::now() + TOO_LONG;
        loop {
            let Ok(answer) = client.try_get(&format!("/agents/tim/tasks/{id}")) else { return };
            assert_eq!(answer.status, 200, "{answer:?}");
            if is_end(&answer.body) {
                open(book).ended.insert(id, answer.body);
                break;
            }
            if answer.body["status"]["state"] == "TASK_STATE_INPUT_REQUIRED" {
                let more = say(Some(&id), "here it is").to_string();
                if client.try_post("/agents/tim/message:send", more.as_bytes()).is_err() {
                    return;
                }
            }
            assert!(Instant::now() < deadline, "{id} never ends: {}", answer.body);
        }
    }
}

/// Tim at work. What was asked for is answered before its request is acknowledged.
fn work(client: &Client) {
    while let Ok(answer) = client.try_get("/bus/agents/tim/inbox?wait=1s&limit=8") {
        let Some(messages) = answer.body["messages"].as_array() else { continue };
        for received in messages {
            let request = &received["message"];
            if request["type"] == "task_request" {
                let mut output = message("tim", "x", "x");
                output["to"] = json!({"agentId": request["from"]["agentId"]});
                output["correlationId"] = request["correlationId"].clone();
                output["type"] = "task_response".into();
                let task = &request["payload"]["taskId"];
                output["payload"] = if request["payload"]["title"] == "ask me first" {
                    json!({"taskId": task, "action": "blocked", "reason": "what exactly?"})
                } else {
                    let parts = json!([{"text": format!("done: {task}")}]);
                    let artifacts = json!([{"artifactId": "out", "parts": parts}]);
                    let result = json!({"message": "done", "artifacts": artifacts});
                    json!({"taskId": task, "action": "completed", "result": result})
                };
                let Ok(receipt) = client.try_send(&output) else { return };
                // 409: it was answered before, and the request came once more.
                assert!(matches!(receipt.status, 202 | 409), "{receipt:?}");
            }
            if client.try_settle("tim", id_of(received), "ack").is_err() {
                return;
            }
        }
    }
}

#[test]
fn what_was_promised_before_a_backup_holds_after_it_is_restored() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    std::fs::create_dir(&state).unwrap();
    let book = Mutex::new(Book::default());
    let server = Server::with_config(&state, &format!("{FAR}{CONFIG}"));
    for agent in ["tim", "ann", "bob"] {
        server.inbox(agent, "");
    }
    // A session that sends hello need not wait until the server stops waiting for it.
    let (mut socket, _) = Socket::greet(&server, "bob", json!({}));
    let clients: Vec<Client> = (0..SENDERS.len() + CALLERS + 2).map(|_| server.client()).collect();
    let mut taken = Vec::new();
    thread::scope(|scope| {
        let book = &book;
        let (senders, others) = clients.split_at(SENDERS.len());
        for (client, name) in senders.iter().zip(SENDERS) {
            scope.spawn(move || send(client, name, book));
        }
        let (callers, others) = others.split_at(CALLERS);
        for (me, client) in callers.iter().enumerate() {
            scope.spawn(move || call(client, me, book));
        }
        scope.spawn(|| work(&others[0]));
        scope.spawn(|| consume(&others[1], book));
        scope.spawn(|| listen(&mut socket, book));
        let deadline = Instant::now() + TOO_LONG;
        for n in 0..BACKUPS {
            // Every client has something to lose: some of it done, some of it not.
            let is_enough = |before: usize, book: &Book| {
                let acknowledged = |agent| {
                    let of = |id: &String| book.accepted.get(id) == Some(&agent);
                    book.acknowledged.iter().any(of)
                };
                let done = !book.ended.is_empty() && ["ann", "bob"].into_iter().all(acknowledged);
                done && book.promises() >= before + PROMISES
            };
            let before = open(book).promises();
            while !is_enough(before, &open(book)) {
                assert!(Instant::now() < deadline, "no progress");
                thread::yield_now();
            }
            let promised = open(book).clone();
            let to = folder.path().join(format!("backup-{n}"));
            let made = backup(&state, &to);
            taken.push((to, made, promised));
        }
        server.kill();
    });
    for (n, (from, made, promised)) in taken.iter().enumerate() {
        assert_eq!(check(from).code, Some(0));
        let again = folder.path().join(format!("restored-{n}"));
        restored(from, &again);
        holds(&again, made["head"].as_str().unwrap(), promised);
    }
}

/// Holds the promises against a server that continues from a backup.
fn holds(state: &Path, head: &str, promised: &Book) {
    let verified = log(state, &["verify", "--head", head]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.out, verified.err);
    let server = Server::start(state);
    let recorded: BTreeSet<String> = server
        .whole_log(1_000)
        .iter()
        .filter(|record| record["outcome"] == "queued" || record["outcome"] == "delivered")
        .map(|record| record["messageId"].as_str().unwrap().to_owned())
        .collect();
    for id in promised.accepted.keys() {
        assert!(recorded.contains(id), "{id} was accepted and is lost");
    }
    for (id, task) in &promised.ended {
        let found = server.get(&format!("/agents/tim/tasks/{id}"));
        assert_eq!((found.status, &found.body), (200, task), "{id}");
    }
    let handed: BTreeSet<String> =
        ["ann", "bob"].iter().flat_map(|to| drain(&server, to)).collect();
    for id in &handed {
        assert!(!promised.acknowledged.contains(id), "{id} was acknowledged and came again");
    }
    for (id, to) in &promised.accepted {
        assert!(handed.contains(id) || is_done(&server, id), "{id} for {to} never came");
    }
    let worker = server.client();
    thread::scope(|scope| {
        scope.spawn(|| work(&worker));
        let deadline = Instant::now() + TOO_LONG;
        for id in &promised.tasks {
            loop {
                let found = server.get(&format!("/agents/tim/tasks/{id}"));
                assert_eq!(found.status, 200, "{id} is lost: {found:?}");
                if is_end(&found.body) {
                    assert_eq!(found.body["status"]["state"], "TASK_STATE_COMPLETED", "{found:?}");
                    break;
                }
                // Its caller is gone; another one answers the question.
                if found.body["status"]["state"] == "TASK_STATE_INPUT_REQUIRED" {
                    let output = json!({"messageId": new_id(), "taskId": id, "role": "ROLE_USER",
                        "parts": [{"text": "here it is"}]});
                    let output = json!({"message": output}).to_string();
                    server.post("/agents/tim/message:send", output.as_bytes());
                }
                assert!(Instant::now() < deadline, "{id} never ends: {}", found.body);
            }
        }
        server.kill();
    });
    let verified = log(state, &["verify", "--head", head]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.out, verified.err);
    assert!(!stderr(state).contains("ERROR"), "{}", stderr(state));
}

/// Receives and acknowledges everything pending for an agent.
fn drain(server: &Server, agent: &str) -> Vec<String> {
    let mut handed = Vec::new();
    loop {
        let deliveries = server.inbox(agent, "limit=100");
        if deliveries.is_empty() {
            return handed;
        }
        for delivery in &deliveries {
            assert_eq!(server.settle(agent, id_of(delivery), "ack").status, 200);
            handed.push(id_of(delivery).to_owned());
        }
    }
}

/// Whether the log has an acknowledgement of a message.
fn is_done(server: &Server, id: &str) -> bool {
    let found = server.get(&format!("/bus/log/{id}"));
    let deliveries = found.body["records"][0]["deliveries"].as_array().unwrap().clone();
    deliveries.iter().any(|event| event["event"] == "acknowledged")
}
