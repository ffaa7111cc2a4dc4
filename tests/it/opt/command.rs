//! `openclaw-a2a objective`: what people see, and the codes that programs read.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{Opt, text};
use crate::openclaw_a2a;
use crate::server::new_id;

/// What it wrote, what it wrote beside that, and its code.
fn run(opt: &Opt, args: &[&str]) -> (String, String, i32) {
    let mut command = openclaw_a2a();
    command.arg("objective").args(args).arg("--state-dir").arg(opt.folder.path());
    let output = command.env_remove("OPENCLAW_STATE_DIR").output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr), output.status.code().unwrap())
}

#[test]
fn objectives_are_listed_and_drawn() {
    let opt = Opt::start();
    assert_eq!(run(&opt, &["list"]), ("there are no objectives\n".to_owned(), String::new(), 0));
    let made = opt.caller.ok("objectives/create", json!({"name": "Post\u{1b}[2J"}));
    let id = text(&made["id"]);
    let plan = opt.plan(
        &id,
        &["Search"],
        json!({"status": "blocked", "metadata": {"opt/v1/assignee": "tim"}}),
    );
    let plan = text(&plan["id"]);
    let (table, _, code) = run(&opt, &["list", "--status", "blocked"]);
    let lines: Vec<_> = table.lines().collect();
    assert!(lines[0].starts_with("ID ") && lines[0].contains("PLANS"), "{table}");
    assert!(lines[1].starts_with(&format!("{id}  blocked  Post\\u{{1b}}[2J  0/1 ")), "{table}");
    assert_eq!((lines.len(), code), (2, 0));
    let tree = [
        format!("Post\\u{{1b}}[2J  blocked  {id}"),
        format!(
            "└─ Research  blocked  {plan}  by tim  (approve with: openclaw-a2a objective approve {plan})"
        ),
        "   └─ Search  pending".to_owned(),
    ];
    assert_eq!(run(&opt, &["show", &id]), (format!("{}\n", tree.join("\n")), String::new(), 0));
    let (raw, _, code) = run(&opt, &["show", &id, "--format", "json"]);
    let raw: Value = serde_json::from_str(&raw).unwrap();
    assert_eq!((raw["objective"].clone(), code), (opt.whole(&id), 0));
    let (raw, _, _) = run(&opt, &["list", "--format", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&raw).unwrap()["objectives"][0]["id"], json!(id));
}

#[test]
fn plans_are_approved_and_objectives_cancelled() {
    let opt = Opt::start();
    let id = opt.objective();
    let plan = text(&opt.plan(&id, &["Search"], json!({"status": "blocked"}))["id"]);
    let approved = run(&opt, &["approve", &plan, "--agent", "tim"]);
    assert_eq!(approved, ("Research is working\n".to_owned(), String::new(), 0));
    let request = opt.tim.next();
    assert_eq!(request["payload"]["title"], "Search");
    let canceled = run(&opt, &["cancel", &id]);
    assert_eq!(canceled, ("Write a post is canceled\n".to_owned(), String::new(), 0));
    let (_, why, code) = run(&opt, &["approve", &plan]);
    assert!(code == 1 && why.contains("it has ended"), "{why}");
}

#[test]
fn it_is_watched_until_it_ends() {
    let opt = Opt::start();
    for (fails, code) in [(false, 0), (true, 1)] {
        let id = opt.objective();
        opt.plan(&id, &["Search"], json!({}));
        let request = opt.tim.next();
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("openclaw-a2a"));
        command.args(["objective", "show", &id, "--watch", "--state-dir"]).arg(opt.folder.path());
        command.env_remove("OPENCLAW_STATE_DIR").stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut lines = String::new();
        out.read_line(&mut lines).unwrap();
        let (action, status) =
            if fails { ("failed", "failed") } else { ("completed", "completed") };
        let answer = json!({"action": action, "reason": "no", "result": {"message": "done"}});
        assert_eq!(opt.tim.say(&request, "task_response", answer).status, 202);
        out.read_to_string(&mut lines).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{lines}");
        assert!(lines.starts_with(&format!("Write a post  working  {id}\n")), "{lines}");
        let last = lines.lines().last().unwrap();
        assert_eq!(last, format!("objective  Write a post  {status}  {id}"), "{lines}");
    }
}

#[test]
fn missing_things_are_reported_with_what_to_do_next() {
    let opt = Opt::start();
    let (objective, plan) = (format!("obj-{}", new_id()), format!("plan-{}", new_id()));
    for args in [["show", &objective], ["cancel", &objective], ["approve", &plan]] {
        let (out, why, code) = run(&opt, &args);
        assert_eq!((out.as_str(), code), ("", 1), "{why}");
        assert!(why.contains("openclaw-a2a objective "), "{why}");
    }
    assert!(run(&opt, &["approve", &objective]).1.contains("this is an objective"));
    assert_eq!(run(&opt, &["list", "--status", "done"]).2, 2);
    let Opt { folder, server, .. } = opt;
    server.terminate();
    let mut command = openclaw_a2a();
    let output =
        command.args(["objective", "list", "--state-dir"]).arg(folder.path()).output().unwrap();
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && why.contains("openclaw-a2a serve"), "{why}");
}
