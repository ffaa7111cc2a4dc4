//! Cost of decoding and encoding A2A, compared with parsing and writing the same JSON as plain values.
//!
//! `cargo bench -p a2a-protocol --bench wire`
#![allow(clippy::unwrap_used)] // a failing bench should panic

use std::hint::black_box;
use std::time::{Duration, Instant};

use a2a_protocol::operation::Reply;
use a2a_protocol::task::Task;
use a2a_protocol::wire::jsonrpc::{self, Id, Incoming};
use a2a_protocol::wire::{Dialect, Method, Version, decode, reply};
use serde_json::{Value, json};

/// Median cost per call over several rounds.
fn cost(mut call: impl FnMut()) -> Duration {
    const CALLS: u32 = 20_000;
    let round = |_| {
        let start = Instant::now();
        (0..CALLS).for_each(|_| call());
        start.elapsed() / CALLS
    };
    let mut rounds: Vec<_> = (0..9).map(round).collect();
    rounds.sort();
    rounds[rounds.len() / 2]
}

fn row(name: &str, ours: Duration, plain: Duration) {
    let ratio = ours.as_secs_f64() / plain.as_secs_f64();
    println!("{name:<24} {ours:>10.2?}  plain values {plain:>10.2?}  ratio {ratio:.2}");
}

fn main() {
    let text = "Please look at the tests of the parser and fix those that fail.";
    let id = "0192a4c8-7e1a-7b3c-9d4e-000000000001";
    let message = |role: &str, part: Value| json!({"messageId": id, "role": role, "contextId": "ctx-1", "parts": [part]});
    let old = message("user", json!({"kind": "text", "text": text}));
    let new = message("ROLE_USER", json!({"text": text}));
    let calls = [
        ("read message/send", "message/send", json!({"message": old})),
        ("read SendMessage", "SendMessage", json!({"message": new})),
    ];
    for (name, method, params) in calls {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let body = call.to_string().into_bytes();
        let ours = cost(|| {
            let Ok(Incoming::One(Ok(request))) = jsonrpc::parse(black_box(&body), 100) else {
                panic!("not a call");
            };
            let (version, method) = Method::from_rpc_name(&request.method).unwrap();
            black_box(decode(version.unwrap(), method, request.params).unwrap());
        });
        let plain = cost(|| {
            black_box(serde_json::from_slice::<Value>(black_box(&body)).unwrap());
        });
        row(name, ours, plain);
    }

    let task: Task = serde_json::from_value(json!({
        "id": id, "contextId": "ctx-1", "history": [new],
        "status": {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-02-21T18:30:00Z",
            "message": message("ROLE_AGENT", json!({"text": "All of them pass now."}))},
        "artifacts": [{"artifactId": "a", "parts": [{"text": text.repeat(10)}]}],
    }))
    .unwrap();
    let answer = Reply::Task(task.into());
    for &version in Version::ALL {
        let encoded = reply(version.dialect(), Method::SendMessage, &answer);
        let ours = cost(|| {
            black_box(jsonrpc::success(Id::NULL, black_box(&encoded)));
        });
        let value = serde_json::to_value(encoded).unwrap();
        let plain = cost(|| {
            black_box(jsonrpc::success(Id::NULL, black_box(&value)));
        });
        row(&format!("write a task for {}", version.as_str()), ours, plain);
    }
    assert_ne!(
        reply(Dialect::V0_3, Method::SendMessage, &answer).to_json(),
        reply(Dialect::V1_0, Method::SendMessage, &answer).to_json()
    );
}
