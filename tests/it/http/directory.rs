use std::path::Path;

use serde_json::Value;

use super::{folder, is_problem};
use crate::openclaw_a2a;
use crate::server::{Client, Server, message};

/// All pages of a list, and how many there were.
fn pages(client: &Client, path: &str, list: &str) -> (Vec<Value>, usize) {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    for count in 1..100 {
        let answer = client.get(&format!("{path}&cursor={cursor}"));
        assert_eq!(answer.status, 200, "{answer:?}");
        all.extend(answer.body[list].as_array().unwrap().iter().cloned());
        cursor = answer.body["nextCursor"].as_str().unwrap().to_owned();
        if cursor.is_empty() {
            return (all, count);
        }
    }
    panic!("it does not end");
}

fn names(agents: &[Value]) -> Vec<&str> {
    agents.iter().map(|agent| agent["agentId"].as_str().unwrap()).collect()
}

#[test]
fn agents_are_listed_in_pages_each_once_by_name() {
    let folder = folder();
    let config: String = (0..1_200).map(|n| format!("[[agents]]\nid = \"agent-{n}\"\n")).collect();
    let server = Server::with_config(folder.path(), &config);
    let (all, count) = pages(&server, "/bus/agents?limit=500", "agents");
    assert_eq!((all.len(), count), (1_200, 3));
    let mut sorted = names(&all);
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(names(&all), sorted);
    let first = server.get("/bus/agents").body;
    assert_eq!(first["agents"].as_array().unwrap().len(), 1_000);
    assert_eq!(first["nextCursor"], first["agents"][999]["agentId"]);
    is_problem(&server.get("/bus/agents?cursor=a%20b"), 400, "bad_request");

    let args = ["agents", "--format", "jsonl", "--state-dir"];
    let listed = openclaw_a2a().args(args).arg(folder.path()).output().unwrap();
    assert_eq!(String::from_utf8(listed.stdout).unwrap().lines().count(), 1_200);
}

#[test]
fn tasks_are_listed_in_pages_the_latest_first() {
    let folder = folder();
    let server = Server::with_config(folder.path(), "[limits]\nburst = 1000\n");
    assert!(server.inbox("tim", "").is_empty());
    let mut asked = Vec::new();
    for n in 0..30 {
        let mut sent = message("roman", "tim", "");
        sent["type"] = "task_request".into();
        sent["payload"] = serde_json::to_value(crate::new_task()).unwrap();
        sent["payload"]["title"] = format!("Task {n}").into();
        server.accepted(&sent);
        asked.insert(0, sent["payload"]["taskId"].clone());
    }
    let (all, count) = pages(&server, "/bus/tasks?agent=tim&limit=7", "tasks");
    assert_eq!(count, 5);
    assert_eq!(all.iter().map(|task| task["taskId"].clone()).collect::<Vec<_>>(), asked);
    assert!(pages(&server, "/bus/tasks?agent=ann", "tasks").0.is_empty());
    is_problem(&server.get("/bus/tasks?cursor=7"), 400, "bad_request");
}

fn token(folder: &Path, who: &[&str]) -> String {
    let args = [&["token", "create"], who, &["--state-dir"]].concat();
    let made = openclaw_a2a().args(args).arg(folder).output().unwrap();
    String::from_utf8(made.stdout).unwrap().trim_end().to_owned()
}

#[test]
fn an_agent_sees_only_whom_it_may_write_to_in_lists_by_name_and_in_hints() {
    let folder = folder();
    let tokens = [&["--agent", "roman"][..], &["--agent", "xavier"], &["--operator", "david"]];
    let [roman, xavier, david] = tokens.map(|who| token(folder.path(), who));
    let config = "agents = [{ id = \"roman\" }, { id = \"tim\" }, { id = \"xavier\" }]\n\
         [[access]]\nname = \"no-xavier\"\nallow = false\nfrom = \"roman\"\nto = \"xavier\"\n";
    let server = Server::with_config(folder.path(), config);
    let sees = |token: &str| -> Vec<String> {
        let (all, _) = pages(&server.bearing(token), "/bus/agents?limit=10", "agents");
        names(&all).into_iter().map(str::to_owned).collect()
    };
    assert_eq!(sees(&roman), ["roman", "tim"]);
    assert_eq!(sees(&xavier), ["roman", "tim", "xavier"]);
    assert_eq!(sees(&david), ["roman", "tim", "xavier"]);

    let unknown = server.bearing(&roman).get("/bus/agents/xaver");
    let mut hidden = server.bearing(&roman).get("/bus/agents/xavier");
    assert_eq!((unknown.status, hidden.status), (404, 404));
    let detail = hidden.body["detail"].as_str().unwrap().replace("xavier", "xaver");
    hidden.body["detail"] = detail.into();
    assert_eq!(hidden.body, unknown.body, "as if there were none");
    assert_eq!(server.bearing(&xavier).get("/bus/agents/xavier").status, 200);
    assert_eq!(server.bearing(&roman).get("/bus/agents/tim").status, 200);
    let near = server.bearing(&roman).send(&message("roman", "xaver", "Who?"));
    assert_eq!(near.status, 404);
    assert!(!near.body["detail"].as_str().unwrap().contains("xavier"), "{near:?}");
}

#[test]
fn refusals_are_charged_and_leave_what_is_sent_rightly_alone() {
    let folder = folder();
    let config = "[limits]\nrefusal_burst = 3\nrefusals_per_minute = 1\n";
    let server = Server::with_config(folder.path(), config);
    assert!(server.inbox("tim", "").is_empty());
    let absent = || server.send(&message("roman", "nobody", "Hello?"));
    for _ in 0..3 {
        is_problem(&absent(), 404, "unknown_recipient");
    }
    for _ in 0..3 {
        let answer = absent();
        is_problem(&answer, 429, "rate_limited");
        assert!((1..=60_000).contains(&answer.body["retryAfterMs"].as_u64().unwrap()));
        let detail = answer.body["detail"].as_str().unwrap();
        assert!(detail.contains("1 messages a minute that are refused"), "{detail}");
    }
    server.accepted(&message("roman", "tim", "Hello"));
    is_problem(&server.send(&message("tony", "nobody", "Hello?")), 404, "unknown_recipient");
}
