//! Agents that take messages: quick ones, a slow one, a careless one, one on a WebSocket.

use std::net::TcpStream;
use std::thread::Scope;
use std::time::Duration;

use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::{Message, WebSocket};

use crate::book::Book;
use crate::place::{Client, Place};
use crate::senders::settle;
use crate::trouble::Dice;

/// Those who are asked for work.
pub(crate) const WORKERS: [&str; 5] = ["quick-1", "quick-2", "slow-1", "careless-1", "socket-1"];
/// Takes nothing before the end, so that its queue is full.
pub(crate) const ABSENT: &str = "absent-1";
/// Those who ask.
pub(crate) const BOSSES: [&str; 4] = ["boss-1", "boss-2", "boss-3", "boss-4"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Quick,
    Slow,
    /// Forgets to acknowledge now and then, so that it is redelivered.
    Careless,
}

pub(crate) fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    place: &'scope Place,
    book: &'scope Book,
    seed: u64,
) {
    let quick = ["quick-1", "quick-2"].into_iter().chain(BOSSES);
    let all = quick.map(|agent| (agent, Manner::Quick));
    let all = all.chain([("slow-1", Manner::Slow), ("careless-1", Manner::Careless)]);
    for (number, (agent, manner)) in (1_000..).zip(all) {
        scope.spawn(move || {
            let mut dice = Dice::new(seed + number);
            while let Some(client) = place.client() {
                while !place.is_over() && take(&client, place, book, agent, manner, &mut dice) {}
                place.pause(Duration::from_millis(20));
            }
        });
    }
    // Registered, but never there: senders to it fill its queue.
    if let Some(client) = place.client() {
        client.take(ABSENT, 1, "0s");
    }
    scope.spawn(move || {
        let mut dice = Dice::new(seed + 2_000);
        while let Some(client) = place.client() {
            // Ends when the connection does.
            let _ = session(&client, place, book, "socket-1", &mut dice);
            place.pause(Duration::from_millis(20));
        }
    });
}

/// Takes what is there; whether the server answers.
fn take(
    client: &Client,
    place: &Place,
    book: &Book,
    agent: &str,
    manner: Manner,
    dice: &mut Dice,
) -> bool {
    let Some(messages) = client.take(agent, 20, "1s") else { return false };
    for taken in messages {
        let id = taken["message"]["messageId"].as_str().unwrap().to_owned();
        book.take(agent, &id);
        if manner == Manner::Slow {
            place.pause(Duration::from_millis(dice.below(60) as u64));
        }
        if manner == Manner::Careless && dice.below(10) == 0 {
            continue;
        }
        // What was not answered is redelivered when its lease has expired.
        let answer = answer(place, agent, &taken["message"]);
        if answer.is_some_and(|answer| !settle(client, book, &answer)) {
            continue;
        }
        if client.acknowledge(agent, &id) {
            book.acknowledge(agent, &id);
        }
    }
    true
}

/// The answer to a request.
fn answer(place: &Place, me: &str, message: &Value) -> Option<Value> {
    if message["type"] != "task_request" {
        return None;
    }
    let to = json!({"agentId": message["from"]["agentId"]});
    let payload = json!({
        "taskId": message["payload"]["taskId"], "action": "completed",
        "result": {"summary": "done"},
    });
    let mut answer = place.message(me, to, "task_response", payload);
    answer["correlationId"] = message["correlationId"].clone();
    Some(answer)
}

/// Takes and acknowledges over a WebSocket, and now and then does not read for a while.
fn session(
    client: &Client,
    place: &Place,
    book: &Book,
    agent: &str,
    dice: &mut Dice,
) -> Option<()> {
    let address = client.url.strip_prefix("http://")?;
    let request = format!("ws://{address}/bus/agents/{agent}/session").into_client_request();
    let stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    let (mut socket, _) = tungstenite::client(request.ok()?, stream).ok()?;
    say(&mut socket, &json!({"type": "hello", "window": 16}))?;
    while !place.is_over() {
        let frame = match socket.read() {
            Ok(Message::Text(text)) => serde_json::from_str::<Value>(&text).ok()?,
            Ok(Message::Close(_)) => return None,
            Ok(_) => continue,
            Err(tungstenite::Error::Io(error))
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ) =>
            {
                continue;
            }
            Err(_) => return None,
        };
        match frame["type"].as_str() {
            Some("deliver") => {
                let message = &frame["message"];
                let id = message["messageId"].as_str()?.to_owned();
                book.take(agent, &id);
                if dice.below(500) == 0 {
                    place.pause(Duration::from_secs(3));
                }
                let answer = answer(place, agent, message);
                let settled = answer.is_none_or(|answer| settle(client, book, &answer));
                let word = match settled {
                    true => json!({"type": "ack", "messageId": id}),
                    false => json!({"type": "nack", "messageId": id, "reason": "not answered"}),
                };
                say(&mut socket, &word)?;
            }
            Some("ack") if frame["durable"] == true => {
                book.acknowledge(agent, frame["messageId"].as_str()?);
            }
            _ => {}
        }
    }
    Some(())
}

fn say(socket: &mut WebSocket<TcpStream>, frame: &Value) -> Option<()> {
    socket.send(Message::text(frame.to_string())).ok()
}

/// Takes and acknowledges everything that is left, with an answer where one is due.
pub(crate) fn drain(client: &Client, place: &Place, book: &Book, agent: &str) -> usize {
    let Some(messages) = client.take(agent, 100, "0s") else { return 0 };
    for taken in &messages {
        let id = taken["message"]["messageId"].as_str().unwrap();
        book.take(agent, id);
        let answer = answer(place, agent, &taken["message"]);
        if answer.is_some_and(|answer| !settle(client, book, &answer)) {
            continue;
        }
        if client.acknowledge(agent, id) {
            book.acknowledge(agent, id);
        }
    }
    messages.len()
}
