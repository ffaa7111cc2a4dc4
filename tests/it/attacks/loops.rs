//! Row 10, over HTTP: agents that only ever send and never look into their inbox. The bus sees
//! the circle all the same, and only the circle is stopped.

use serde_json::{Value, json};

use crate::a2a_caller::FAR;
use crate::scenarios::folder;
use crate::server::{Answer, Server, id_of, message};

const PEOPLE: [&str; 4] = ["roman", "tim", "tony", "sandy"];

fn server(folder: &tempfile::TempDir) -> Server {
    let agents = PEOPLE.map(|name| format!("[[agents]]\nid = \"{name}\"\n")).concat();
    Server::with_config(folder.path(), &agents)
}

/// Sends along these agents, round and round, until the bus refuses; how many it took.
fn go_round(server: &Server, ring: &[&str], mut next: impl FnMut(&str, &str) -> Value) -> usize {
    for sent in 0..60 {
        let (from, to) = (ring[sent % ring.len()], ring[(sent + 1) % ring.len()]);
        let message = next(from, to);
        let answer = server.send(&message);
        if answer.status == 202 {
            continue;
        }
        is_stopped(&answer);
        return sent;
    }
    panic!("nobody stopped {ring:?}");
}

#[track_caller]
fn is_stopped(answer: &Answer) {
    assert_eq!(answer.status, 409, "{answer:?}");
    assert_eq!(answer.content_type, "application/problem+json");
    let body = &answer.body;
    assert_eq!((&body["code"], &body["outcome"]), (&json!("circuit_open"), &json!("circuit_open")));
    let wait = body["retryAfterMs"].as_u64().unwrap();
    assert!((1..=30_000).contains(&wait), "{body}");
    assert_eq!(answer.retry_after, Some(wait.div_ceil(1_000).to_string()));
    let since = body["since"].as_str().unwrap();
    let since = chrono::DateTime::parse_from_rfc3339(since).unwrap();
    assert!(since <= chrono::Utc::now(), "{body}");
    let scope = body["scope"].as_str().unwrap();
    assert!(body["circuit"].as_str().unwrap().starts_with(scope), "{body}");
}

/// Messages of one conversation, which differ in a number.
fn one_talk() -> impl FnMut(&str, &str) -> Value {
    let (talk, mut number) = (crate::server::new_id(), 0);
    move |from, to| {
        number += 1;
        let mut sent = message(from, to, &format!("Remark {number}"));
        sent["correlationId"] = json!(talk);
        sent
    }
}

/// The others, and the same agents in other conversations, continue as if nothing had happened.
fn others_continue(server: &Server, ring: &[&str]) {
    for (i, from) in ring.iter().enumerate() {
        server.accepted(&message(from, ring[(i + 1) % ring.len()], &format!("Other words {i}")));
    }
    server.accepted(&message("sandy", ring[0], "And another sender"));
}

#[test]
fn two_who_answer_each_other_are_stopped_after_four_rounds() {
    let folder = folder();
    let server = server(&folder);
    let mut talk = one_talk();
    assert_eq!(go_round(&server, &["roman", "tim"], &mut talk), 8);
    let refused = server.send(&talk("roman", "tim"));
    is_stopped(&refused);
    assert_eq!(refused.body["scope"], "correlation");
    others_continue(&server, &["roman", "tim"]);
    // A restart is no way out.
    assert!(server.terminate().success());
    let server = Server::start(folder.path());
    is_stopped(&server.send(&talk("roman", "tim")));
    others_continue(&server, &["roman", "tim"]);
}

#[test]
fn a_ring_of_three_is_stopped_after_four_rounds() {
    let folder = folder();
    let server = server(&folder);
    assert_eq!(go_round(&server, &["roman", "tim", "tony"], one_talk()), 12);
    others_continue(&server, &["roman", "tim", "tony"]);
}

#[test]
fn an_agent_that_talks_to_itself_is_stopped() {
    let folder = folder();
    let server = server(&folder);
    assert!(go_round(&server, &["roman"], one_talk()) <= 4);
    others_continue(&server, &["tim", "roman"]);
    // A note to itself now and then is its own affair.
    server.accepted(&message("roman", "roman", "Remember the milk"));
}

#[test]
fn loops_that_mint_new_conversations_are_stopped_by_their_words() {
    for ring in [&["roman", "tim"][..], &["roman", "tim", "tony"], &["roman"]] {
        let folder = folder();
        let server = server(&folder);
        let taken = go_round(&server, ring, |from, to| message(from, to, "Are you done?"));
        assert!(taken <= 5 * ring.len(), "{ring:?}: {taken}");
        let log = server.get("/bus/log?limit=20").body;
        let refused = log["records"].as_array().unwrap().iter();
        assert_eq!(refused.filter(|record| record["outcome"] == "circuit_open").count(), 1);
        others_continue(&server, ring);
    }
}

/// A remark in words that no other one has.
fn remark(number: usize) -> String {
    let letter = |n: usize| char::from(b'a' + (n % 26) as u8);
    let word = |n: usize| (0..4).map(|i| letter(n / 26_usize.pow(i))).collect::<String>();
    (0..8).map(|i| word(number * 8 + i + 10_000)).collect::<Vec<_>>().join(" ")
}

fn wide_open(folder: &tempfile::TempDir) -> Server {
    let agents = PEOPLE.map(|name| format!("[[agents]]\nid = \"{name}\"\n")).concat();
    Server::with_config(folder.path(), &format!("{FAR}{agents}"))
}

/// How many of `count` messages were accepted before the first refusal.
fn passed(count: usize, mut send: impl FnMut(usize) -> Answer) -> usize {
    for number in 0..count {
        let answer = send(number);
        if answer.status != 202 {
            is_stopped(&answer);
            return number;
        }
    }
    count
}

#[test]
fn new_words_pass_for_sixty_turns_and_not_without_end() {
    for is_one_conversation in [true, false] {
        let folder = folder();
        let server = wide_open(&folder);
        let talk = crate::server::new_id();
        let passed = passed(300, |number| {
            let (from, to) = [("roman", "tim"), ("tim", "roman")][number % 2];
            let mut sent = message(from, to, &remark(number));
            if is_one_conversation {
                sent["correlationId"] = json!(talk);
            }
            server.send(&sent)
        });
        assert!((61..=250).contains(&passed), "one conversation: {is_one_conversation}: {passed}");
        server.accepted(&message("sandy", "roman", "And another sender"));
    }
}

/// Each answers the other in a new conversation, in new words, while it has the message in flight
/// and after a message of another agent was accepted for it.
#[test]
fn message_in_flight_is_the_cause_of_a_new_conversation() {
    let folder = folder();
    let server = wide_open(&folder);
    server.accepted(&message("tim", "roman", &remark(1_000)));
    let passed = passed(300, |number| {
        let (from, to) = [("roman", "tim"), ("tim", "roman")][number % 2];
        let taken = server.inbox(from, "limit=10");
        server.accepted(&message("sandy", from, &remark(2_000 + number)));
        let answer = server.send(&message(from, to, &remark(number)));
        for delivery in &taken {
            server.settle(from, id_of(&delivery["message"]), "ack");
        }
        answer
    });
    assert!((61..=250).contains(&passed), "{passed}");
}

#[test]
fn task_that_fails_and_is_requested_again_is_stopped() {
    let folder = folder();
    let server = wide_open(&folder);
    let task = crate::server::new_id();
    let about = |kind: &str, from: &str, to: &str, payload: Value| {
        let mut sent = message(from, to, "");
        sent["type"] = json!(kind);
        sent["payload"] = payload;
        sent
    };
    let passed = passed(100, |number| {
        let request = json!({"taskId": task, "title": "Deploy", "description": format!("Try {number}"),
            "taskType": "implementation", "complexity": "low"});
        let answer = server.send(&about("task_request", "roman", "tim", request));
        if answer.status == 202 {
            let failed = json!({"taskId": task, "action": "failed", "reason": "no space left"});
            server.accepted(&about("task_response", "tim", "roman", failed));
        }
        answer
    });
    assert!((3..=30).contains(&passed), "{passed} attempts");
}
