//! Agents leave: presence of those that take their messages over HTTP, and `agents remove`.

use std::time::Duration;

use openclaw_a2a::{Bus, BusSettings};
use serde_json::{Value, json};

use crate::command::CliFixture;
use crate::scenarios::{id, listener, next_notice, quick, small_task};
use crate::server::{id_of, message};

fn names(cli: &CliFixture) -> Vec<String> {
    let agents = cli.server.get("/bus/agents").body;
    let agents = agents["agents"].as_array().unwrap().iter();
    agents.map(|agent| agent["agentId"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn agent_is_removed_and_the_log_names_the_operator() {
    let cli = CliFixture::start();
    cli.server.put("/bus/agents/tim", &json!({ "role": "Worker" }));
    assert_eq!(cli.text(&["agents", "remove", "tim"]), "tim is removed\n");
    assert_eq!(names(&cli), ["roman"]);
    assert_eq!(cli.server.send(&message("roman", "tim", "hi")).status, 404);
    cli.fails_with(&["agents", "remove", "tim"], "there is no agent `tim`");
    let CliFixture { folder, server } = cli;
    assert_eq!(server.terminate().code(), Some(0));
    // It stays so after a restart, and the log has it.
    let server = crate::server::Server::start(folder.path());
    assert_eq!(server.get("/bus/agents/tim").status, 404);
    let lines = crate::attacks::log_lines(folder.path());
    let left = lines.iter().find(|line| line["event"] == "left").unwrap();
    assert_eq!(left["agentId"], "tim");
    assert_eq!(left["reason"], "removed by a person of this machine");
    // It comes back as a new one.
    server.inbox("tim", "");
    let back = server.get("/bus/agents/tim").body;
    assert_eq!((&back["agentId"], &back["role"]), (&json!("tim"), &Value::Null));
    let sent = message("roman", "tim", "hi again");
    server.accepted(&sent);
    let taken = server.inbox("tim", "");
    assert_eq!(id_of(&taken[0]), id_of(&sent));
}

#[test]
fn pending_messages_are_dropped_only_on_request() {
    let cli = CliFixture::start();
    for n in 0..3 {
        cli.server.accepted(&message("roman", "tim", &format!("{n}")));
    }
    cli.fails_with(&["agents", "remove", "tim"], "3 messages wait for `tim`");
    // What it has in its hands is its own to settle.
    let taken = cli.server.inbox("tim", "limit=1");
    cli.fails_with(&["agents", "remove", "tim", "--drop"], "messages in its hands");
    assert_eq!(cli.server.settle("tim", id_of(&taken[0]), "nack").status, 200);
    let output = cli.text(&["agents", "remove", "tim", "--drop"]);
    assert_eq!(output, "tim is removed, and 3 messages for it are dropped\n");
    // Their sender was notified of each, and none is left as a dead letter.
    let notices = cli.server.inbox("roman", "limit=10");
    assert_eq!(notices.len(), 3, "{notices:?}");
    assert!(notices.iter().all(|notice| notice["sender"] == "system"));
    assert_eq!(cli.server.get("/bus/dead-letters").body, json!({ "deadLetters": [] }));
    assert_eq!(names(&cli), ["roman"]);
}

#[test]
fn who_is_listed_or_part_of_the_server_stays() {
    let cli = CliFixture::with_config("[[agents]]\nid = \"tim\"\n[directory]\nopen = true\n");
    cli.fails_with(&["agents", "remove", "tim"], "listed in [[agents]]");
    cli.fails_with(&["agents", "remove", "openclaw"], "part of the server");
    let answer = cli.server.call("DELETE", "/bus/agents/openclaw", &Value::Null);
    assert_eq!((answer.status, &answer.body["code"]), (409, &json!("not_removable")));
}

#[tokio::test]
async fn an_agent_is_online_while_it_waits_and_no_longer() {
    let settings = BusSettings { presence_grace: Duration::ZERO, ..quick() };
    let bus = Bus::builder().in_memory().settings(settings).start().unwrap();
    let system = bus.system();
    let presence = async || {
        let view = system.agent(id("tim")).await.unwrap();
        serde_json::to_value(view).unwrap()["presence"].as_str().unwrap().to_owned()
    };
    let is_connected = async || system.agent(id("tim")).await.is_some_and(|tim| tim.connected);
    let mut waits = Box::pin(system.pull(id("tim"), 1, Duration::from_secs(60)));
    tokio::select! {
        biased;
        _ = &mut waits => panic!("nothing was sent"),
        () = async { while !is_connected().await {} } => {}
    }
    assert_eq!(presence().await, "online");
    let removed = system.remove_agent(id("tim"), false, "david".into()).await;
    assert!(removed.unwrap_err().to_string().contains("is connected"));
    // Its connection goes, and the call with it.
    drop(waits);
    assert_eq!(presence().await, "offline");
    assert_eq!(system.remove_agent(id("tim"), false, "david".into()).await, Ok(0));
    assert!(system.agent(id("tim")).await.is_none());
    bus.stop().await;
}

#[tokio::test]
async fn a_task_of_a_removed_agent_fails_for_the_one_who_asked() {
    let bus = Bus::builder().in_memory().settings(quick()).start().unwrap();
    let (roman, mut incoming) = listener(&bus, "roman").await;
    crate::scenarios::absent(&bus, "tony").await;
    let asked = roman.send_task_request("tony", small_task()).await.unwrap();
    let dropped = bus.system().remove_agent(id("tony"), true, "operator:david".into()).await;
    assert_eq!(dropped, Ok(1));
    let text = next_notice(&mut incoming, asked.correlation_id()).await;
    assert!(text.contains("removed by operator:david"), "{text}");
    let state = crate::scenarios::state(&bus, asked.task_id().unwrap()).await;
    assert_eq!(state, a2a_protocol::AssignmentState::Failed);
    bus.stop().await;
}
