//! What people see and stop over HTTP, and who may do what with a token.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::server::{Answer, Client, Server, id_of, message, new_id};

#[track_caller]
fn is_problem(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, &answer.body["code"]), (status, &json!(code)), "{answer:?}");
    assert_eq!(answer.content_type, "application/problem+json", "{answer:?}");
}

fn task(from: &str, to: &str) -> Value {
    let mut sent = message(from, to, "");
    sent["type"] = json!("task_request");
    sent["payload"] = json!({
        "taskId": new_id(), "title": "Count", "description": "How many kinds are there?",
        "taskType": "research", "complexity": "trivial"
    });
    sent
}

fn started(folder: &std::path::Path) -> Server {
    let server = Server::with_config(folder, "");
    for agent in ["roman", "tim"] {
        assert!(server.inbox(agent, "").is_empty());
    }
    server
}

#[test]
fn a_profile_is_given_checked_kept_and_reaches_scopes() {
    let folder = tempfile::tempdir().unwrap();
    let server = started(folder.path());
    let core = json!({"squad": "core", "tier": "T3-Staff", "capabilities": ["review"]});
    let answer = server.put("/bus/agents/tim", &core);
    assert_eq!((answer.status, &answer.body["agentId"]), (200, &json!("tim")), "{answer:?}");
    server.put("/bus/agents/roman", &json!({"squad": "core"}));
    server.put("/bus/agents/tony", &json!({"squad": "web"}));
    for (body, status, code) in [
        (json!({"squadd": "core"}), 400, "bad_request"),
        (json!({"squad": " "}), 422, "invalid"),
        (json!({"squad": "x".repeat(200)}), 422, "invalid"),
        (json!([]), 400, "bad_request"),
    ] {
        is_problem(&server.put("/bus/agents/tim", &body), status, code);
    }
    is_problem(&server.put("/bus/agents/system", &core), 422, "invalid");
    is_problem(&server.put("/bus/agents/a%20b", &core), 400, "bad_agent_id");
    assert_eq!(server.terminate().code(), Some(0));

    let server = Server::start(folder.path());
    let tim = server.get("/bus/agents/tim").body;
    assert_eq!((&tim["squad"], &tim["capabilities"][0]), (&json!("core"), &json!("review")));
    assert_eq!(tim["presence"], "offline");
    server.inbox("tim", "");
    let tim = server.get("/bus/agents/tim").body;
    assert_eq!(tim["presence"], "online");
    assert!(tim["lastSeen"].is_string());
    is_problem(&server.get("/bus/agents/nobody"), 404, "unknown_recipient");

    let mut sent = message("roman", "tim", "");
    sent.as_object_mut().unwrap().remove("to");
    sent["type"] = json!("broadcast");
    sent["payload"] =
        json!({"scope": "squad", "topic": "lunch", "message": "Now.", "urgency": "fyi"});
    let receipt = server.accepted(&sent);
    assert_eq!(receipt["recipients"], json!([{"agentId": "tim", "outcome": "queued"}]));
}

#[test]
fn why_and_why_not_is_answered_with_the_rule() {
    let folder = tempfile::tempdir().unwrap();
    let config = "[directory]\nopen = true\n[[agents]]\nid = \"roman\"\n[[agents]]\nid = \"xavier\"\nc_suite = true\n\
        [[access]]\nname = \"no-tasks-for-chiefs\"\nallow = false\nto = \"c-suite\"\nkinds = [\"task_request\"]\n";
    let server = Server::with_config(folder.path(), config);
    let ask = |query: &str| server.get(&format!("/bus/access?{query}"));
    let no = ask("from=roman&to=xavier&type=task_request").body;
    assert_eq!((&no["allowed"], &no["rule"]), (&json!(false), &json!("no-tasks-for-chiefs")));
    assert!(no["sentence"].as_str().unwrap().contains("xavier"), "{no}");
    let yes = ask("from=roman&to=xavier&type=status_update").body;
    assert_eq!((&yes["allowed"], &yes["rule"]), (&json!(true), &json!("default")));
    let scope = ask("from=roman&to=xavier&type=broadcast&scope=c-suite").body;
    assert_eq!((&scope["allowed"], &scope["rule"]), (&json!(false), &json!("c-suite-scope")));
    is_problem(&ask("from=roman&to=nobody&type=broadcast"), 404, "unknown_recipient");
    is_problem(&ask("from=roman&to=xavier&type=delivery"), 400, "bad_request");
    let refused = server.send(&task("roman", "xavier"));
    is_problem(&refused, 403, "forbidden");
    assert!(refused.body["detail"].as_str().unwrap().contains("no-tasks-for-chiefs"));
}

#[test]
fn tasks_are_listed_and_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let server = started(folder.path());
    let (first, second) = (task("roman", "tim"), task("roman", "tim"));
    server.accepted(&first);
    server.accepted(&second);
    let id = |task: &Value| task["payload"]["taskId"].as_str().unwrap().to_owned();
    let listed = server.get("/bus/tasks?agent=tim").body;
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 2);
    let one = server.get(&format!("/bus/tasks/{}", id(&first))).body;
    assert_eq!((&one["state"], &one["assignee"]), (&json!("requested"), &json!("tim")));
    is_problem(&server.get(&format!("/bus/tasks/{}", new_id())), 404, "unknown_task");
    is_problem(&server.get("/bus/tasks/x"), 400, "bad_uuid");
    let cancel =
        |task: &Value, body: &[u8]| server.post(&format!("/bus/tasks/{}/cancel", id(task)), body);
    is_problem(&cancel(&first, b"{"), 400, "bad_request");
    let done = cancel(&first, br#"{"reason": "not needed"}"#);
    assert_eq!((done.status, &done.body["state"]), (200, &json!("cancelled")), "{done:?}");
    is_problem(&cancel(&first, b""), 409, "illegal_transition");
    // It was not delivered, so it never is.
    let taken = server.inbox("tim", "");
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0]["message"], second);
    server.kill();

    let server = Server::start(folder.path());
    let one = server.get(&format!("/bus/tasks/{}", id(&first))).body;
    assert_eq!((&one["state"], &one["reason"]), (&json!("cancelled"), &json!("not needed")));
    assert_eq!(server.inbox("tim", "").len(), 1);
}

#[test]
fn task_cancelled_in_flight_is_not_redelivered() {
    let folder = tempfile::tempdir().unwrap();
    let server = started(folder.path());
    let sent = task("roman", "tim");
    server.accepted(&sent);
    assert_eq!(server.inbox("tim", "").len(), 1);
    let path = format!("/bus/tasks/{}/cancel", sent["payload"]["taskId"].as_str().unwrap());
    assert_eq!(server.post(&path, b"").status, 200);
    assert_eq!(server.settle("tim", id_of(&sent), "nack").status, 200);
    // What is to be tried again counts as pending, too.
    assert_eq!(server.get("/bus/agents/tim").body["pending"], 1, "the notice alone");
    let taken = server.inbox("tim", "wait=10s");
    assert_eq!(taken[0]["sender"], "system", "the notice, and not the task again");
    assert_eq!(server.get("/bus/dead-letters").body["deadLetters"], json!([]));
}

#[test]
fn a_message_repeated_without_end_does_not_fill_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let server = started(folder.path());
    let sent = message("roman", "tim", "once");
    let first = server.accepted(&sent);
    for _ in 0..1_200 {
        let again = server.send(&sent);
        assert_eq!((again.status, &again.body["seq"]), (200, &first["seq"]), "{again:?}");
    }
    let repeats = server.whole_log(1_000);
    let repeats = repeats.iter().filter(|record| record["outcome"] == "duplicate").count();
    assert!((1_000..1_150).contains(&repeats), "{repeats}");
}

#[test]
fn what_is_stopped_is_seen_and_let_go_and_stopped_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let server = started(folder.path());
    let talk = new_id();
    let say = |server: &Server, i: usize| {
        let (from, to) = if i.is_multiple_of(2) { ("roman", "tim") } else { ("tim", "roman") };
        let mut sent = message(from, to, &format!("and {i}"));
        sent["correlationId"] = json!(talk);
        server.send(&sent)
    };
    let refused = (0..9).map(|i| say(&server, i)).find(|answer| answer.status != 202).unwrap();
    is_problem(&refused, 409, "circuit_open");
    assert_eq!(refused.body["scope"], "correlation");
    assert!(refused.body["since"].is_string() && refused.body["retryAfterMs"].is_u64());
    let listed = server.get("/bus/circuits").body;
    let circuit = &listed["circuits"][0];
    assert_eq!((&circuit["reason"], &circuit["state"]), (&json!("loop"), &json!("open")));
    assert_eq!(circuit["participants"], json!(["roman", "tim"]));
    server.kill();

    let server = Server::start(folder.path());
    is_problem(&say(&server, 0), 409, "circuit_open");
    let key = format!("/bus/circuits/correlation:{talk}");
    assert_eq!(server.post(&format!("{key}/reset"), b"").status, 200);
    is_problem(&server.post(&format!("{key}/reset"), b""), 404, "not_found");
    assert_eq!(say(&server, 0).status, 202);
    let tripped = server.post(&format!("{key}/trip"), br#"{"reason": "enough"}"#);
    assert_eq!((tripped.status, &tripped.body["reason"]), (200, &json!("manual")), "{tripped:?}");
    let refused = say(&server, 0);
    is_problem(&refused, 409, "circuit_open");
    assert!(refused.body["detail"].as_str().unwrap().contains("enough"));
    is_problem(&server.post("/bus/circuits/nonsense/trip", b""), 400, "bad_request");
}

#[test]
fn dead_letters_are_listed_retried_and_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), "[delivery]\nattempts = 1\n");
    server.inbox("tim", "");
    let sent = task("roman", "tim");
    let receipt = server.accepted(&sent);
    let give_up = || {
        let taken = server.inbox("tim", "wait=10s");
        assert_eq!(server.settle("tim", id_of(&taken[0]), "nack").status, 200);
    };
    give_up();
    let listed = server.get("/bus/dead-letters").body;
    assert_eq!(listed["deadLetters"][0]["seq"], receipt["seq"]);
    let path = format!("/bus/dead-letters/{}/tim", receipt["seq"]);
    assert_eq!(server.post(&format!("{path}/retry"), b"").body["event"], "returned");
    give_up();
    assert_eq!(server.post(&format!("{path}/drop"), b"").body["event"], "dropped");
    is_problem(&server.post(&format!("{path}/drop"), b""), 404, "not_found");
    is_problem(&server.post(&format!("{path}/burn"), b""), 404, "not_found");
}

// Tokens

pub(crate) fn token_config(who: &[(&str, &str)]) -> String {
    let entry = |(who, token): &(&str, &str)| {
        let hash: String =
            Sha256::digest(token.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        format!("[[auth.tokens]]\n{who}\nsha256 = \"{hash}\"\n")
    };
    who.iter().map(entry).collect()
}

fn with_tokens(folder: &std::path::Path) -> (Server, [Client; 3]) {
    let config = token_config(&[
        ("agent = \"roman\"", "roman-secret"),
        ("agent = \"tim\"", "tim-secret"),
        ("operator = \"david\"", "david-secret"),
    ]);
    let server = Server::with_config(folder, &config);
    let clients = ["roman-secret", "tim-secret", "david-secret"]
        .map(|token| server.client().with("authorization", format!("Bearer {token}")));
    assert!(clients[1].inbox("tim", "").is_empty());
    (server, clients)
}

#[test]
fn without_a_token_nothing_is_seen_and_nothing_sent() {
    let folder = tempfile::tempdir().unwrap();
    let (server, [roman, ..]) = with_tokens(folder.path());
    let wrong = server.client().with("authorization", "Bearer roman-secre");
    for unknown in [&server.client(), &wrong, &server.client().with("authorization", "Basic x")] {
        is_problem(&unknown.send(&message("roman", "tim", "hi")), 401, "unauthorized");
        for path in
            ["/bus/agents", "/bus/log", "/bus/tasks", "/bus/circuits", "/bus/agents/tim/inbox"]
        {
            is_problem(&unknown.get(path), 401, "unauthorized");
        }
        assert_eq!(unknown.get("/healthz").status, 200);
    }
    roman.accepted(&message("roman", "tim", "hi"));
}

#[test]
fn an_agents_token_is_for_that_agent_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, [roman, tim, david]) = with_tokens(folder.path());
    let forged = message("tim", "roman", "not me");
    is_problem(&roman.send(&forged), 403, "forbidden");
    let record = &david.whole_log(10)[0];
    assert_eq!((&record["by"], &record["message"]), (&json!("roman"), &forged), "both identities");
    is_problem(&roman.get("/bus/agents/tim/inbox"), 403, "forbidden");
    is_problem(&roman.settle("tim", &new_id(), "ack"), 403, "forbidden");
    for path in ["/bus/log", "/bus/dead-letters"] {
        is_problem(&roman.get(path), 403, "forbidden");
    }
    is_problem(&roman.put("/bus/agents/roman", &json!({"cSuite": true})), 403, "forbidden");
    is_problem(
        &roman.post(&format!("/bus/circuits/correlation:{}/trip", new_id()), b""),
        403,
        "forbidden",
    );
    let sent = task("roman", "tim");
    roman.accepted(&sent);
    let path = format!("/bus/tasks/{}", sent["payload"]["taskId"].as_str().unwrap());
    assert_eq!(tim.get(&path).status, 200);
    is_problem(&tim.post(&format!("{path}/cancel"), b""), 403, "not_assignee");
    assert_eq!(roman.post(&format!("{path}/cancel"), b"").status, 200);
}

#[test]
fn operator_sends_as_an_agent_only_when_marked() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, [roman, tim, david]) = with_tokens(folder.path());
    roman.inbox("roman", "");
    is_problem(&david.send(&message("roman", "tim", "unmarked")), 403, "forbidden");
    let other = david.with("a2a-on-behalf-of", "tim");
    is_problem(&other.send(&message("roman", "tim", "for another")), 403, "forbidden");
    let marked = david.with("a2a-on-behalf-of", "roman");
    let sent = message("roman", "tim", "marked");
    marked.accepted(&sent);
    let record = &david.whole_log(10)[0];
    assert_eq!((&record["by"], &record["via"]), (&json!("roman"), &json!("operator:david")));
    assert_eq!(tim.inbox("tim", "wait=10s")[0]["message"], sent);
    // In its own right, under the name kept for people.
    david.accepted(&message("operator", "tim", "hello"));
    is_problem(&roman.send(&message("operator", "tim", "hello")), 403, "forbidden");
    is_problem(&david.with("a2a-on-behalf-of", "a b").get("/bus/agents"), 400, "bad_agent_id");
}
