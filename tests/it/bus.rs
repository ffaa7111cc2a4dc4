//! The bus in one process, through the SDK.

/// Bytes: how many may wait for one agent, for all together, and as dead letters.
mod budgets;
/// Handlers: failures, order of their messages, acknowledgement.
mod handlers;
/// Polling: what waits for a call that has gone, and which of several calls is served.
mod pulling;
/// Restarts: what is kept of a message that several agents are owed.
mod restarts;
/// Messages: who gets them, and what is refused.
mod sending;
/// Sessions: sharing work, coming and going, stopping.
mod sessions;

use std::time::Duration;

use a2a_protocol::{AgentId, Envelope};
use openclaw_a2a::{Agent, Bus, BusSettings, Delivery, RetryPolicy};
use serde_json::Value;
use tempfile::TempDir;

fn quick() -> BusSettings {
    BusSettings {
        retry: RetryPolicy {
            attempts: 3,
            initial_backoff: Duration::from_millis(1),
            max_backoff: Duration::from_millis(2),
        },
        ..BusSettings::default()
    }
}

fn start(folder: &TempDir, settings: BusSettings) -> Bus {
    Bus::builder().state_dir(folder.path()).settings(settings).start().unwrap()
}

async fn mute(bus: &Bus, name: &str) -> Agent {
    bus.attach(name, |_: Delivery| async {}).await.unwrap()
}

fn id(name: &str) -> AgentId {
    name.parse().unwrap()
}

fn request(from: &Agent, to: &str) -> Envelope {
    from.compose(Some(&id(to)), crate::new_task())
}

/// The events of a record, in order.
fn events(bus: &Bus, seq: u64) -> Vec<String> {
    let record = bus.system().reader().get(seq).unwrap().unwrap();
    let word = |line: &str| {
        serde_json::from_str::<Value>(line).unwrap()["event"].as_str().unwrap().to_owned()
    };
    record.deliveries.iter().map(|line| word(line.get())).collect()
}
