//! Every kind of broken request. None may be accepted, none may break anything.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::book::Book;
use crate::place::{Client, Place};
use crate::trouble::Dice;

const PLACES: [&str; 6] = [
    "/bus/messages",
    "/a2a",
    "/message:send",
    "/agents/quick-1/a2a",
    "/bus/agents/quick-1/inbox/x/ack",
    "/v1/message:send",
];

pub(crate) fn run(place: &Place, book: &Book, seed: u64) {
    let mut dice = Dice::new(seed);
    while let Some(client) = place.client() {
        while !place.is_over() {
            let answered = match dice.below(4) {
                0 => raw(&client, &mut dice),
                _ => one(&client, place, book, &mut dice),
            };
            if answered.is_none() {
                break;
            }
            place.pause(Duration::from_millis(15));
        }
        place.pause(Duration::from_millis(20));
    }
}

/// Bytes that are no HTTP, or not all of it.
fn raw(client: &Client, dice: &mut Dice) -> Option<()> {
    let mut stream = TcpStream::connect(client.url.strip_prefix("http://")?).ok()?;
    stream.set_read_timeout(Some(Duration::from_millis(200))).ok()?;
    let bytes: Vec<u8> = match dice.below(4) {
        0 => (0..dice.below(2_000)).map(|_| dice.byte()).collect(),
        1 => {
            b"POST /bus/messages HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n".to_vec()
        }
        2 => b"POST /bus/messages HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"
            .to_vec(),
        _ => b"GET /bus/log HTTP/1.1\r\nhost".to_vec(),
    };
    // It may hang up at any point.
    let _ = stream.write_all(&bytes);
    let _ = stream.read(&mut [0; 512]);
    Some(())
}

fn one(client: &Client, place: &Place, book: &Book, dice: &mut Dice) -> Option<()> {
    let path = PLACES[dice.below(PLACES.len())];
    let body = body(place, dice);
    let (status, answer) = client.post(path, &body)?;
    book.count("bad input");
    // JSON-RPC reports errors with status 200.
    let refused = (400..500).contains(&status) || answer.get("error").is_some();
    if !refused && status != 503 {
        let output = String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
        book.fault("bad input was taken", format!("{status} {answer} for {path} {output}"));
    }
    Some(())
}

fn body(place: &Place, dice: &mut Dice) -> Vec<u8> {
    let payload = json!({"status": "in_progress", "progress": "x"});
    let mut message =
        place.message("boss-1", json!({"agentId": "quick-1"}), "status_update", payload);
    match dice.below(10) {
        0 => (0..dice.below(4_000)).map(|_| dice.byte()).collect(),
        1 => "[".repeat(10_000).into_bytes(),
        2 => vec![b'x'; 400_000],
        3 => {
            let text = message.to_string();
            text.as_bytes()[..dice.below(text.len())].to_vec()
        }
        4 => without(&mut message, dice),
        5 => with(&mut message, "type", json!("task_requst")),
        6 => with(&mut message, "from", json!({"agentId": "system"})),
        7 => with(&mut message, "to", json!({"agentId": "nobody-of-that-name"})),
        8 => with(&mut message, "messageId", json!("../../etc/passwd")),
        _ => with(&mut message, "timestamp", json!("2999-01-01T00:00:00Z")),
    }
}

fn with(message: &mut Value, field: &str, value: Value) -> Vec<u8> {
    message[field] = value;
    message.to_string().into_bytes()
}

fn without(message: &mut Value, dice: &mut Dice) -> Vec<u8> {
    let fields = ["protocol", "messageId", "timestamp", "from", "to", "type", "payload"];
    message.as_object_mut().unwrap().remove(fields[dice.below(fields.len())]);
    message.to_string().into_bytes()
}
