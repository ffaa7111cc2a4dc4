//! What a thousand open streams cost, and whether opening them again costs more.
//!
//! The tasks are there before: an agent that never takes anything has them in its inbox. So what
//! grows between two figures is what the streams take.

use std::time::Instant;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::http::Connection;
use crate::load_average;
use crate::servers::Server;

const STREAMS: usize = 1_000;
/// Flat: the second time takes at most so much more than the first.
const FLAT: f64 = 1.10;

/// An agent whose inbox is open and who never looks into it.
const SLEEPER: &str = "/agents/sleeper/a2a";

pub async fn run() {
    allow_files();
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let server = Server::ours(folder.path());
    println!("\n{STREAMS} streams at once; load average {}", load_average());
    let empty = server.resident();
    let tasks = open_tasks(&server).await;
    let with_tasks = server.resident();
    println!("{empty:.1} MiB at the start, {with_tasks:.1} MiB with {STREAMS} tasks at work");
    let mut rounds = Vec::new();
    for round in 1..=2 {
        let begun = Instant::now();
        let opened = join_all(tasks.iter().map(|task| open(&server, task))).await;
        let (seconds, open) = (begun.elapsed().as_secs_f64(), server.resident());
        let kept = opened.into_iter().map(|mut stream| async move {
            stream.until(b": still here\n\n").await;
            stream
        });
        let kept = join_all(kept).await;
        let alive = server.resident();
        drop(kept);
        let closed = closed(&server).await;
        println!(
            "round {round}: all open after {seconds:.2} s, {open:.1} MiB; each kept alive, \
             {alive:.1} MiB; a second after closing, {closed:.1} MiB"
        );
        rounds.push((open.max(alive), open, alive, closed));
    }
    let ((first, ..), (second, ..)) = (rounds[0], rounds[1]);
    let verdict = if second <= first * FLAT { "met" } else { "MISSED" };
    let each = (first - with_tasks) * 1_024.0 / STREAMS as f64;
    println!("a stream takes {each:.1} KiB; the second round {:.3} of the first", second / first);
    println!("bar flat (at most {FLAT}): {verdict}");
    let rounds: Vec<Value> = rounds
        .iter()
        .map(|(_, open, alive, closed)| json!({"open": open, "alive": alive, "closed": closed}))
        .collect();
    println!(
        "{}",
        json!({"streams": STREAMS, "mib": {"start": empty, "tasks": with_tasks, "rounds": rounds}})
    );
}

/// A connection is a file, and many systems allow a program a thousand unless it asks.
fn allow_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = STREAMS as u64 + 1_000;
    if limit.current.is_some_and(|current| current < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit })
            .unwrap_or_else(|error| panic!("{wanted} files are not allowed: {error}"));
    }
}

async fn call(connection: &mut Connection, server: &Server, method: &str, params: &Value) {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    connection.post(server.address(), SLEEPER, &body).await;
}

/// The ids of tasks that stay at work.
async fn open_tasks(server: &Server) -> Vec<String> {
    let mut connection = Connection::open(server.address()).await;
    // Looking once opens the inbox.
    connection.get(server.address(), "/bus/agents/sleeper/inbox").await;
    connection.answer().await;
    let mut tasks = Vec::with_capacity(STREAMS);
    for number in 0..STREAMS {
        let message = json!({
            "messageId": uuid::Uuid::now_v7(), "role": "ROLE_USER",
            "parts": [{"text": format!("work on number {number} for ever")}],
        });
        let configuration = json!({"returnImmediately": true});
        let params = json!({"message": message, "configuration": configuration});
        call(&mut connection, server, "SendMessage", &params).await;
        let answer: Value = serde_json::from_slice(connection.answer().await)
            .unwrap_or_else(|error| panic!("{error}"));
        let task = &answer["result"]["task"];
        assert_eq!(task["status"]["state"], "TASK_STATE_WORKING", "{answer}");
        tasks.push(task["id"].as_str().unwrap_or_default().to_owned());
    }
    tasks
}

/// A stream that has shown its task.
async fn open(server: &Server, task: &str) -> Connection {
    let mut connection = Connection::open(server.address()).await;
    call(&mut connection, server, "SubscribeToTask", &json!({"id": task})).await;
    connection.until(b"TASK_STATE_WORKING").await;
    connection
}

/// The memory a second later. The server does not know yet that its readers have left: it finds
/// out when it writes to them, so what they took is still taken.
async fn closed(server: &Server) -> f64 {
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    server.resident()
}
