//! Rows 8 and 9: a fan-out stays in its bounds, and reveals nothing to its sender about agents that
//! are none of its business.

use a2a_protocol::Outcome;
use openclaw_a2a::{AccessRules, Announcement, BusSettings, Knowledge, Profile, Rule, Scope};

use crate::scenarios::*;
use crate::server::{Server, message};

#[tokio::test]
async fn c_suite_broadcast_from_outside_is_forbidden_and_names_the_rule() {
    let folder = folder();
    let bus = start(&folder, BusSettings { agents: team(), ..quick() });
    let (roman, _) = listener(&bus, "roman").await;
    let (_xavier, mut xavier_inbox) = listener(&bus, "xavier").await;
    let news = || Announcement::new(Scope::CSuite, "budget", "More of it, please");
    let refused = roman.broadcast(news()).await.unwrap_err();
    assert_eq!(refused.outcome(), Some(Outcome::Forbidden));
    assert!(refused.to_string().contains("`c-suite-scope`"), "{refused}");
    // One recipient more by name is no way around it.
    let refused = roman.broadcast(news().also_to("xavier")).await.unwrap_err();
    assert_eq!(refused.outcome(), Some(Outcome::Forbidden));
    next_is(&mut xavier_inbox, &word(&roman, "xavier").await).await;

    // A member may, and so may roman once he is one.
    let (amadeus, _) = listener(&bus, "amadeus").await;
    next_is(&mut xavier_inbox, &amadeus.broadcast(news()).await.unwrap()).await;
    bus.register(id("roman"), Profile { c_suite: true, ..Profile::default() }).await.unwrap();
    next_is(&mut xavier_inbox, &roman.broadcast(news()).await.unwrap()).await;
    bus.stop().await;
}

#[test]
fn a_broadcast_outside_ones_scope_is_403_over_http() {
    let folder = folder();
    let config = "[[agents]]\nid = \"roman\"\n[[agents]]\nid = \"xavier\"\nc_suite = true\n";
    let server = Server::with_config(folder.path(), config);
    let mut sent = message("roman", "xavier", "");
    sent.as_object_mut().unwrap().remove("to");
    sent["type"] = "broadcast".into();
    sent["payload"] = serde_json::json!({
        "scope": "c-suite", "topic": "budget", "message": "More", "urgency": "fyi"
    });
    let answer = server.send(&sent);
    assert_eq!((answer.status, answer.content_type.as_str()), (403, "application/problem+json"));
    assert_eq!(answer.body["code"], "forbidden");
    assert!(answer.body["detail"].as_str().unwrap().contains("c-suite-scope"), "{answer:?}");
    assert!(server.inbox("xavier", "").is_empty());
}

#[tokio::test]
async fn more_recipients_than_allowed_are_forbidden_and_none_gets_it() {
    let folder = folder();
    let bus = start(&folder, BusSettings { agents: team(), max_recipients: 4, ..quick() });
    let (roman, _) = listener(&bus, "roman").await;
    let (_tim, mut tim_inbox) = listener(&bus, "tim").await;
    let org = roman.broadcast(Announcement::new(Scope::Org, "t", "To all")).await.unwrap_err();
    assert_eq!(org.outcome(), Some(Outcome::Forbidden));
    assert!(org.to_string().contains("limits.max_recipients"), "{org}");
    let five = ["tim", "tony", "sandy", "claire", "barry"];
    let news = || Knowledge::new("sled flush", "It survives a kill", "review");
    let named = roman.share_knowledge(news().relevant_to(five)).await.unwrap_err();
    assert_eq!(named.outcome(), Some(Outcome::Forbidden));
    let four = roman.share_knowledge(news().relevant_to(five.into_iter().take(4))).await;
    let four = four.unwrap();
    assert_eq!(four.recipients().len(), 4);
    next_is(&mut tim_inbox, &four).await;
    bus.stop().await;
}

#[tokio::test]
async fn ten_thousand_recipients_are_one_record_with_an_outcome_each() {
    let folder = folder();
    let mut agents: Vec<_> =
        (0..10_000).map(|n| (id(&format!("agent-{n}")), Profile::default())).collect();
    agents.extend(team());
    let settings = BusSettings { agents, max_recipients: 20_000, ..quick() };
    let bus = start(&folder, settings);
    let (_last, mut incoming) = listener(&bus, "agent-9999").await;
    let (roman, _) = listener(&bus, "roman").await;
    let sent = roman.broadcast(Announcement::new(Scope::Org, "t", "To all")).await.unwrap();
    assert_eq!(sent.recipients().len(), 10_008);
    let there = |outcome| sent.recipients().iter().filter(|r| r.outcome == outcome).count();
    assert_eq!((there(Outcome::Delivered), there(Outcome::Queued)), (1, 10_007));
    assert!(sent.recipients().iter().all(|r| r.agent_id != id("roman")));
    next_is(&mut incoming, &sent).await;
    let record = only_record(&bus, sent.message_id());
    assert_eq!(record["recipients"].as_array().unwrap().len(), 10_008);
    bus.stop().await;
}

/// Jerry may not write to the board.
fn guarded() -> BusSettings {
    let rule = Rule {
        name: "board-is-busy".into(),
        allow: false,
        from: vec!["squad:audit".parse().unwrap()],
        to: vec!["squad:board".parse().unwrap()],
        kinds: Vec::new(),
        scopes: Vec::new(),
    };
    BusSettings { agents: team(), access: AccessRules::new(vec![rule]).unwrap(), ..quick() }
}

#[tokio::test]
async fn unknown_name_and_hidden_name_look_the_same() {
    let folder = folder();
    let bus = start(&folder, guarded());
    let (jerry, _) = listener(&bus, "jerry").await;
    let (_tim, mut tim_inbox) = listener(&bus, "tim").await;
    let (_xavier, mut xavier_inbox) = listener(&bus, "xavier").await;
    let news = || Knowledge::new("audit", "Lines are chained", "review");
    let sent = jerry.share_knowledge(news().relevant_to(["tim", "xavier", "nobody"])).await;
    let sent = sent.unwrap();
    assert_eq!(
        outcomes(sent.recipients()),
        [
            ("nobody", Outcome::UnknownRecipient),
            ("tim", Outcome::Delivered),
            ("xavier", Outcome::UnknownRecipient)
        ]
    );
    next_is(&mut tim_inbox, &sent).await;
    let one = async |name: &str| {
        let refused = jerry.share_knowledge(news().relevant_to([name])).await.unwrap_err();
        let receipt = refused.receipt().unwrap();
        let words: Vec<_> = receipt.recipients.iter().map(|r| r.outcome).collect();
        (receipt.outcome, words, receipt.reason.clone().unwrap().replace(name, "-"))
    };
    assert_eq!(one("xavier").await, one("nobody").await, "not a word more about either");
    next_is(&mut xavier_inbox, &word_from_tony(&bus).await).await;
    bus.stop().await;
}

async fn word_from_tony(bus: &openclaw_a2a::Bus) -> openclaw_a2a::Sent {
    word(&bus.connect("tony").await.unwrap(), "xavier").await
}

#[tokio::test]
async fn a_suggestion_never_names_an_agent_the_sender_may_not_reach() {
    let folder = folder();
    let bus = start(&folder, guarded());
    let (jerry, _) = listener(&bus, "jerry").await;
    let (roman, _) = listener(&bus, "roman").await;
    let answered = async |by: &openclaw_a2a::Agent, to: &str| {
        let refused = by.send_task_request(to, small_task()).await.unwrap_err();
        assert_eq!(refused.outcome(), Some(Outcome::UnknownRecipient));
        refused.to_string()
    };
    let (to_roman, to_jerry) =
        (answered(&roman, "xavierr").await, answered(&jerry, "xavierr").await);
    assert!(to_roman.contains("did you mean `xavier`?"), "{to_roman}");
    assert!(!to_jerry.contains("did you mean"), "{to_jerry}");
    let near = answered(&jerry, "timm").await;
    assert!(near.contains("did you mean `tim`?"), "those he may reach are suggested: {near}");
    bus.stop().await;
}
