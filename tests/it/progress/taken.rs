//! What the bus takes: every vector through its edge, and what an attacker tries.

use std::time::Duration;

use a2a_actors::tasks::TaskSettings;
use a2a_protocol::{Outcome, PROGRESS_EXTENSION};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{asked, of_task};
use crate::a2a_caller::FAR;
use crate::a2a_side::{Side, at_once, text};
use crate::listener::listener;
use crate::server::{Server, message};

const VECTORS: &str = include_str!("../../vectors/task-progress-v1.jsonl");
const SEQUENCES: &str = include_str!("../../vectors/task-progress-sequences-v1.jsonl");

#[derive(Deserialize)]
struct Sequence {
    name: String,
    updates: Vec<Value>,
    accepted: Vec<bool>,
}

/// Each vector as a sequence of one, then the sequences.
fn sequences() -> Vec<Sequence> {
    let single = |line: &str| {
        let vector: Value = serde_json::from_str(line).unwrap();
        Sequence {
            name: vector["name"].as_str().unwrap().to_owned(),
            updates: vec![vector["payload"].clone()],
            accepted: vec![vector["valid"].as_bool().unwrap()],
        }
    };
    let several = SEQUENCES.lines().map(|line| serde_json::from_str(line).unwrap());
    VECTORS.lines().map(single).chain(several).collect()
}

#[tokio::test]
async fn every_vector_is_taken_or_refused_and_a_refusal_leaves_the_task_as_it_was() {
    let settings = TaskSettings { progress_interval: Duration::ZERO, ..TaskSettings::default() };
    let side = Side::with(settings);
    let (tim, mut incoming) = listener(&side.bus, "tim").await;
    let place = format!("/payload/metadata/{}", PROGRESS_EXTENSION.replace('/', "~1"));
    for Sequence { name, updates, accepted } in sequences() {
        let task = side.task("tim", at_once(text(&name))).await;
        let delivery = asked(&mut incoming).await;
        let mut good = None;
        for (n, (update, accepted)) in updates.iter().zip(accepted).enumerate() {
            let before = side.get("tim", &task).await.unwrap();
            let body = json!({"taskId": task.id, "status": "in_progress",
                "progress": format!("{name} {n}"), "metadata": { PROGRESS_EXTENSION: update }});
            let mut message = message("tim", "x", "x");
            message["to"] = json!({"agentId": delivery.sender});
            message["correlationId"] = json!(delivery.message.correlation_id);
            message["type"] = "status_update".into();
            message["payload"] = body;
            let receipt = tim.send_json(message.to_string().as_bytes()).await;
            assert_eq!(receipt.outcome.is_accepted(), accepted, "{name} {n}: {receipt:?}");
            if accepted {
                good = Some(update.clone());
                // The answer follows the update through the same hands.
                tim.report(&delivery, format!("after {name} {n}")).await.unwrap();
                let expected = format!("after {name} {n}");
                crate::a2a_side::soon(async {
                    while crate::a2a_side::output(&side.get("tim", &task).await.unwrap())
                        != expected
                    {
                        tokio::task::yield_now().await;
                    }
                })
                .await;
            } else {
                assert_eq!(receipt.outcome, Outcome::Invalid);
                assert!(!receipt.errors.is_empty());
                for error in &receipt.errors {
                    assert!(error.path.starts_with(&place), "{name}: {error}");
                }
                assert_eq!(side.get("tim", &task).await.unwrap(), before, "{name}");
            }
            let now = side.get("tim", &task).await.unwrap();
            assert_eq!(of_task(&now), good, "{name} {n}");
        }
        tim.complete(&delivery, format!("done with {name}")).await.unwrap();
    }
    side.stop().await;
}

#[test]
fn flood_of_trackers_is_refused_and_the_server_continues() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), FAR);
    let client = server.client();
    client.inbox("roman", "");
    let update = |trackers: Vec<Value>| {
        let mut message = message("tim", "roman", "x");
        message["type"] = "status_update".into();
        message["payload"] = json!({"status": "in_progress", "progress": "x",
            "metadata": { PROGRESS_EXTENSION: { "trackers": trackers } }});
        client.send(&message)
    };
    let many = |count: u32| (0..count).map(|n| json!({"id": n.to_string()})).collect::<Vec<_>>();
    assert_eq!(update(many(20)).status, 202);
    let refused = update(many(21));
    assert_eq!(refused.status, 422, "{refused:?}");
    assert_eq!(refused.body["errors"][0]["code"], "too_many", "{refused:?}");
    let refused = update(many(1_000_000));
    assert!([413, 422].contains(&refused.status), "{}", refused.status);
    assert!(refused.body.to_string().len() < 4_096, "the answer is short");
    let above = update(vec![json!({"id": "a", "progress": 2, "total": 1})]);
    assert_eq!(above.body["errors"][0]["code"], "mismatch", "{above:?}");
    assert_eq!(update(vec![]).status, 202, "the server goes on");
}
