//! Row 18: text that tries to end a line of the log and begin another. Whatever a sender
//! writes, each line stays one record, and there are as many as there should be.

use std::collections::HashMap;

use a2a_protocol::Outcome;
use openclaw_a2a::{CircuitKey, Delivery, Profile, StatusReport, TaskAnswer};
use serde_json::{Value, json};

use super::log_lines;
use crate::scenarios::*;
use crate::server::{Server, id_of, message};

/// Ends a line, closes an object, and forges an event.
const FORGED: &str = "x\"}\n{\"seq\":1,\"outcome\":\"delivered\",\"by\":\"tim\"}\r\n\u{2028}\u{85}\0\u{b}\u{c}\u{7f}";

/// The same without NUL, which no text of a message may hold.
fn forged() -> String {
    FORGED.replace('\0', "")
}

/// Records by outcome and events by word. Numbers rise without a gap, so nothing was slipped in.
fn count(lines: &[Value]) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for (line, expected) in lines.iter().zip(1_u64..) {
        assert_eq!(line["seq"].as_u64(), Some(expected), "{line}");
        let word = line.get("outcome").or_else(|| line.get("event")).unwrap();
        *counts.entry(word.as_str().unwrap().to_owned()).or_default() += 1;
    }
    counts
}

#[tokio::test]
async fn no_text_of_an_agent_or_a_person_begins_a_line_of_its_own() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (roman, mut incoming) = listener(&bus, "roman").await;
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    bus.attach("tim", |_: Delivery| async {
        let works = false;
        assert!(works, "{FORGED}");
    })
    .await
    .unwrap();

    // In a message: title, description, reason, progress, sessionKey.
    let mut asked = roman.write("tony", openclaw_a2a::NewTask::new(forged(), forged())).unwrap();
    asked.from.session_key = Some(format!("agent:roman:{}", forged()).try_into().unwrap());
    roman.post(asked).await.unwrap();
    let delivery = next(&mut tony_inbox).await;
    assert_eq!(payload(&delivery)["title"], forged(), "it arrives as data");
    tony.send_status_update(&delivery, StatusReport::blocked(forged(), forged())).await.unwrap();
    tony.send_task_response(&delivery, TaskAnswer::failed(forged())).await.unwrap();
    next(&mut incoming).await;
    next(&mut incoming).await;
    // In texts of handlers and people: a panic, an operator's name, a circuit, a cancelled task.
    let broken = roman.send_status_update("tim", StatusReport::in_progress("Hi")).await.unwrap();
    next_notice(&mut incoming, broken.correlation_id()).await;
    let david = bus.operator(&forged());
    let sent = david.send_as(&id("roman"), roman.write("tony", small_task()).unwrap()).await;
    assert_eq!(sent.outcome, Outcome::Delivered);
    let second = next(&mut tony_inbox).await;
    let a2a_protocol::Body::TaskRequest(task) = &second.message.body else { panic!("a task") };
    bus.cancel_task(task.task_id, FORGED).await.unwrap();
    for incoming in [&mut incoming, &mut tony_inbox] {
        next_notice(incoming, second.message.correlation_id).await;
    }
    let talk = word(&roman, "tony").await;
    next_is(&mut tony_inbox, &talk).await;
    let key = CircuitKey::Correlation(talk.correlation_id());
    bus.trip_circuit(key.clone(), FORGED).await.unwrap();
    for incoming in [&mut incoming, &mut tony_inbox] {
        next_notice(incoming, talk.correlation_id()).await;
    }
    assert!(bus.reset_circuit(&key).await);
    let profile = Profile { role: Some(forged()), ..Profile::default() };
    assert!(bus.register(id("sandy"), profile).await.is_err(), "a role fits on a line");
    bus.stop().await;

    let lines = log_lines(folder.path());
    let counts = count(&lines);
    let of = |word: &str| counts.get(word).copied().unwrap_or_default();
    // Six messages and five notices of the bus; of them one could not be handled.
    assert_eq!(lines.iter().filter(|line| line.get("outcome").is_some()).count(), 11);
    assert_eq!(of("delivered") + of("queued"), 11 + handed_out_again(&lines), "{counts:?}");
    assert_eq!((of("joined"), of("acknowledged"), of("dead_letter")), (3, 10, 1), "{counts:?}");
    assert_eq!((of("cancelled"), of("tripped"), of("closed")), (1, 1, 1), "{counts:?}");
    let forgeries = lines.iter().filter(|line| line["by"] == "tim").count();
    assert_eq!(forgeries, 0, "tim said nothing");

    // What was written is read again, and the bus continues.
    let bus = start(&folder, quick());
    let (roman, _) = listener(&bus, "roman").await;
    let (_tony, mut tony_inbox) = listener(&bus, "tony").await;
    next_is(&mut tony_inbox, &word(&roman, "tony").await).await;
    bus.stop().await;
}

/// Events `delivered`, which share their word with an outcome.
fn handed_out_again(lines: &[Value]) -> usize {
    lines.iter().filter(|line| line["event"] == "delivered").count()
}

#[test]
fn bytes_over_http_are_one_line_each_whatever_they_are() {
    let folder = folder();
    let server = Server::start(folder.path());
    assert!(server.inbox("tim", "").is_empty());
    let valid = message("roman", "tim", "A word");
    let pretty = serde_json::to_string_pretty(&valid).unwrap().replace('\n', "\r\n");
    assert_eq!(server.post("/bus/messages", pretty.as_bytes()).status, 202);
    let with = |place: &str, value: Value| {
        let mut sent = message("roman", "tim", "A word");
        *sent.pointer_mut(place).unwrap() = value;
        sent.to_string().into_bytes()
    };
    let hostile = [
        FORGED.as_bytes().to_vec(),
        b"\n\n\n{\"seq\":1}\n".to_vec(),
        b"{}\n{}\n".to_vec(),
        [0xff, b'\n', 0xfe, b'{', b'}'].to_vec(),
        with("/messageId", json!(FORGED)),
        with("/correlationId", json!(forged())),
        with("/from/agentId", json!(forged())),
        with("/to/agentId", json!(forged())),
        with("/type", json!(forged())),
        with("/payload/status", json!(forged())),
        serde_json::to_vec_pretty(&json!({forged(): forged()})).unwrap(),
    ];
    for bytes in &hostile {
        let answer = server.post("/bus/messages", bytes);
        assert_eq!((answer.status, &answer.body["code"]), (422, &json!("invalid")), "{answer:?}");
    }
    // A reason that comes with a nack.
    let taken = server.inbox("tim", "wait=10s");
    assert_eq!(taken[0]["message"], valid);
    let nack = format!("/bus/agents/tim/inbox/{}/nack", id_of(&valid));
    let reason = json!({"reason": forged()}).to_string();
    assert_eq!(server.post(&nack, reason.as_bytes()).status, 200);
    let records = server.whole_log(100).len();
    assert_eq!(records, 1 + hostile.len());
    assert!(server.terminate().success());

    let lines = log_lines(folder.path());
    let counts = count(&lines);
    assert_eq!((counts["queued"], counts["invalid"]), (1, hostile.len()), "{counts:?}");
    // Tim and roman joined; one message was handed out and came back.
    assert_eq!((counts["joined"], counts["delivered"], counts["attempt_failed"]), (2, 1, 1));
    assert_eq!(lines.len(), counts.values().sum::<usize>());
}
