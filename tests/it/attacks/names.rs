//! Row 20: paths, patterns and subjects are refused as names, in every field.

use serde_json::{Value, json};

use crate::scenarios::{folder, listener, quick, start};
use crate::server::{Server, message};

const BAD: [&str; 16] = [
    "..",
    ".",
    "../tim",
    "tim/..",
    "a/b",
    "/etc/passwd",
    "*",
    "tim*",
    ">",
    "tim.>",
    "a b",
    " tim",
    "tim ",
    "tim\n",
    "-tim",
    "",
];

/// Every field that takes a name, and a message with a name there.
type Place = (&'static str, fn(&str) -> Value);

#[test]
fn bad_names_in_messages_are_invalid_and_leave_no_trace_on_disk() {
    let folder = folder();
    let server = Server::start(folder.path());
    assert!(server.inbox("tim", "").is_empty());
    let places: [Place; 3] = [
        ("/from/agentId", |name| {
            let mut sent = message("roman", "tim", "Hi");
            sent["from"]["agentId"] = json!(name);
            sent
        }),
        ("/to/agentId", |name| {
            let mut sent = message("roman", "tim", "Hi");
            sent["to"]["agentId"] = json!(name);
            sent
        }),
        ("/payload/relevantTo/0", |name| {
            let mut sent = message("roman", "tim", "Hi");
            sent["type"] = json!("knowledge_share");
            sent["payload"] = json!({
                "topic": "t", "discovery": "d", "relevantTo": [name], "source": "s",
                "actionable": false
            });
            sent
        }),
    ];
    for name in BAD {
        for (place, with) in places {
            let answer = server.send(&with(name));
            assert_eq!(answer.status, 422, "{name:?} at {place}: {answer:?}");
            let errors = answer.body["errors"].as_array().unwrap();
            let named = |error: &&Value| error["path"] == place && error["code"] == "bad_agent_id";
            assert!(errors.iter().any(|error| named(&error)), "{name:?}: {errors:?}");
        }
    }
    let known = server.get("/bus/agents").body;
    assert_eq!(known["agents"].as_array().unwrap().len(), 1, "{known}");
    only_the_usual_files(folder.path());
    server.accepted(&message("roman", "tim", "An honest word"));
}

#[test]
fn bad_names_in_paths_are_refused() {
    let folder = folder();
    let server = Server::start(folder.path());
    let bad = [
        "..",
        "%2e%2e",
        "%2E%2E%2Ftim",
        "a%2Fb",
        "..%2f..%2fetc",
        "*",
        "%2A",
        "%3E",
        "tim.%3E",
        "a%20b",
        "%20",
        "tim%0A",
        "tim%00",
        "-tim",
        "%ff",
    ];
    for name in bad {
        for answer in [
            server.get(&format!("/bus/agents/{name}/inbox")),
            server.post(&format!("/bus/agents/{name}/inbox/{}/ack", crate::server::new_id()), b""),
            server.post(&format!("/bus/agents/{name}/inbox/{}/nack", crate::server::new_id()), b""),
        ] {
            assert!((400..500).contains(&answer.status), "{name}: {answer:?}");
            assert_eq!(answer.content_type, "application/problem+json", "{name}: {answer:?}");
        }
    }
    // The id of a message is no path either.
    for id in ["..", "*", "%2e%2e%2f", "a%20b"] {
        let answer = server.post(&format!("/bus/agents/tim/inbox/{id}/ack"), b"");
        assert!((400..500).contains(&answer.status), "{id}: {answer:?}");
    }
    let known = server.get("/bus/agents").body;
    let names: Vec<_> = known["agents"].as_array().unwrap().iter().collect();
    assert!(names.iter().all(|agent| agent["agentId"] == "tim"), "{names:?}");
    only_the_usual_files(folder.path());
}

#[tokio::test]
async fn bad_name_cannot_join_and_drafts_to_one_are_refused() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (roman, _) = listener(&bus, "roman").await;
    for name in BAD {
        assert!(bus.connect(name).await.is_err(), "{name:?}");
        let refused = roman.send_task_request(name, crate::scenarios::small_task()).await;
        let violations = refused.unwrap_err().violations().to_vec();
        assert!(violations.iter().any(|v| v.path == "/to/agentId"), "{name:?}: {violations:?}");
    }
    assert_eq!(bus.agents().await.len(), 1);
    bus.stop().await;
}

fn only_the_usual_files(folder: &std::path::Path) {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["a2a-log", "a2a.addr", "data", "stderr.txt"]);
}
