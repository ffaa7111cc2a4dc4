//! Cost of message validation on top of JSON parsing.
//!
//! Each kind's example message is parsed in three ways, in interleaved rounds:
//!
//! - `parse`: [`Envelope::parse`] as in the bus, with all rules;
//! - `bare`:  `serde_json::from_slice` into the same payload struct;
//! - `plain`: `serde_json::from_slice` into structs of the same shape, with plain strings.
//!
//! The last column is the cost of a full report for a message with one fault.

use std::hint::black_box;
use std::time::{Duration, Instant};

use a2a_protocol::{
    CorrelationId, Envelope, Kind, MessageId, Priority, Protocol, Recipient, Sender, Timestamp,
    body,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 31;
const BATCH: u32 = 2_000;

fn main() {
    println!(
        "{:<16} {:>9} {:>9} {:>9} {:>9} {:>9} {:>11}",
        "kind", "parse ns", "bare ns", "plain ns", "to bare", "to plain", "invalid ns"
    );
    let mut worst: f64 = 0.0;
    for kind in Kind::ALL {
        let bytes = serde_json::to_vec(&kind.example_message()).unwrap_or_default();
        let broken = String::from_utf8_lossy(&bytes).replace("\"normal\"", "\"soon\"").into_bytes();
        let [parse, bare, plain, invalid] = medians([
            &|| drop(black_box(Envelope::parse(black_box(&bytes)))),
            &|| bare_of(*kind, &bytes),
            &|| plain_of(*kind, &bytes),
            &|| drop(black_box(Envelope::parse(black_box(&broken)))),
        ]);
        println!(
            "{:<16} {parse:>9.0} {bare:>9.0} {plain:>9.0} {:>9.2} {:>9.2} {invalid:>11.0}",
            kind.as_str(),
            parse / bare,
            parse / plain
        );
        worst = worst.max(parse / bare);
    }
    println!("{}", serde_json::json!({ "worst_ratio_to_bare": (worst * 100.0).round() / 100.0 }));
}

/// Median nanoseconds per call of each function, in interleaved rounds.
fn medians<const N: usize>(ways: [&dyn Fn(); N]) -> [f64; N] {
    let mut times: [Vec<Duration>; N] = std::array::from_fn(|_| Vec::new());
    for _ in 0..ROUNDS {
        for (way, times) in ways.iter().zip(&mut times) {
            let start = Instant::now();
            (0..BATCH).for_each(|_| way());
            times.push(start.elapsed());
        }
    }
    times.map(|mut times| {
        times.sort();
        times[ROUNDS / 2].as_nanos() as f64 / f64::from(BATCH)
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(dead_code)]
struct Bare<P> {
    protocol: Protocol,
    message_id: MessageId,
    timestamp: Timestamp,
    from: Sender,
    to: Option<Recipient>,
    r#type: Kind,
    priority: Priority,
    correlation_id: CorrelationId,
    payload: P,
}

fn read<T: DeserializeOwned>(bytes: &[u8]) {
    let value: T =
        serde_json::from_slice(black_box(bytes)).unwrap_or_else(|error| panic!("{error}"));
    drop(black_box(value));
}

fn bare_of(kind: Kind, bytes: &[u8]) {
    match kind {
        Kind::TaskRequest => read::<Bare<body::TaskRequest>>(bytes),
        Kind::TaskResponse => read::<Bare<body::TaskResponse>>(bytes),
        Kind::StatusUpdate => read::<Bare<body::StatusUpdate>>(bytes),
        Kind::KnowledgeShare => read::<Bare<body::KnowledgeShare>>(bytes),
        Kind::ReviewRequest => read::<Bare<body::ReviewRequest>>(bytes),
        Kind::ReviewResponse => read::<Bare<body::ReviewResponse>>(bytes),
        Kind::Broadcast => read::<Bare<body::Broadcast>>(bytes),
    }
}

fn plain_of(kind: Kind, bytes: &[u8]) {
    match kind {
        Kind::TaskRequest => read::<plain::Message<plain::TaskRequest>>(bytes),
        Kind::TaskResponse => read::<plain::Message<plain::TaskResponse>>(bytes),
        Kind::StatusUpdate => read::<plain::Message<plain::StatusUpdate>>(bytes),
        Kind::KnowledgeShare => read::<plain::Message<plain::KnowledgeShare>>(bytes),
        Kind::ReviewRequest => read::<plain::Message<plain::ReviewRequest>>(bytes),
        Kind::ReviewResponse => read::<plain::Message<plain::ReviewResponse>>(bytes),
        Kind::Broadcast => read::<plain::Message<plain::Broadcast>>(bytes),
    }
}

/// Structs of the same shape without rules, as in a program without validation.
#[allow(dead_code)]
mod plain {
    use serde::Deserialize;
    use serde_json::Value;

    macro_rules! plain {
        ($($name:ident { $($field:ident: $type:ty),* $(,)? })*) => { $(
            #[derive(Deserialize)]
            #[serde(rename_all = "camelCase")]
            pub struct $name { $($field: $type),* }
        )* };
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub struct Message<P> {
        protocol: String,
        message_id: String,
        timestamp: String,
        from: Agent,
        to: Option<Agent>,
        r#type: String,
        priority: String,
        correlation_id: String,
        payload: P,
    }

    plain! {
        Agent { agent_id: String, role: Option<String>, session_key: Option<String> }
        TaskRequest {
            task_id: String, title: String, description: String, task_type: String, complexity: String,
            deadline: Option<String>, context: Option<Value>, acceptance_criteria: Option<Vec<String>>,
        }
        TaskResponse { task_id: String, action: String, reason: Option<String>, result: Option<Value> }
        StatusUpdate {
            task_id: Option<String>, status: String, progress: String, blocked_by: Option<String>,
            estimated_completion: Option<String>, metadata: Option<Value>,
        }
        KnowledgeShare {
            topic: String, discovery: String, relevant_to: Vec<String>, source: String, actionable: bool,
            suggested_action: Option<String>,
        }
        ReviewRequest {
            task_id: String, title: String, branch: String, worktree: String, files_for_review: Vec<String>,
            author_agent: String, author_tier: Option<String>, review_level: Option<String>,
            prior_review_notes: Option<String>,
        }
        ReviewResponse {
            task_id: String, verdict: String, branch: String, worktree: String,
            reviewer_fixes: Option<Vec<Fix>>, unresolved_concerns: Option<Vec<Concern>>,
            next_action: String, next_tasks: Option<Vec<NextTask>>,
        }
        Fix { file: String, description: String }
        Concern { file: String, line: Option<u64>, severity: String, description: String }
        NextTask { title: String, assign_to: Option<String>, dependencies: Option<Vec<String>> }
        Broadcast { scope: String, topic: String, message: String, urgency: String }
    }
}
