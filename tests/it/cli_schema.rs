use a2a_protocol::{Kind, schema};
use serde_json::Value;

use crate::openclaw_a2a;

fn output(args: &[&str]) -> String {
    let output = openclaw_a2a().args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&output(args)).unwrap()
}

#[test]
fn one_schema_by_either_spelling() {
    assert_eq!(json(&["schema"]), schema::envelope());
    assert_eq!(json(&["schema", "envelope"]), schema::envelope());
    assert_eq!(json(&["schema", "task_request"]), schema::message(Kind::TaskRequest));
    assert_eq!(json(&["schema", "task-request"]), schema::message(Kind::TaskRequest));
    assert_eq!(json(&["schema", "task-progress"]), schema::task_progress());
    assert_eq!(json(&["schema", "broadcast", "--payload"]), schema::payload(Kind::Broadcast));
}

#[test]
fn all_schemas_as_one_object_or_as_files() {
    let all = json(&["schema", "--all"]);
    assert_eq!(all.as_object().unwrap().len(), 9);
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("new/schemas");
    let listed = output(&["schema", "--all", "--dir", dir.to_str().unwrap()]);
    assert_eq!(listed.lines().count(), 9);
    for (name, schema) in schema::all() {
        let text = std::fs::read_to_string(dir.join(format!("{name}.schema.json"))).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), schema, "{name}");
        assert_eq!(all[name], schema, "{name}");
    }
}

#[test]
fn wrong_names_are_answered_with_the_right_ones() {
    for (args, says) in [
        (vec!["schema", "gossip"], "task_request"),
        (vec!["schema", "task-progress", "--payload"], "seven kinds"),
        (vec!["schema", "broadcast", "--all"], "cannot be used with"),
        (vec!["schema", "--all", "--payload"], "cannot be used with"),
        (vec!["schema", "--all", "--openapi"], "cannot be used with"),
    ] {
        let output = openclaw_a2a().args(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(err.contains(says), "{args:?}: {err}");
    }
}

/// The lines of the examples, without the words beside them.
fn commands(help: &str) -> impl Iterator<Item = &str> {
    let examples = help.split_once("Example").map_or("", |(_, examples)| examples);
    let lines = examples.lines().skip(1).take_while(|line| line.starts_with("  "));
    lines.map(|line| {
        let command = line.trim_start();
        let end = command.find("  ").unwrap_or(command.len());
        &line[..line.len() - command.len() + end]
    })
}

#[test]
fn every_verb_has_help_with_examples_and_is_completed() {
    let verbs = [
        vec!["serve"],
        vec!["log"],
        vec!["token"],
        vec!["validate"],
        vec!["schema"],
        vec!["completions"],
        vec!["doctor"],
        vec!["bench"],
        vec!["agents"],
        vec!["inbox"],
        vec!["send"],
        vec!["breaker"],
        vec!["dead-letters"],
        vec!["access", "explain"],
        vec!["task", "list"],
        vec!["task", "show"],
        vec!["task", "cancel"],
        vec!["task", "watch"],
        vec!["objective", "list"],
        vec!["send", "task-request"],
        vec!["send", "task-response"],
        vec!["send", "status-update"],
        vec!["send", "review-request"],
        vec!["send", "review-response"],
        vec!["send", "knowledge-share"],
        vec!["send", "broadcast"],
        vec!["send", "-"],
        vec!["objective", "show"],
        vec!["objective", "cancel"],
        vec!["objective", "approve"],
        vec!["log", "thread"],
        vec!["log", "show"],
        vec!["log", "verify"],
        vec!["config"],
        vec!["backup"],
        vec!["restore"],
    ];
    let completed = ["bash", "zsh", "fish"].map(|shell| output(&["completions", shell]));
    for verb in &verbs {
        let help = output(&[verb.as_slice(), &["--help"]].concat());
        assert!(help.contains("Example"), "{verb:?}: {help}");
        let too_long: Vec<_> = commands(&help).filter(|line| line.chars().count() > 80).collect();
        assert!(too_long.is_empty(), "broken when pasted from a terminal: {too_long:?}");
        for text in &completed {
            assert!(verb.iter().all(|word| text.contains(word)), "{verb:?}");
        }
    }
    // Words of closed sets, too.
    assert!(completed.iter().all(|text| text.contains("changes_requested")), "verdicts");
}
