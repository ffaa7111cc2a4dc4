//! `/bus/log`: filters, one message, redaction, and that secrets stay out of it.

use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::openclaw_a2a;
use crate::server::{Answer, Client, Server, id_of, message, new_id, stderr};

#[track_caller]
fn is_problem(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, &answer.body["code"]), (status, &json!(code)), "{answer:?}");
    assert_eq!(answer.content_type, "application/problem+json", "{answer:?}");
}

fn started(folder: &Path, config: &str) -> Server {
    let server = Server::with_config(folder, config);
    for agent in ["roman", "tim", "ann"] {
        assert!(server.inbox(agent, "").is_empty());
    }
    server
}

pub(crate) fn task(from: &str, to: &str, title: &str) -> Value {
    let mut sent = message(from, to, "");
    sent["type"] = json!("task_request");
    sent["payload"] = json!({
        "taskId": new_id(), "title": title, "description": "The secret plan.",
        "taskType": "research", "complexity": "trivial"
    });
    sent
}

/// The ids of the records a question finds, in pages of 2.
fn found(client: &Client, query: &str) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    for _ in 0..1_000 {
        let page = client.get(&format!("/bus/log?{query}&limit=2&cursor={cursor}"));
        assert_eq!(page.status, 200, "{page:?}");
        for record in page.body["records"].as_array().unwrap() {
            ids.push(record["messageId"].as_str().unwrap().to_owned());
        }
        cursor = page.body["nextCursor"].as_str().unwrap().to_owned();
        if cursor.is_empty() {
            return ids;
        }
    }
    panic!("no end");
}

#[test]
fn records_are_found_by_what_they_are_about() {
    let folder = tempfile::tempdir().unwrap();
    let server = started(folder.path(), "");
    let first = task("roman", "tim", "Count the Häuser");
    let second = message("tim", "ann", "counting houses");
    let third = message("ann", "nobody", "hello?");
    server.accepted(&first);
    server.accepted(&second);
    let middle = server.whole_log(10)[0]["time"].as_str().unwrap().to_owned();
    assert_eq!(server.send(&third).status, 404);
    let ids = [&first, &second, &third].map(|sent| id_of(sent).to_owned());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (talk, work) = (text(&first["correlationId"]), text(&first["payload"]["taskId"]));
    for (query, expected) in [
        (String::new(), &[2, 1, 0][..]),
        ("agent=tim".into(), &[1, 0]),
        ("agent=ann".into(), &[2, 1]),
        ("agent=eve".into(), &[]),
        ("type=status_update".into(), &[2, 1]),
        ("outcome=unknown_recipient".into(), &[2]),
        (format!("correlation={talk}"), &[0]),
        (format!("task={work}"), &[0]),
        ("text=H%C3%84USER+count".into(), &[0]),
        ("text=count".into(), &[1, 0]),
        ("agent=tim&type=status_update&outcome=queued&text=houses&since=1h".into(), &[1]),
        ("since=yesterday&until=now".into(), &[2, 1, 0]),
        ("until=yesterday".into(), &[]),
        ("since=2100-01-01".into(), &[]),
        (format!("until={middle}&outcome=unknown_recipient"), &[]),
    ] {
        let expected: Vec<_> = expected.iter().map(|at: &usize| ids[*at].clone()).collect();
        assert_eq!(found(&server, &query), expected, "{query}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let server = started(folder.path(), "");
    for (name, value) in [
        ("agent", "a%20b"),
        ("type", "letter"),
        ("since", "soon"),
        ("until", "2026-13-01"),
        ("correlation", "17"),
        ("task", "x"),
        ("outcome", "done"),
        ("limit", "all"),
        ("cursor", "first"),
        ("agnet", "tim"),
    ] {
        for path in ["/bus/log", "/bus/log/stream"] {
            let answer = server.get(&format!("{path}?{name}={value}"));
            is_problem(&answer, 400, "bad_request");
            let detail = answer.body["detail"].as_str().unwrap();
            assert!(detail.contains(&format!("`{name}`")), "{path}: {detail}");
        }
    }
    is_problem(&server.get("/bus/log/verify?head=7"), 400, "bad_request");
    is_problem(&server.get("/bus/log/verify?heads=7"), 400, "bad_request");
    let stream = server.client().with("last-event-id", "last").get("/bus/log/stream");
    is_problem(&stream, 400, "bad_request");
    is_problem(&server.get("/bus/log/17"), 400, "bad_uuid");
    is_problem(&server.get(&format!("/bus/log/{}", new_id())), 404, "not_found");
}

#[test]
fn one_message_comes_with_every_attempt_and_delivery() {
    let folder = tempfile::tempdir().unwrap();
    let server = started(folder.path(), "");
    let sent = task("roman", "tim", "Count");
    server.accepted(&sent);
    server.inbox("tim", "wait=10s");
    server.settle("tim", id_of(&sent), "ack");
    assert_eq!(server.send(&sent).body["outcome"], "duplicate");
    let answer = server.get(&format!("/bus/log/{}", id_of(&sent).to_uppercase()));
    assert_eq!(answer.status, 200, "{answer:?}");
    let records = answer.body["records"].as_array().unwrap();
    let outcomes: Vec<_> = records.iter().map(|record| &record["outcome"]).collect();
    assert_eq!(outcomes, ["queued", "duplicate"]);
    assert_eq!(records[0]["message"], sent);
    let events = records[0]["deliveries"].as_array().unwrap().iter().map(|event| &event["event"]);
    assert_eq!(events.collect::<Vec<_>>(), ["delivered", "acknowledged"]);
    let head = server.get("/bus/log/head").body;
    assert!(head["head"].as_str().unwrap().starts_with(&format!("{}:", head["seq"])), "{head}");
    let whole = server.get("/bus/log/verify").body;
    assert_eq!((&whole["ok"], &whole["records"]), (&json!(true), &json!(2)), "{whole}");
    assert_eq!(whole["head"], head["head"]);
    let other = server.get(&format!("/bus/log/verify?head=1:{}", "0".repeat(64))).body;
    assert_eq!((&other["ok"], &other["seq"]), (&json!(false), &json!(1)), "{other}");
}

#[test]
fn records_have_the_size_of_a_message_and_the_time_the_bus_took() {
    let folder = tempfile::tempdir().unwrap();
    let server = started(folder.path(), "");
    let sent = message("roman", "tim", "hello");
    server.accepted(&sent);
    server.inbox("tim", "wait=10s");
    server.settle("tim", id_of(&sent), "ack");
    let refused = message("roman", "nobody", "hello?").to_string();
    assert_eq!(server.post("/bus/messages", refused.as_bytes()).status, 404);
    assert_eq!(server.post("/bus/messages", b"no json").status, 422);
    let large = vec![b'x'; 300_000];
    assert_eq!(server.post("/bus/messages", &large).status, 422);

    let log = server.whole_log(10);
    let sizes: Vec<_> = log.iter().map(|record| record["bytes"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [300_000, 7, refused.len() as u64, sent.to_string().len() as u64]);
    assert!(log[0]["raw"].as_str().unwrap().len() <= 4_096);
    for record in &log {
        // More than a minute would be another clock's number.
        assert!(record["tookUs"].as_u64().is_some_and(|us| us < 60_000_000), "{record}");
        assert!(record.get("rawBytes").is_none());
    }
    let deliveries = log[3]["deliveries"].as_array().unwrap();
    assert!(!deliveries.is_empty());
    for event in deliveries {
        let time = |value: &Value| {
            chrono::DateTime::parse_from_rfc3339(value["time"].as_str().unwrap()).unwrap()
        };
        let after = (time(event) - time(&log[3])).num_milliseconds().max(0);
        assert_eq!(event["afterMs"], after, "{event}");
    }
    let file = std::fs::read_dir(folder.path().join("a2a-log")).unwrap().next().unwrap().unwrap();
    let file = std::fs::read_to_string(file.path()).unwrap();
    assert!(!file.contains("afterMs"), "it is not stored");
}

/// Everything in a folder, one text.
fn everything_in(folder: &Path) -> Vec<u8> {
    let (mut folders, mut all) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                all.extend(std::fs::read(path).unwrap());
            }
        }
    }
    all
}

fn contains(all: &[u8], text: &str) -> bool {
    memchr::memmem::find(all, text.as_bytes()).is_some()
}

#[test]
fn what_is_redacted_is_in_the_files_and_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let config = "[audit]\nredact = [\"description\", \"/payload/result/summary\"]\n";
    let server = started(folder.path(), config);
    let sent = task("roman", "tim", "Count");
    server.accepted(&sent);
    let mut done = message("tim", "roman", "");
    done["type"] = json!("task_response");
    done["correlationId"] = sent["correlationId"].clone();
    done["payload"] = json!({
        "taskId": sent["payload"]["taskId"], "action": "completed",
        "result": {"summary": "The secret result.", "branch": "main"}
    });
    server.accepted(&done);
    server.post("/bus/messages", br#"{"payload": {"description": "The secret plan."#);
    let talk = sent["correlationId"].as_str().unwrap();
    let commands: [&[&str]; 5] =
        [&[], &["--format", "jsonl"], &["thread", talk], &["show", id_of(&sent)], &["show", "5"]];
    let shown = |online: bool| {
        for args in commands {
            let out = openclaw_a2a()
                .args(["log", "--state-dir"])
                .arg(folder.path())
                .args(args)
                .output()
                .unwrap();
            let text = String::from_utf8(out.stdout).unwrap();
            assert!(!text.contains("secret"), "{args:?} {online}: {text}");
            assert!(out.status.success(), "{args:?}: {:?}", String::from_utf8(out.stderr));
        }
    };
    shown(true);
    let one = server.get(&format!("/bus/log/{}", id_of(&sent))).body;
    assert_eq!(one["records"][0]["message"]["payload"]["description"], "[redacted]");
    assert_eq!(one["records"][0]["message"]["payload"]["title"], "Count");
    for record in server.whole_log(10) {
        assert!(!record.to_string().contains("secret"), "{record}");
    }
    // What the recipient gets is whole.
    assert_eq!(server.inbox("tim", "")[0]["message"], sent);
    assert_eq!(server.terminate().code(), Some(0));
    shown(false);
    let all = everything_in(&folder.path().join("a2a-log"));
    assert!(contains(&all, "The secret plan.") && contains(&all, "The secret result."));
}

#[test]
fn tokens_are_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = ["roman-Tk7QxW", "david-Zp4MnB", "wrong-Ry2LcV", "basic-Ub8KdF"];
    let hash = |token: &str| -> String {
        Sha256::digest(token.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let config = format!(
        "[[auth.tokens]]\nagent = \"roman\"\nsha256 = \"{}\"\n[[auth.tokens]]\noperator = \"david\"\nsha256 = \"{}\"\n",
        hash(tokens[0]),
        hash(tokens[1])
    );
    let server = Server::with_config(folder.path(), &config);
    let bearer = |token: &str| server.client().with("authorization", format!("Bearer {token}"));
    let basic = server.client().with("authorization", format!("Basic {}", tokens[3]));
    let clients = [bearer(tokens[0]), bearer(tokens[1]), bearer(tokens[2]), basic];
    let mut answers = Vec::new();
    for client in &clients {
        for sent in [message("roman", "tim", "hi"), message("tim", "roman", "forged"), json!({})] {
            answers.push(client.send(&sent));
        }
        for path in [
            "/bus/log",
            "/bus/log/head",
            "/bus/log/verify",
            "/bus/agents",
            "/bus/circuits",
            "/bus/agents/roman/inbox",
            "/bus/tasks/x",
            "/readyz",
            "/nowhere",
        ] {
            answers.push(client.get(path));
        }
    }
    for path in ["/bus/log", "/bus/log/head", "/bus/log/verify", "/bus/log/stream"] {
        is_problem(&clients[0].get(path), 403, "forbidden");
        is_problem(&clients[2].get(path), 401, "unauthorized");
    }
    is_problem(&clients[0].get(&format!("/bus/log/{}", new_id())), 403, "forbidden");
    let circuit = format!("/bus/circuits/correlation:{}/log", new_id());
    is_problem(&clients[0].get(&circuit), 403, "forbidden");
    // The command: without a token, with an agent's, with an operator's both ways.
    let command = || {
        let mut command = openclaw_a2a();
        command.env_remove("OPENCLAW_TOKEN").args(["log", "--state-dir"]).arg(folder.path());
        command
    };
    let without = command().output().unwrap();
    let printed = String::from_utf8(without.stderr).unwrap();
    assert!(without.status.code() == Some(2) && printed.contains("--token"), "{printed}");
    let agents = command().args(["--token", tokens[0]]).output().unwrap();
    let printed = String::from_utf8(agents.stderr).unwrap();
    assert!(agents.status.code() == Some(2) && printed.contains("operator"), "{printed}");
    let with = command().args(["--token", tokens[1], "--format", "jsonl"]).output().unwrap();
    let env = command().env("OPENCLAW_TOKEN", tokens[1]).output().unwrap();
    assert!(with.status.success() && env.status.success(), "{with:?} {env:?}");
    let mut outputs = [with.stdout, env.stdout, printed.into_bytes()].concat();
    assert_eq!(server.terminate().code(), Some(0));

    outputs.extend(format!("{answers:?}").into_bytes());
    outputs.extend(everything_in(folder.path()));
    outputs.extend(stderr(folder.path()).into_bytes());
    assert!(contains(&outputs, "roman"), "something was looked at");
    for token in tokens {
        assert!(!contains(&outputs, token), "{token}");
    }
}
