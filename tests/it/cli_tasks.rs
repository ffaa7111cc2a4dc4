use serde_json::{Value, json};

use crate::a2a_worker::Worker;
use crate::command::{CliFixture, run};
use crate::server::new_id;

/// A task that an A2A caller asks tim for, as A2A shows it.
fn ask(cli: &CliFixture, text: &str, at_once: bool) -> Value {
    let message = json!({"messageId": new_id(), "role": "ROLE_USER", "parts": [{"text": text}]});
    let body = json!({"message": message, "configuration": {"returnImmediately": at_once}});
    let answer = cli.server.post("/agents/tim/message:send", body.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body["task"].clone()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

#[test]
fn tasks_of_both_sorts_are_one_table() {
    let cli = CliFixture::start();
    assert_eq!(cli.text(&["task", "list"]), "there are no such tasks\n");
    let worker = Worker::tim(&cli.server);
    let sent =
        cli.json(&["send", "task-request", "--from", "roman", "--to", "tim", "--title", "Count"]);
    let bus = text(&sent["taskId"]);
    assert_eq!(worker.next()["payload"]["taskId"], bus);
    // A waiting caller gets the task when it needs input.
    let a2a = std::thread::scope(|scope| {
        let waits = scope.spawn(|| ask(&cli, "Sing", false));
        worker.ask(&worker.next(), "Which song?");
        waits.join().unwrap()
    });
    let id = text(&a2a["id"]);
    let table = cli.text(&["task", "list"]);
    assert_eq!(table.lines().count(), 3, "each once: {table}");
    let row = |id: &str| table.lines().find(|line| line.starts_with(id)).unwrap().to_owned();
    assert!(row(id).contains("  a2a  input-required  anonymous  tim  "), "{table}");
    assert!(row(id).ends_with("  Which song?"), "{table}");
    assert!(row(bus).contains("  bus  requested       roman      tim  "), "{table}");

    let ids = |args: &[&str]| -> Vec<Value> {
        let tasks = cli.jsonl(&[&["task", "list"], args].concat());
        let id = |task: &Value| match text(&task["of"]) {
            "a2a" => task["task"]["id"].clone(),
            _ => task["taskId"].clone(),
        };
        tasks.iter().map(id).collect()
    };
    let all = cli.json(&["task", "list"]);
    assert_eq!(all["tasks"].as_array().unwrap().len(), 2);
    assert_eq!(ids(&["--of", "a2a"]), [id]);
    assert_eq!(ids(&["--of", "bus"]), [id, bus], "the ledger has both");
    assert_eq!(ids(&["--state", "requested"]), [bus]);
    assert_eq!(ids(&["--state", "input_required"]), [id]);
    assert_eq!(ids(&["--agent", "roman"]), [bus]);
    assert_eq!(ids(&["--agent", "tim"]).len(), 2);
    assert_eq!(ids(&["--limit", "1"]), [id]);
    assert_eq!(ids(&["--context", text(&a2a["contextId"])]), [id]);
    assert_eq!(ids(&["--context", text(&sent["correlationId"])]), [bus]);
    assert!(ids(&["--context", "holidays"]).is_empty());
    for (args, words) in [(["--state", "done"], "completed"), (["--of", "mcp"], "a2a")] {
        let output = cli.run(&[&["task", "list"], &args[..]].concat());
        assert!(output.code == Some(2) && output.err.contains(words), "{}", output.err);
    }
    let output = cli.run(&["task", "list", "--of", "a2a", "--state", "paused"]);
    assert!(output.code == Some(2) && output.err.contains("leave --of out"), "{}", output.err);
}

#[test]
fn task_of_either_kind_is_found_shown_and_cancelled() {
    let cli = CliFixture::start();
    let worker = Worker::tim(&cli.server);
    let sent = cli.json(&["send", "task-request", "--to", "tim", "--title", "Count"]);
    let bus = text(&sent["taskId"]);
    worker.next();
    let a2a = ask(&cli, "Sing", true);
    let a2a = text(&a2a["id"]);
    worker.next();
    let shown = cli.text(&["task", "show", bus]);
    assert!(shown.contains("  state         requested\n  for           operator\n"), "{shown}");
    assert!(shown.contains(&format!("next: openclaw-a2a log --task {bus}")), "{shown}");
    let whole = cli.json(&["task", "show", bus]);
    assert_eq!((&whole["a2a"], &whole["bus"]["assignee"]), (&Value::Null, &json!("tim")));
    let shown = cli.text(&["task", "show", a2a]);
    assert!(shown.contains("  state          working\n  for            anonymous\n"), "{shown}");
    assert!(
        shown.contains("  USER: Sing\n") && shown.contains("in the ledger of the bus"),
        "{shown}"
    );
    assert!(shown.contains(&format!("next: openclaw-a2a task watch {a2a} --agent tim")), "{shown}");
    assert_eq!(cli.json(&["task", "show", a2a])["a2a"]["task"]["id"], a2a);

    for id in [bus, a2a] {
        cli.fails_with(&["task", "show", id, "--agent", "nobody"], "of nobody");
        cli.fails_with(&["task", "cancel", id, "--agent", "nobody"], "openclaw-a2a task list");
    }
    let output = cli.text(&["task", "cancel", bus, "--reason", "no longer needed"]);
    assert!(output.starts_with(&format!("task {bus} is cancelled\n")), "{output}");
    let output = cli.json(&["task", "cancel", a2a, "--agent", "tim", "--reason", "enough"]);
    assert_eq!(output["status"]["state"], "TASK_STATE_CANCELED");
    for (id, reason) in [(bus, "no longer needed"), (a2a, "enough")] {
        let ended = cli.json(&["task", "show", id]);
        assert_eq!(ended["bus"]["state"], "cancelled", "{ended}");
        assert_eq!(ended["bus"]["reason"], reason);
        cli.fails_with(&["task", "cancel", id], "the server refuses");
    }
    assert_eq!(cli.jsonl(&["task", "list", "--state", "canceled"]).len(), 2);
    let open = ask(&cli, "Dance", true);
    let open = text(&open["id"]);
    cli.fails_with(&["task", "delete", open], "cancel it before you delete it");
    let output = cli.text(&["task", "delete", a2a]);
    assert!(output.starts_with(&format!("task {a2a} is deleted\n")), "{output}");
    assert_eq!(cli.json(&["task", "show", a2a])["a2a"], Value::Null, "the ledger still has it");
    cli.fails_with(&["task", "delete", a2a], "only such tasks can be deleted");
    cli.fails_with(&["task", "delete", bus], "only such tasks can be deleted");
    cli.fails_with(&["task", "watch", bus], "only such tasks can be watched");
    cli.fails_with(&["task", "watch", open], "--agent tim");
    cli.fails_with(&["task", "watch", &new_id()], "openclaw-a2a task list");
    let nothing = new_id();
    cli.fails_with(&["task", "show", &nothing], "openclaw-a2a task list");
    cli.fails_with(&["task", "cancel", &nothing], "openclaw-a2a task list");
    assert_eq!(cli.run(&["task", "show", "1"]).code, Some(2));
}

#[test]
fn people_see_all_tasks_and_agents_their_own() {
    let cli = CliFixture::start();
    let token = |whose: [&str; 2]| {
        let made = run(cli.folder.path(), &["token", "create", whose[0], whose[1], "--yes"], "");
        made.out.trim().to_owned()
    };
    let tokens =
        [["--client", "acme"], ["--agent", "tim"], ["--agent", "roman"], ["--operator", "david"]];
    let [acme, tim, roman, david] = tokens.map(token);
    let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Sing"}]});
    let body = json!({"message": message, "configuration": {"returnImmediately": true}});
    let client = cli.server.client().bearing(&acme);
    let made = client.post("/agents/tim/message:send", body.to_string().as_bytes());
    let id = text(&made.body["task"]["id"]);
    let list = |token: &str| cli.jsonl(&["task", "list", "--of", "a2a", "--token", token]);
    assert_eq!(list(&david)[0]["owner"], "client:acme");
    assert_eq!(list(&tim)[0]["task"]["id"], id);
    assert!(list(&roman).is_empty());
    let output = cli.run(&["task", "show", id, "--token", &roman]);
    assert_eq!((output.code, output.out.as_str()), (Some(1), ""), "another's looks like none");
    let output = cli.run(&["task", "list", "--agent", "tim", "--token", &roman]);
    assert!(output.code == Some(2) && output.err.contains("for `tim` alone"), "{}", output.err);
    let output = cli.run(&["task", "list", "--token", &acme]);
    assert!(output.code == Some(2) && output.err.contains("operator's token"), "{}", output.err);
    assert_eq!(cli.json(&["task", "cancel", id, "--token", &david])["id"], id);
}
