use std::io::Write;

use a2a_protocol::{Kind, limits};
use serde_json::{Value, json};

use crate::openclaw_a2a;

fn valid_line() -> String {
    serde_json::to_string(&Kind::Broadcast.example_message()).unwrap()
}

fn run(args: &[&str], input: impl Into<Vec<u8>>) -> (Option<i32>, String, String) {
    let output = openclaw_a2a().args(args).write_stdin(input).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn verdicts(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn verdicts_come_in_input_order_with_file_and_line() {
    let input = format!("{}\n\n  \t\r\n{{}}\nnot json\r\n{}", valid_line(), valid_line());
    let (code, out, _) = run(&["validate", "--format", "json"], input);
    assert_eq!(code, Some(1));
    let verdicts = verdicts(&out);
    let seen: Vec<_> =
        verdicts.iter().map(|v| (v["line"].as_u64().unwrap(), v["valid"] == true)).collect();
    assert_eq!(seen, [(1, true), (4, false), (5, false), (6, true)]);
    assert_eq!(verdicts[0], json!({"file": "-", "line": 1, "valid": true, "errors": []}));
    assert_eq!(verdicts[2]["errors"][0]["path"], "");
    assert_eq!(verdicts[2]["errors"][0]["code"], "not_json");
}

#[test]
fn a_leading_a2a_is_skipped() {
    let (code, out, _) = run(&["a2a", "validate"], valid_line());
    assert_eq!((code, out.as_str()), (Some(0), "-:1: valid\n"));
}

#[test]
fn several_files_are_read_in_turn_and_a_missing_one_is_distinguished() {
    let folder = tempfile::tempdir().unwrap();
    let good = folder.path().join("good.jsonl");
    std::fs::write(&good, valid_line() + "\n").unwrap();
    let good = good.to_str().unwrap();
    let (code, out, err) = run(&["validate", "absent.jsonl", good], "");
    assert_eq!(code, Some(2));
    assert_eq!(out, format!("{good}:1: valid\n"));
    assert!(err.contains("cannot open absent.jsonl"), "{err}");
    let (code, out, _) = run(&["validate", "--format", "json", good, good], "");
    assert_eq!(code, Some(0));
    assert_eq!(verdicts(&out).len(), 2);
}

#[test]
fn a_folder_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let (code, _, err) = run(&["validate", folder.path().to_str().unwrap()], "");
    assert_eq!(code, Some(2), "{err}");
}

#[test]
fn progress_payloads_are_checked_with_their_own_rules() {
    let input = "{\"trackers\":[{\"id\":\"a\",\"progress\":11,\"total\":10}]}\n{\"trackers\":[]}\n";
    let (code, out, _) = run(&["validate", "--kind", "progress", "--format", "json"], input);
    assert_eq!(code, Some(1));
    let verdicts = verdicts(&out);
    assert_eq!(verdicts[0]["errors"][0]["path"], "/trackers/0/progress");
    assert_eq!(verdicts[0]["errors"][0]["code"], "mismatch");
    assert_eq!(verdicts[1]["valid"], true);
}

#[test]
fn a_line_over_the_limit_is_refused_and_the_next_one_read() {
    let exact = {
        let line = valid_line();
        let padding = " ".repeat(limits::MESSAGE_BYTES - line.len());
        line + &padding
    };
    let input = format!("{exact}\n{exact} \n{}\n{}", "x".repeat(10_000_000), valid_line());
    let (code, out, _) = run(&["validate", "--format", "json"], input);
    assert_eq!(code, Some(1));
    let codes: Vec<_> = verdicts(&out).iter().map(|v| v["errors"][0]["code"].clone()).collect();
    assert_eq!(codes, [json!(null), json!("too_large"), json!("too_large"), json!(null)]);
}

#[test]
fn text_output_names_place_code_and_remedy_without_terminal_escapes() {
    let input = valid_line().replace("\"scope\"", "\"\\u001b[31mscoep\"");
    let (code, out, err) = run(&["validate"], input);
    assert_eq!(code, Some(1));
    assert!(out.starts_with("-:1: invalid\n"), "{out}");
    assert!(out.contains("/payload/scope: missing: `scope` is missing."), "{out}");
    assert!(out.contains("\\u{1b}[31mscoep: unknown_field:"), "{out}");
    assert!(!out.contains('\u{1b}'), "{out}");
    assert_eq!(err, "0 valid, 1 invalid\n");
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("openclaw-a2a"))
        .arg("validate")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    let line = valid_line() + "\n";
    // The program may stop reading as soon as it notices; writing on is then an error of ours.
    while stdin.write_all(line.as_bytes()).is_ok() && child.try_wait().unwrap().is_none() {}
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn line_ends_of_other_systems_and_long_blank_lines_do_not_count() {
    let line = valid_line();
    let exact = format!("{line}{}", " ".repeat(limits::MESSAGE_BYTES - line.len()));
    let input = format!("{exact}\r\n{}\n{line}\r\n", " ".repeat(300_000));
    let (code, out, _) = run(&["validate"], input);
    assert_eq!((code, out.as_str()), (Some(0), "-:1: valid\n-:3: valid\n"));
}
