//! Row 10, over HTTP: agents that only ever send and never look into their inbox. The bus sees
//! the circle all the same, and only the circle is stopped.

use serde_json::{Value, json};

use crate::scenarios::folder;
use crate::server::{Answer, Server, message};

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

/// Messages of one conversation, each in other words.
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
fn two_who_answer_each_other_are_stopped_after_three_rounds() {
    let folder = folder();
    let server = server(&folder);
    let mut talk = one_talk();
    assert_eq!(go_round(&server, &["roman", "tim"], &mut talk), 6);
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
fn a_ring_of_three_is_stopped_after_three_rounds() {
    let folder = folder();
    let server = server(&folder);
    assert_eq!(go_round(&server, &["roman", "tim", "tony"], one_talk()), 9);
    others_continue(&server, &["roman", "tim", "tony"]);
}

#[test]
fn an_agent_that_talks_to_itself_is_stopped() {
    let folder = folder();
    let server = server(&folder);
    assert!(go_round(&server, &["roman"], one_talk()) <= 3);
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
