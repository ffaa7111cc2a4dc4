//! A2A clients: some wait for the end, some do not, some watch and leave.

use std::io::Read;
use std::time::Duration;

use serde_json::json;

use crate::book::Book;
use crate::consumers::WORKERS;
use crate::place::{Place, new_id};
use crate::trouble::Dice;

/// Between two calls of one client.
const PACE: Duration = Duration::from_millis(25);

pub(crate) fn run(place: &Place, book: &Book, number: u64, seed: u64) {
    let mut dice = Dice::new(seed);
    while let Some(client) = place.client() {
        while !place.is_over() {
            let agent = WORKERS[dice.below(WORKERS.len())];
            let message = json!({
                "message": {
                    "messageId": new_id(), "role": "ROLE_USER", "parts": [{"text": "work"}],
                    "contextId": format!("talk-{number}-{}", dice.below(50)),
                },
                "configuration": {"returnImmediately": dice.below(4) != 0},
            });
            let path = format!("/agents/{agent}/message:send");
            let Some((status, body)) = client.post(&path, message.to_string().as_bytes()) else {
                book.count("tasks without an answer");
                break;
            };
            book.count(&format!("calls of A2A clients: {status}"));
            match (status, body["task"]["id"].as_str()) {
                (200, Some(id)) => {
                    book.open().tasks.insert(id.to_owned(), format!("/agents/{agent}/tasks/{id}"));
                }
                // Full, the disk is full, stopping, or no agent is registered under the name yet.
                (503 | 429 | 404, _) => {}
                _ => book.fault("an unexpected answer to a client", format!("{status} {body}")),
            }
            place.pause(PACE);
        }
        place.pause(Duration::from_millis(20));
    }
}

/// Watches tasks, reads a little, and leaves.
pub(crate) fn stream(place: &Place, book: &Book, seed: u64) {
    let mut dice = Dice::new(seed);
    while let Some(client) = place.client() {
        let message = json!({"message": {
            "messageId": new_id(), "role": "ROLE_USER", "parts": [{"text": "work"}],
        }});
        let opened = client.open("/agents/slow-1/message:stream", message.to_string().as_bytes());
        if let Some(response) = opened {
            book.count("streams");
            let mut some = vec![0; 64 << dice.below(6)];
            // However much comes: the point is to leave.
            let _ = response.into_body().into_reader().read(&mut some);
        }
        place.pause(Duration::from_millis(200));
    }
}
