//! Task progress end to end: from an agent's update on the bus to callers that have activated it.

/// Who sees it and who does not, in every form of A2A, streams and webhooks.
mod activation;
/// How often it is passed on, and what takes it along.
mod coalescing;
/// Bars, for an agent's author.
mod sdk;
/// What the bus takes, by the vectors of the protocol and by attack.
mod taken;
/// `openclaw-a2a task watch` where no terminal is.
mod watch;

use a2a_protocol::PROGRESS_EXTENSION;
use a2a_protocol::operation::StreamEvent;
use a2a_protocol::task::Task;
use openclaw_a2a::{Agent, Delivery, StatusReport};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::listener::next;

/// A snapshot with one tracker.
fn snapshot(progress: u64, total: u64) -> Value {
    json!({"trackers": [{"id": "a", "progress": progress, "total": total}]})
}

/// The update that carries it.
fn update(text: &str, snapshot: &Value) -> StatusReport {
    StatusReport::in_progress(text).extension(PROGRESS_EXTENSION, snapshot.clone())
}

/// Where a task shows it.
fn of_task(task: &Task) -> Option<Value> {
    task.status.message.as_ref()?.metadata.as_ref()?.get(PROGRESS_EXTENSION).cloned()
}

/// Where an event shows it.
fn of_event(event: &StreamEvent) -> Option<Value> {
    let StreamEvent::StatusUpdate(update) = event else { return None };
    update.metadata.as_ref()?.get(PROGRESS_EXTENSION).cloned()
}

/// The next request of a task.
async fn asked(inbox: &mut UnboundedReceiver<Delivery>) -> Delivery {
    loop {
        let delivery = next(inbox).await;
        if matches!(delivery.message.body, a2a_protocol::Body::TaskRequest(_)) {
            return delivery;
        }
    }
}

/// Reports its progress.
async fn tell(agent: &Agent, delivery: &Delivery, text: &str, snapshot: &Value) {
    agent.send_status_update(delivery, update(text, snapshot)).await.unwrap();
}
