//! Cost of a task within an objective of 500 tasks, beside a single task.
//!
//! The tasks of an objective share a context, in which one runs at a time. So the single tasks are
//! sent one after the other, too.

use std::time::Instant;

use serde_json::{Value, json};

use crate::http::Connection;
use crate::servers::Server;
use crate::{load_average, median};

const PLANS: usize = 10;
const TASKS: usize = 50;
const ROUNDS: usize = 5;
/// The most a task of an objective may cost, relative to a single task.
const BAR: f64 = 1.5;

pub async fn run() {
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let server = Server::ours(folder.path());
    let mut client =
        Client { connection: Connection::open(server.address()).await, server: &server };
    println!("\n{PLANS} plans of {TASKS} tasks; load average {}", load_average());
    let (mut singles, mut parts) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (single, part) = (client.singles(round).await, client.objective(round).await);
        // The first round warms up.
        if round > 0 {
            singles.push(single);
            parts.push(part);
        }
    }
    let (single, part) = (median(&singles), median(&parts));
    let ratio = part / single;
    let verdict = if ratio <= BAR { "met" } else { "MISSED" };
    println!("a single task {single:.0} µs, one of an objective {part:.0} µs: {ratio:.2} of it");
    println!("bar at most {BAR}: {verdict}");
    println!("{}", json!({ "single_us": singles, "part_us": parts, "ratio": ratio }));
}

struct Client<'a> {
    connection: Connection,
    server: &'a Server,
}

impl Client<'_> {
    async fn call(&mut self, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let extension = a2a_protocol::opt::OPT_EXTENSION;
        let (address, path) = (self.server.address(), self.server.path());
        self.connection.post_with(address, path, &body.to_string(), extension).await;
        let answer: Value = serde_json::from_slice(self.connection.answer().await)
            .unwrap_or_else(|error| panic!("{error}"));
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Microseconds per task, for as many single tasks as an objective has.
    async fn singles(&mut self, round: usize) -> f64 {
        let begun = Instant::now();
        for number in 0..PLANS * TASKS {
            let message = json!({
                "messageId": uuid::Uuid::now_v7(), "role": "ROLE_USER",
                "contextId": format!("round-{round}"),
                // Without the extension: no plan is involved.
                "parts": [{"text": format!("echo part {number} of round {round}")}],
            });
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage",
                "params": {"message": message}});
            let (address, path) = (self.server.address(), self.server.path());
            self.connection.post(address, path, &body.to_string()).await;
            let answer = self.connection.answer().await;
            let complete = memchr::memmem::find(answer, b"TASK_STATE_COMPLETED").is_some();
            assert!(complete, "{}", String::from_utf8_lossy(answer));
        }
        begun.elapsed().as_secs_f64() * 1e6 / (PLANS * TASKS) as f64
    }

    /// Microseconds per task of an objective, from its creation to its end.
    async fn objective(&mut self, round: usize) -> f64 {
        let begun = Instant::now();
        let made = self.call("objectives/create", json!({"name": format!("round {round}")})).await;
        let id = made["id"].clone();
        for plan in 0..PLANS {
            let task = |number| json!({"name": format!("echo {plan}-{number} of round {round}")});
            let tasks: Vec<Value> = (0..TASKS).map(task).collect();
            let plan = json!({"objectiveId": id, "name": format!("plan {plan}"), "tasks": tasks});
            self.call("plans/create", plan).await;
        }
        loop {
            // Waits for a revision that is never reached, so it returns when the objective has
            // ended.
            let get = json!({"id": id, "sinceRevision": u32::MAX, "waitMs": 10_000});
            let objective = self.call("objectives/get", get).await["objective"].clone();
            if objective["status"] == "completed" {
                break;
            }
            assert_eq!(objective["status"], "working", "{objective}");
        }
        begun.elapsed().as_secs_f64() * 1e6 / (PLANS * TASKS) as f64
    }
}
