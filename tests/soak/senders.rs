//! Agents that send: to one, to many, to one that does not look, and again when there was no answer.

use std::time::Duration;

use serde_json::{Value, json};

use crate::book::Book;
use crate::consumers::{ABSENT, WORKERS};
use crate::place::{Client, Place, new_id};
use crate::trouble::Dice;

/// Between two messages of one sender.
const PACE: Duration = Duration::from_millis(8);

pub(crate) fn run(place: &Place, book: &Book, number: u64, seed: u64) {
    let me = format!("boss-{number}");
    let mut dice = Dice::new(seed);
    let mut again: Option<Value> = None;
    while let Some(client) = place.client() {
        while !place.is_over() {
            // A message without an answer is repeated: it must be accepted once.
            let message = again.take().unwrap_or_else(|| compose(place, &me, &mut dice));
            if !send(&client, book, &message) {
                again = Some(message);
                break;
            }
            place.pause(PACE);
        }
        place.pause(Duration::from_millis(20));
    }
}

fn compose(place: &Place, me: &str, dice: &mut Dice) -> Value {
    let words = format!("{} {}", me, new_id());
    let to = json!({"agentId": WORKERS[dice.below(WORKERS.len())]});
    match dice.below(20) {
        0 => {
            let payload =
                json!({"scope": "org", "topic": "news", "message": words, "urgency": "fyi"});
            let mut message = place.message(me, to, "broadcast", payload);
            message.as_object_mut().unwrap().remove("to");
            message
        }
        1..=4 => {
            let payload = json!({
                "taskId": new_id(), "title": words, "description": words,
                "taskType": "analysis", "complexity": "low",
            });
            place.message(me, to, "task_request", payload)
        }
        5..=7 => {
            let payload = json!({"status": "in_progress", "progress": words});
            place.message(me, json!({"agentId": ABSENT}), "status_update", payload)
        }
        8 => {
            // As large as it may be.
            let payload = json!({"status": "in_progress", "progress": "x".repeat(32_000)});
            place.message(me, to, "status_update", payload)
        }
        _ => {
            let payload = json!({"status": "in_progress", "progress": words});
            place.message(me, to, "status_update", payload)
        }
    }
}

/// Whether the server answered.
pub(crate) fn send(client: &Client, book: &Book, message: &Value) -> bool {
    post(client, book, message).is_some()
}

/// Whether there is no more to send: the answer was taken, or is no longer wanted. An agent that
/// acknowledged a request whose answer was refused would leave its task to the clock.
pub(crate) fn settle(client: &Client, book: &Book, answer: &Value) -> bool {
    let outcome = post(client, book, answer);
    outcome.is_some_and(|outcome| {
        !["queue_full", "unavailable", "invalid", "none"].contains(&outcome.as_str())
    })
}

/// The server's answer; `None` when there was none.
fn post(client: &Client, book: &Book, message: &Value) -> Option<String> {
    let Some((status, receipt)) = client.send(message) else {
        book.count("messages without an answer");
        return None;
    };
    let outcome = receipt["outcome"].as_str().unwrap_or("none");
    book.count(&format!("receipts: {outcome}"));
    match (status, outcome) {
        (200 | 202, _) => book.promise(message["messageId"].as_str().unwrap(), &receipt),
        // Full, or the disk is; a timestamp from before the clock jumped; a task answered twice.
        (503, "queue_full" | "unavailable")
        | (422, "invalid")
        | (404, "unknown_task" | "unknown_recipient")
        | (403, "not_assignee")
        | (409, "illegal_transition") => {}
        _ => book.fault("an unexpected receipt", format!("{status} {receipt} for {message}")),
    }
    Some(outcome.to_owned())
}
