use std::collections::HashSet;

use serde_json::{Value, json};

use super::{folder, is_problem, progress, started, with_tim};
use crate::server::{Server, id_of, message};

#[test]
fn who_joined_is_listed_with_what_waits() {
    let folder = folder();
    let server = started(folder.path());
    server.accepted(&message("roman", "tim", "1"));
    server.accepted(&message("roman", "tim", "2"));
    let answer = server.get("/bus/agents");
    assert_eq!(answer.status, 200);
    let seen: Vec<_> = answer.body["agents"].as_array().unwrap().iter().collect();
    let seen: Vec<_> =
        seen.iter().map(|a| (&a["agentId"], a["pending"].as_u64().unwrap())).collect();
    assert_eq!(seen, [(&json!("roman"), 0), (&json!("tim"), 2)]);
}

#[test]
fn an_inbox_hands_out_by_priority_in_order_and_each_message_to_one() {
    let folder = folder();
    let server = started(folder.path());
    for (text, priority) in [
        ("1", "low"),
        ("2", "normal"),
        ("3", "urgent"),
        ("4", "high"),
        ("5", "normal"),
        ("6", "urgent"),
    ] {
        let mut sent = message("roman", "tim", text);
        sent["priority"] = json!(priority);
        server.accepted(&sent);
    }
    assert_eq!(progress(&server.inbox("tim", "limit=2")), ["3", "6"]);
    assert_eq!(progress(&server.inbox("tim", "limit=3")), ["4", "2", "5"]);
    assert_eq!(progress(&server.inbox("tim", "limit=100")), ["1"]);
    assert!(server.inbox("tim", "limit=100").is_empty());
}

/// Without `wait` the answer is what is there, every time.
#[test]
fn what_is_there_is_handed_out_without_waiting() {
    let folder = folder();
    let server = started(folder.path());
    for round in 0..200 {
        server.accepted(&message("roman", "tim", &round.to_string()));
        let taken = server.inbox("tim", "");
        assert_eq!(progress(&taken), [round.to_string()]);
        assert_eq!(server.settle("tim", id_of(&taken[0]), "ack").status, 200);
    }
}

/// A wait may end in the very moment a message comes; the message must not fall between.
#[test]
fn a_wait_that_just_ends_loses_nothing() {
    let folder = folder();
    let server = started(folder.path());
    const MESSAGES: usize = 300;
    std::thread::scope(|scope| {
        let client = server.client();
        scope.spawn(move || {
            for n in 0..MESSAGES {
                client.accepted(&message("roman", "tim", &n.to_string()));
            }
        });
        let mut seen = Vec::new();
        for _ in 0..100_000 {
            let taken = server.inbox("tim", "wait=1ms&limit=3");
            seen.extend(progress(&taken).into_iter().map(str::to_owned));
            if seen.len() >= MESSAGES {
                break;
            }
        }
        let expected: Vec<_> = (0..MESSAGES).map(|n| n.to_string()).collect();
        assert_eq!(seen, expected);
    });
}

#[test]
fn who_waits_gets_the_message_when_it_comes() {
    let folder = folder();
    let server = started(folder.path());
    assert!(server.inbox("tim", "wait=10ms").is_empty());
    std::thread::scope(|scope| {
        let client = server.client();
        let waiting = scope.spawn(move || client.inbox("tim", "wait=30s"));
        server.accepted(&message("roman", "tim", "there you are"));
        assert_eq!(progress(&waiting.join().unwrap()), ["there you are"]);
    });
}

#[test]
fn an_acknowledged_message_is_done() {
    let folder = folder();
    let server = started(folder.path());
    let sent = message("roman", "tim", "do it");
    is_problem(&server.settle("tim", id_of(&sent), "ack"), 404, "not_taken");
    let receipt = server.accepted(&sent);
    is_problem(&server.settle("tim", id_of(&sent), "ack"), 404, "not_taken");
    assert_eq!(server.inbox("tim", "").len(), 1);
    is_problem(&server.settle("ann", id_of(&sent), "ack"), 404, "not_taken");
    let answer = server.settle("tim", id_of(&sent), "ack");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.body, json!({"messageId": sent["messageId"], "event": "acknowledged"}));
    is_problem(&server.settle("tim", id_of(&sent), "ack"), 404, "not_taken");
    is_problem(&server.settle("tim", id_of(&sent), "nack"), 404, "not_taken");
    assert!(server.inbox("tim", "").is_empty());
    assert_eq!(events_of(&server, &receipt), ["delivered", "acknowledged"]);
}

/// The events on the record of a message.
fn events_of(server: &Server, receipt: &Value) -> Vec<String> {
    let log = server.whole_log(100);
    let record = log.iter().find(|record| record["seq"] == receipt["seq"]).unwrap();
    let deliveries = record["deliveries"].as_array().unwrap().iter();
    deliveries.map(|event| event["event"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn nacked_message_is_redelivered_after_a_backoff() {
    let folder = folder();
    let server = with_tim(folder.path(), "[delivery]\nfirst_pause_ms = 20\n");
    let receipt = server.accepted(&message("roman", "tim", "1"));
    server.accepted(&message("roman", "tim", "2"));
    let taken = server.inbox("tim", "limit=1");
    let path = format!("/bus/agents/tim/inbox/{}/nack", id_of(&taken[0]));
    is_problem(&server.post(&path, b"because"), 400, "bad_request");
    let answer = server.post(&path, br#"{"reason": "no time"}"#);
    assert_eq!((answer.status, &answer.body["event"]), (200, &json!("attempt_failed")));
    let again = server.inbox("tim", "wait=30s");
    assert_eq!(progress(&again), ["1", "2"]);
    assert_eq!(again[0]["attempt"], 2);
    assert_eq!(again[1]["attempt"], 1);
    assert_eq!(server.settle("tim", id_of(&again[0]), "ack").status, 200);
    let events = ["delivered", "attempt_failed", "delivered", "acknowledged"];
    assert_eq!(events_of(&server, &receipt), events);
}

#[test]
fn while_a_message_pauses_later_ones_of_its_sender_wait_behind_it() {
    let folder = folder();
    let server = with_tim(folder.path(), "[delivery]\nfirst_pause_ms = 60000\n");
    for (from, text) in [("roman", "1"), ("roman", "2"), ("ann", "3")] {
        server.accepted(&message(from, "tim", text));
    }
    let taken = server.inbox("tim", "limit=1");
    assert_eq!(server.settle("tim", id_of(&taken[0]), "nack").status, 200);
    assert_eq!(progress(&server.inbox("tim", "")), ["3"]);
    assert!(server.inbox("tim", "").is_empty());
    // Who gave it back may think better of it.
    assert_eq!(server.settle("tim", id_of(&taken[0]), "ack").status, 200);
    assert_eq!(progress(&server.inbox("tim", "wait=30s")), ["2"]);
}

#[test]
fn several_that_are_given_back_come_again_in_their_order() {
    let folder = folder();
    let config = "[delivery]\nfirst_pause_ms = 1\nlongest_pause_ms = 1\nattempts = 100\n";
    let server = with_tim(folder.path(), config);
    for text in ["1", "2", "3", "4"] {
        server.accepted(&message("roman", "tim", text));
    }
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
        let mut taken = Vec::new();
        for _ in 0..100 {
            taken.extend(server.inbox("tim", "wait=1s"));
            if taken.len() >= 4 {
                break;
            }
        }
        assert_eq!(progress(&taken), ["1", "2", "3", "4"]);
        for at in order {
            assert_eq!(server.settle("tim", id_of(&taken[at]), "nack").status, 200);
        }
    }
}

#[test]
fn a_lease_that_runs_out_is_a_failed_attempt() {
    let folder = folder();
    let server = with_tim(folder.path(), "[delivery]\nlease_seconds = 1\nfirst_pause_ms = 1\n");
    let receipt = server.accepted(&message("roman", "tim", "1"));
    assert_eq!(server.inbox("tim", "").len(), 1);
    let again = server.inbox("tim", "wait=30s");
    assert_eq!(again[0]["attempt"], 2);
    assert_eq!(server.settle("tim", id_of(&again[0]), "ack").status, 200);
    let events = ["delivered", "attempt_failed", "delivered", "acknowledged"];
    assert_eq!(events_of(&server, &receipt), events);
}

#[test]
fn after_five_failed_attempts_the_sender_gets_a_notice() {
    let folder = folder();
    let server = with_tim(folder.path(), "[delivery]\nfirst_pause_ms = 1\nlongest_pause_ms = 2\n");
    let sent = message("roman", "tim", "impossible");
    let receipt = server.accepted(&sent);
    for attempt in 1..=5 {
        let taken = server.inbox("tim", "wait=30s");
        assert_eq!(taken[0]["attempt"], attempt);
        let path = format!("/bus/agents/tim/inbox/{}/nack", id_of(&sent));
        assert_eq!(server.post(&path, br#"{"reason": "it is \u0000impossible"}"#).status, 200);
    }
    let notices = server.inbox("roman", "wait=30s");
    assert_eq!(notices.len(), 1);
    let notice = &notices[0]["message"];
    assert_eq!(notices[0]["sender"], "system");
    assert_eq!(notice["from"]["agentId"], "system");
    assert_eq!(notice["correlationId"], sent["correlationId"]);
    assert_eq!(notice["type"], "status_update");
    let text = notice["payload"]["progress"].as_str().unwrap();
    assert!(text.contains(id_of(&sent)) && text.contains("impossible"), "{text}");
    assert!(server.inbox("tim", "").is_empty());
    assert_eq!(events_of(&server, &receipt).last().map(String::as_str), Some("dead_letter"));
    // The dead letter stays one, and the notice is still owed, whatever happens.
    server.kill();
    let server = Server::start(folder.path());
    assert!(server.inbox("tim", "").is_empty());
    assert_eq!(id_of(&server.inbox("roman", "")[0]), id_of(&notices[0]));
    assert_eq!(server.send(&sent).body["outcome"], "duplicate");
}

#[test]
fn notice_fits_into_a_full_inbox() {
    let folder = folder();
    let server = with_tim(folder.path(), "[limits]\ninbox = 1\n[delivery]\nattempts = 1\n");
    let sent = message("roman", "tim", "impossible");
    server.accepted(&sent);
    server.accepted(&message("ann", "roman", "fills the inbox"));
    is_problem(&server.send(&message("ann", "roman", "more")), 503, "queue_full");
    assert_eq!(server.inbox("tim", "").len(), 1);
    assert_eq!(server.settle("tim", id_of(&sent), "nack").status, 200);
    let mut taken = server.inbox("roman", "wait=30s");
    if taken.len() < 2 {
        taken.extend(server.inbox("roman", "wait=30s"));
    }
    let senders: HashSet<_> = taken.iter().map(|delivery| delivery["sender"].as_str()).collect();
    assert_eq!(senders, HashSet::from([Some("ann"), Some("system")]));
}
