//! What callers with a token see of an agent that others do not.

use serde_json::{Value, json};

const CARD: &str = "/.well-known/agent-card.json";

use crate::a2a_caller::{Caller, FAR, FORMS};
use crate::a2a_worker::Worker;
use crate::oversight::token_config;
use crate::server::{Server, new_id};

const AGENTS: &str = "[[agents]]\nid = \"tim\"\nrole = \"Staff Engineer\"\n\
    [[agents]]\nid = \"roman\"\nrole = \"Reviewer\"\n[[agents]]\nid = \"vera\"\n\
    [[access]]\nname = \"not-vera\"\nfrom = [\"acme\"]\nto = [\"vera\"]\nallow = false\n";

fn extension(card: &Value, uri: &str) -> Option<Value> {
    let all = card["capabilities"]["extensions"].as_array().unwrap();
    all.iter().find(|one| one["uri"] == uri).map(|one| one["params"].clone())
}

#[test]
fn extended_card_has_more_than_the_public_one_and_each_agent_has_its_own() {
    let tokens = token_config(&[("client = \"acme\"", "acme-1"), ("agent = \"tim\"", "tim-1")]);
    // The agent that answers for the host.
    for host in ["", "[a2a]\nagent = \"tim\"\n"] {
        let folder = tempfile::tempdir().unwrap();
        let config = format!("{host}{tokens}{AGENTS}{FAR}");
        let server = Server::with_config(folder.path(), &config);
        let _tim = Worker::new(server.client().bearing("tim-1"), "tim");
        let acme = server.client().bearing("acme-1");
        let public = server.get(CARD).body;
        for form in FORMS {
            let of_host = Caller::of_host(&acme, form).extended_card().unwrap();
            let of_tim = Caller::of(&acme, form, "tim").extended_card().unwrap();
            assert_eq!(of_host["name"], public["name"], "{form:?}");
            assert_ne!(of_host, public, "{form:?}");
            assert_eq!(of_tim["name"], "tim", "{form:?} {of_tim}");
            assert!(of_tim["description"].as_str().unwrap().contains("Staff Engineer"), "{of_tim}");
            for card in [&of_host, &of_tim] {
                let limits = extension(card, "urn:openclaw:a2a:limits:v1").unwrap();
                assert_eq!(limits["messagesPerMinute"], 1_000_000, "{limits}");
                assert_eq!(limits["bytesPerMinute"], 60_000_000, "{limits}");
                for skill in card["skills"].as_array().unwrap() {
                    assert!(
                        skill["inputModes"].as_array().is_some_and(|modes| !modes.is_empty()),
                        "{skill}"
                    );
                    assert!(
                        skill["outputModes"].as_array().is_some_and(|modes| !modes.is_empty()),
                        "{skill}"
                    );
                }
            }
            // Those that the caller may write to, and no others.
            let listed = extension(&of_host, "urn:openclaw:a2a:agents:v1").unwrap();
            let ids: Vec<_> =
                listed["agents"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
            assert!(ids.contains(&json!("roman")) && !ids.contains(&json!("vera")), "{listed}");
            let skills: Vec<_> =
                of_host["skills"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
            assert!(
                skills.contains(&json!("agent:roman")) && !skills.contains(&json!("agent:vera")),
                "{skills:?}"
            );
            assert!(extension(&of_tim, "urn:openclaw:a2a:agents:v1").is_none());
        }
        assert!(extension(&public, "urn:openclaw:a2a:limits:v1").is_none());
    }
}

#[test]
fn operator_deletes_an_ended_task_and_the_log_records_it() {
    let tokens = token_config(&[
        ("client = \"acme\"", "acme-1"),
        ("agent = \"tim\"", "tim-1"),
        ("operator = \"david\"", "david-1"),
    ]);
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with_config(folder.path(), &format!("{tokens}{FAR}"));
    let tim = Worker::new(server.client().bearing("tim-1"), "tim");
    let [acme, agent, david] =
        ["acme-1", "tim-1", "david-1"].map(|token| server.client().bearing(token));
    let caller = Caller::of(&acme, crate::a2a_caller::Form::Rpc10, "tim");
    let message = json!({"messageId": new_id(), "text": "work"});
    let task = caller.begin(message.clone()).unwrap();
    let id = crate::a2a_caller::id(&task);
    let path = format!("/bus/tasks/{id}/a2a");
    let open = david.call("DELETE", &path, &Value::Null);
    assert_eq!((open.status, &open.body["code"]), (409, &json!("illegal_transition")), "{open:?}");
    tim.complete(&tim.next(), "done");
    let limit = std::time::Instant::now() + crate::listener::SOON;
    while crate::a2a_caller::state(&caller.get(&id, &[]).unwrap()) != "completed" {
        assert!(std::time::Instant::now() < limit, "never completed");
    }
    for other in [&acme, &agent] {
        assert_eq!(other.call("DELETE", &path, &Value::Null).status, 403);
    }
    let deleted = david.call("DELETE", &path, &Value::Null);
    assert_eq!((deleted.status, &deleted.body["deleted"]), (200, &json!(true)), "{deleted:?}");
    assert_eq!(caller.get(&id, &[]).unwrap_err().code, -32001);
    assert_eq!(david.call("DELETE", &path, &Value::Null).status, 404);
    let log = std::fs::read_dir(folder.path().join("a2a-log")).unwrap();
    let log: String =
        log.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap_or_default()).collect();
    let line = log.lines().find(|line| line.contains("\"deleted\"")).expect("a record of it");
    assert!(line.contains(&id) && line.contains("operator:david"), "{line}");
    // Its message is free again.
    assert_ne!(crate::a2a_caller::id(&caller.begin(message).unwrap()), id);
}
