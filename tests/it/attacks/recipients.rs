//! Row 15: whatever is wrong with the recipient, the sender gets an answer and never waits for
//! ever.

use serde_json::json;

use crate::scenarios::folder;
use crate::server::{Server, id_of, message};

#[test]
fn an_unknown_recipient_is_a_typed_404() {
    let folder = folder();
    let server = Server::start(folder.path());
    let answer = server.send(&message("roman", "tim", "Anybody there?"));
    assert_eq!((answer.status, answer.content_type.as_str()), (404, "application/problem+json"));
    assert_eq!(answer.body["code"], "unknown_recipient");
    assert!(answer.body["detail"].as_str().unwrap().contains("`tim`"), "{answer:?}");
}

#[test]
fn recipient_that_always_fails_ends_in_a_dead_letter_with_a_notice() {
    let folder = folder();
    let config = "[delivery]\nattempts = 2\nfirst_pause_ms = 1\nlongest_pause_ms = 1\n";
    let server = Server::with_config(folder.path(), config);
    assert!(server.inbox("tim", "").is_empty());
    let sent = message("roman", "tim", "Do this");
    server.accepted(&sent);
    for attempt in 1..=2 {
        let taken = server.inbox("tim", "wait=20s");
        assert_eq!((id_of(&taken[0]), &taken[0]["attempt"]), (id_of(&sent), &json!(attempt)));
        assert_eq!(server.settle("tim", id_of(&sent), "nack").status, 200);
    }
    let notice = server.inbox("roman", "wait=20s");
    assert_eq!(notice[0]["sender"], "system");
    assert_eq!(notice[0]["message"]["correlationId"], sent["correlationId"]);
    let text = notice[0]["message"]["payload"]["progress"].as_str().unwrap();
    assert!(text.contains(id_of(&sent)) && text.contains("dead letter"), "{text}");
    assert!(server.inbox("tim", "").is_empty());
}

#[test]
fn a_recipient_that_dies_with_the_message_in_hand_is_a_failed_attempt() {
    let folder = folder();
    let config = "[delivery]\nattempts = 1\nlease_seconds = 1\n";
    let server = Server::with_config(folder.path(), config);
    assert!(server.inbox("tim", "").is_empty());
    let sent = message("roman", "tim", "Do this");
    server.accepted(&sent);
    assert_eq!(server.inbox("tim", "wait=10s").len(), 1); // and no more notices about tim
    let notice = server.inbox("roman", "wait=30s");
    let text = notice[0]["message"]["payload"]["progress"].as_str().unwrap();
    assert!(text.contains("lease ran out"), "{text}");
}

#[test]
fn full_recipient_is_503_for_its_senders_only() {
    let folder = folder();
    let server = Server::with_config(folder.path(), "[limits]\ninbox = 3\n");
    for agent in ["tim", "tony"] {
        assert!(server.inbox(agent, "").is_empty());
    }
    for i in 0..3 {
        server.accepted(&message("roman", "tim", &format!("Part {i}")));
    }
    for from in ["roman", "sandy"] {
        let full = server.send(&message(from, "tim", "One more"));
        assert_eq!((full.status, &full.body["code"]), (503, &json!("queue_full")), "{from}");
        assert_eq!(full.body["recipients"], json!([{"agentId": "tim", "outcome": "queue_full"}]));
        assert!(full.retry_after.is_some());
    }
    server.accepted(&message("roman", "tony", "Others have room"));
    assert_eq!(server.inbox("tim", "").len(), 3, "and tim lost nothing");
}
