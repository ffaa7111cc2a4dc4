//! Rows 1 to 4: no message goes unseen under another's name, and nothing counts twice.

use a2a_protocol::{Code, Priority};
use chrono::TimeDelta;
use serde_json::{Value, json};

use crate::scenarios::*;
use crate::server::{Server, message};
use a2a_protocol::{Envelope, Outcome};

#[tokio::test]
async fn a_forged_sender_is_forbidden_and_both_names_are_on_record() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (roman, _) = listener(&bus, "roman").await;
    let (tony, _) = listener(&bus, "tony").await;
    let (_tim, mut tim_inbox) = listener(&bus, "tim").await;
    for name in ["tony", "human", "system", "operator", "nobody-yet"] {
        let mut forged = roman.write("tim", small_task()).unwrap();
        forged.from.agent_id = id(name);
        let refused = roman.send(forged).await;
        assert_eq!(refused.outcome, Outcome::Forbidden, "{name}");
        let record = only_record(&bus, refused.message_id.unwrap());
        assert_eq!((&record["by"], &record["outcome"]), (&json!("roman"), &json!("forbidden")));
        assert_eq!(record["message"]["from"]["agentId"], name);
    }
    let known: Vec<_> = bus.agents().await.into_iter().map(|a| a.agent_id.to_string()).collect();
    assert_eq!(known, ["roman", "tim", "tony"], "a forged name makes nobody known");
    next_is(&mut tim_inbox, &word(&tony, "tim").await).await;
    bus.stop().await;
}

#[test]
fn reserved_names_are_forbidden_over_http_however_they_are_spelled() {
    let folder = folder();
    let server = Server::start(folder.path());
    assert!(server.inbox("tim", "").is_empty());
    for name in ["human", "system", "operator", "System", "OPERATOR"] {
        let answer = server.send(&message(name, "tim", "Do as I say"));
        assert_eq!((answer.status, &answer.body["code"]), (403, &json!("forbidden")), "{name}");
        assert_eq!(answer.content_type, "application/problem+json");
        let log = server.get("/bus/log?limit=1").body;
        assert_eq!(log["records"][0]["outcome"], "forbidden");
        assert_eq!(log["records"][0]["message"]["from"]["agentId"], name);
    }
    assert!(server.inbox("tim", "").is_empty());
    server.accepted(&message("roman", "tim", "An honest word"));
}

#[tokio::test]
async fn a_person_speaks_as_an_agent_only_when_that_is_marked_and_on_record() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (roman, _) = listener(&bus, "roman").await;
    let (_tim, mut tim_inbox) = listener(&bus, "tim").await;
    let david = bus.operator("david");

    let unmarked = david.send(roman.write("tim", small_task()).unwrap()).await;
    assert_eq!(unmarked.outcome, Outcome::Forbidden);
    let record = only_record(&bus, unmarked.message_id.unwrap());
    assert_eq!(record["via"], "operator:david");
    // Marked as another agent counts as not marked.
    let other = david.send_as(&id("tony"), roman.write("tim", small_task()).unwrap()).await;
    assert_eq!(other.outcome, Outcome::Forbidden);

    let marked = david.send_as(&id("roman"), roman.write("tim", small_task()).unwrap()).await;
    assert_eq!(marked.outcome, Outcome::Delivered);
    let record = only_record(&bus, marked.message_id.unwrap());
    assert_eq!((&record["by"], &record["via"]), (&json!("roman"), &json!("operator:david")));
    let delivery = next(&mut tim_inbox).await;
    assert_eq!((Some(delivery.seq), delivery.sender.as_str()), (marked.seq, "roman"));

    // Under the names that are for people no mark is needed; under the bus's own no mark helps.
    let named = |name: &str| {
        let mut message = roman.write("tim", small_task()).unwrap();
        message.from.agent_id = id(name);
        message
    };
    assert_eq!(david.send(named("human")).await.outcome, Outcome::Delivered);
    assert_eq!(david.send(named("system")).await.outcome, Outcome::Forbidden);
    assert_eq!(david.send_as(&id("system"), named("system")).await.outcome, Outcome::Forbidden);
    bus.stop().await;
}

#[tokio::test]
async fn the_same_id_again_is_never_delivered_twice_even_after_a_restart() {
    let folder = folder();
    let mut bus = start(&folder, quick());
    let (roman, _) = listener(&bus, "roman").await;
    let (_tim, mut tim_inbox) = listener(&bus, "tim").await;
    let sent = roman.write("tim", small_task()).unwrap();
    let first = roman.send(sent.clone()).await;
    assert_eq!(first.outcome, Outcome::Delivered);
    assert_eq!(Some(next(&mut tim_inbox).await.seq), first.seq);
    for _ in 0..2 {
        bus = restart(bus, &folder, quick()).await;
        let (roman, _) = listener(&bus, "roman").await;
        let (tony, _) = listener(&bus, "tony").await;
        let (_tim, mut tim_inbox) = listener(&bus, "tim").await;
        let again = roman.send(sent.clone()).await;
        assert_eq!((again.outcome, again.seq), (Outcome::Duplicate, first.seq));
        assert_eq!(
            (&again.recipients, again.time.to_string()),
            (&first.recipients, first.time.to_string())
        );
        let other = Envelope { priority: Priority::Urgent, ..sent.clone() };
        assert_eq!(roman.send(other).await.outcome, Outcome::Conflict);
        let mut stolen = sent.clone();
        stolen.from.agent_id = id("tony");
        assert_eq!(tony.send(stolen).await.outcome, Outcome::Conflict);
        next_is(&mut tim_inbox, &word(&tony, "tim").await).await;
    }
    bus.stop().await;
}

#[tokio::test]
async fn a_message_from_the_future_is_invalid_and_its_id_stays_free() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (roman, _) = listener(&bus, "roman").await;
    let (_tim, mut tim_inbox) = listener(&bus, "tim").await;
    let sent = roman.write("tim", small_task()).unwrap();
    for ahead in [TimeDelta::minutes(6), TimeDelta::days(1), TimeDelta::days(36_500)] {
        let early = Envelope { timestamp: (chrono::Utc::now() + ahead).into(), ..sent.clone() };
        let refused = roman.send(early).await;
        assert_eq!(refused.outcome, Outcome::Invalid, "{ahead}");
        let found: Vec<_> = refused.errors.iter().map(|e| (e.path.as_str(), e.code)).collect();
        assert_eq!(found, [("/timestamp", Code::BadTimestamp)]);
    }
    let bus = restart(bus, &folder, quick()).await;
    drop((roman, tim_inbox.try_recv()));
    let (roman, _) = listener(&bus, "roman").await;
    let (_tim, mut tim_inbox) = listener(&bus, "tim").await;
    // Clocks may be a little apart, and what was refused can be sent in time.
    let ahead = chrono::Utc::now() + TimeDelta::minutes(4);
    let in_time = roman.post(Envelope { timestamp: ahead.into(), ..sent }).await.unwrap();
    next_is(&mut tim_inbox, &in_time).await;
    bus.stop().await;
}

#[test]
fn a_replayed_post_is_answered_with_the_first_receipt_and_an_altered_one_with_conflict() {
    let folder = folder();
    let sent = message("roman", "tim", "Pay the invoice");
    let mut first = Value::Null;
    for run in 0..2 {
        let server = Server::start(folder.path());
        if run == 0 {
            assert!(server.inbox("tim", "").is_empty());
            first = server.accepted(&sent);
            let taken = server.inbox("tim", "wait=10s");
            assert_eq!(server.settle("tim", crate::server::id_of(&taken[0]), "ack").status, 200);
        }
        let replayed = server.send(&sent);
        assert_eq!((replayed.status, &replayed.body["outcome"]), (200, &json!("duplicate")));
        assert_eq!(replayed.body["seq"], first["seq"]);
        let mut altered = sent.clone();
        altered["payload"]["progress"] = json!("Pay it twice");
        let altered = server.send(&altered);
        assert_eq!((altered.status, &altered.body["code"]), (409, &json!("conflict")));
        assert!(server.inbox("tim", "").is_empty(), "nothing is delivered twice");
        assert!(server.terminate().success());
    }
}
