//! One namespace for agents, A2A clients and operators: a client never gets the messages of an
//! agent, whichever came first and however the names are spelled.

use std::path::Path;

use serde_json::{Value, json};

use crate::openclaw_a2a;
use crate::server::{Answer, Server, message, new_id, stderr};

const MESSAGES: usize = 20;

fn token(folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = openclaw_a2a();
    let output = command.env_remove("OPENCLAW_TOKEN").args(["token", "--state-dir"]).arg(folder);
    let output = output.args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Makes a token; itself.
fn create(folder: &Path, args: &[&str]) -> String {
    let (code, out, err) = token(folder, &[&["create"], args].concat());
    assert_eq!(code, Some(0), "{args:?}: {err}");
    out.trim().to_owned()
}

#[track_caller]
fn refused(folder: &Path, args: &[&str], words: &[&str]) {
    let before = std::fs::read(folder.join("data/a2a-tokens.json")).ok();
    let (code, out, err) = token(folder, &[&["create"], args].concat());
    assert_eq!((code, out.as_str()), (Some(2), ""), "{args:?}: {err}");
    for word in words {
        assert!(err.contains(word), "{args:?}: no {word:?} in {err}");
    }
    let after = std::fs::read(folder.join("data/a2a-tokens.json")).ok();
    let tokens = |file: Option<Vec<u8>>| {
        let file: Value = serde_json::from_slice(&file.unwrap_or_default()).unwrap_or_default();
        file["tokens"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(tokens(before), tokens(after), "nothing is written");
}

fn say_to_tim(server: &Server) {
    for n in 0..MESSAGES {
        server.accepted(&message("roman", "tim", &format!("message {n}")));
    }
}

/// Takes and acknowledges what is there for an agent; how many there were.
fn all_of(client: &crate::server::Client, agent: &str) -> usize {
    let mut count = 0;
    loop {
        let taken = client.inbox(agent, "limit=100");
        if taken.is_empty() {
            return count;
        }
        for delivery in &taken {
            let id = delivery["message"]["messageId"].as_str().unwrap();
            assert_eq!(client.settle(agent, id, "ack").status, 200);
        }
        count += taken.len();
    }
}

fn ask(client: &crate::server::Client) -> Answer {
    let message = json!({"messageId": new_id(), "role": "ROLE_USER", "parts": [{"text": "hello"}]});
    client.post("/message:send", json!({ "message": message }).to_string().as_bytes())
}

#[test]
fn a_client_cannot_have_the_name_of_an_agent_that_the_server_knows() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    say_to_unknown(&server);
    server.inbox("tim", "");
    say_to_tim(&server);
    for name in ["tim", "Tim", "TIM"] {
        refused(
            folder.path(),
            &["--client", name, "--yes"],
            &["there is the agent `tim`", "another name"],
        );
    }
    refused(folder.path(), &["--operator", "tim", "--yes"], &["there is the agent `tim`"]);
    refused(folder.path(), &["--agent", "TIM", "--yes"], &["there is the agent `tim`"]);
    // Nothing was written: no token is required yet.
    assert_eq!(server.get("/bus/agents").status, 200);
    // With tokens the caller of the command may not ask the server; the new token may.
    create(folder.path(), &["--agent", "roman", "--yes"]);
    refused(folder.path(), &["--client", "Tim"], &["there is the agent `tim`"]);
    // Names of tokens count as well, in both directions.
    create(folder.path(), &["--client", "acme"]);
    refused(folder.path(), &["--agent", "Acme"], &["there is the client `acme`"]);
    refused(folder.path(), &["--operator", "ACME"], &["there is the client `acme`"]);
    let tim = create(folder.path(), &["--agent", "tim"]);
    assert_eq!(all_of(&server.client().bearing(&tim), "tim"), MESSAGES);
}

/// A message to an unknown name is refused: no inbox is created.
fn say_to_unknown(server: &Server) {
    assert_eq!(server.send(&message("roman", "tim", "too early")).status, 404);
}

#[test]
fn a_token_for_a_taken_name_that_was_made_without_a_server_is_refused_by_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.inbox("tim", "");
    say_to_tim(&server);
    assert_eq!(server.terminate().code(), Some(0));
    // Without a server tim is not registered.
    let thief = create(folder.path(), &["--client", "Tim"]);
    let david = create(folder.path(), &["--operator", "david"]);
    let server = Server::start(folder.path());
    let thief = server.client().bearing(&thief);
    let david = server.client().bearing(&david);
    // The name is claimed on the bus a moment after the start; until then the bus refuses.
    let is_refused =
        |answer: &Answer| (answer.status, answer.body["code"] == "name_taken") == (403, true);
    let mut last = ask(&thief);
    for _ in 0..10_000 {
        assert_ne!(last.status, 200, "{last:?}");
        if is_refused(&last) {
            break;
        }
        last = ask(&thief);
    }
    assert!(is_refused(&last), "{last:?}");
    assert!(last.body["detail"].as_str().unwrap().contains("there is the agent `tim`"), "{last:?}");
    let printed = stderr(folder.path());
    assert!(printed.contains("the tokens of a client are refused"), "{printed}");
    let shown = david.get("/bus/names").body;
    assert_eq!(shown["refused"][0]["name"], "Tim", "{shown}");
    assert_eq!(shown["refused"][0]["taken"], json!({ "name": "tim", "holder": "agent" }));
    let mut doctor = openclaw_a2a();
    doctor.args(["doctor", "--quick", "--format", "json", "--state-dir"]).arg(folder.path());
    let doctor = doctor.env("OPENCLAW_TOKEN", token_of(folder.path(), "eve")).output().unwrap();
    let doctor: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let names = doctor["checks"].as_array().unwrap().iter().find(|check| check["name"] == "names");
    let names = names.unwrap_or_else(|| panic!("{doctor}"));
    assert_eq!(names["state"], "problem", "{names}");
    assert!(names["detail"].as_str().unwrap().contains("client `Tim`"), "{names}");
    assert_eq!(
        david.with("a2a-on-behalf-of", "tim").inbox("tim", "peek=true&limit=100").len(),
        MESSAGES
    );
}

fn token_of(folder: &Path, operator: &str) -> String {
    create(folder, &["--operator", operator])
}

#[test]
fn an_agent_cannot_take_the_name_of_a_client() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let acme = create(folder.path(), &["--client", "acme"]);
    let david = create(folder.path(), &["--operator", "david"]);
    let acme = server.client().bearing(&acme);
    assert_eq!(ask(&acme).status, 200);
    let david = server.client().bearing(&david);
    for name in ["acme", "Acme"] {
        let in_its_name = david.with("a2a-on-behalf-of", name);
        let sent = in_its_name.send(&message(name, "openclaw", "hi"));
        assert_eq!(sent.status, 403, "{name}: {sent:?}");
        assert!(sent.body["reason"].as_str().unwrap().contains("client `acme`"), "{sent:?}");
        let asked = david.put(&format!("/bus/agents/{name}"), &json!({}));
        assert_eq!(asked.status, 422, "{asked:?}");
        let taken = david.try_inbox(name, "").unwrap();
        assert_eq!((taken.status, &taken.body["code"]), (409, &json!("name_taken")), "{taken:?}");
    }
    // The holder of a name may look up its own, an operator any.
    assert_eq!(acme.get("/bus/names/ACME").body, json!({ "name": "acme", "holder": "client" }));
    assert_eq!(acme.get("/bus/names/tim").status, 403);
    assert_eq!(david.get("/bus/names/tim").status, 404);
    assert_eq!(ask(&acme).status, 200, "it goes on as before");
}

#[test]
fn the_name_of_callers_without_one_is_no_agents() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let sent = server.send(&message("a2a-client", "openclaw", "hi"));
    assert_eq!(sent.status, 403, "{sent:?}");
    assert_eq!(server.try_inbox("A2A-Client", "").unwrap().status, 409);
    assert_eq!(ask(&server.client()).status, 200);
}
