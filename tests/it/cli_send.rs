use serde_json::{Value, json};

use crate::command::{CliFixture, run};
use crate::server::{id_of, new_id};

/// Flags of each kind, and the payload they make.
fn kinds(task: &str) -> Vec<(Vec<&str>, Value)> {
    vec![
        (
            vec!["status-update", "--progress", "Half of it", "--status", "in-progress"],
            json!({"status": "in_progress", "progress": "Half of it"}),
        ),
        (
            vec![
                "review_request",
                "--title",
                "R",
                "--branch",
                "b",
                "--file",
                "a.rs",
                "--task",
                task,
            ],
            json!({"taskId": task, "title": "R", "branch": "b", "worktree": ".",
                "filesForReview": ["a.rs"], "authorAgent": "roman"}),
        ),
        (
            vec![
                "knowledge-share",
                "--topic",
                "T",
                "--discovery",
                "D",
                "--relevant-to",
                "tim,roman",
                "--action",
                "Do it",
            ],
            json!({"topic": "T", "discovery": "D", "relevantTo": ["tim", "roman"],
                "source": "the command line", "actionable": true, "suggestedAction": "Do it"}),
        ),
        (
            vec!["broadcast", "--topic", "T", "--message", "M"],
            json!({"scope": "org", "topic": "T", "message": "M", "urgency": "fyi"}),
        ),
    ]
}

#[test]
fn every_kind_is_sent_from_flags_with_sane_defaults() {
    let cli = CliFixture::start();
    let task = new_id();
    for (flags, payload) in kinds(&task) {
        let args = [&["send"], flags.as_slice(), &["--from", "roman", "--to", "tim"]].concat();
        let receipt = cli.json(&args);
        assert_eq!(receipt["outcome"], "queued", "{receipt}");
        assert_eq!(receipt["recipients"], json!([{"agentId": "tim", "outcome": "queued"}]));
        let record = &cli.server.whole_log(100)[0];
        assert_eq!(
            (&record["messageId"], &record["seq"]),
            (&receipt["messageId"], &receipt["seq"])
        );
        assert_eq!(record["message"]["payload"], payload);
        assert_eq!(record["message"]["priority"], "normal");
        assert_eq!(record["by"], "roman");
    }
}

#[test]
fn a_task_is_asked_for_answered_and_reviewed_without_repeating_what_is_known() {
    let cli = CliFixture::start();
    let asked = cli.json(&[
        "send",
        "task-request",
        "--from",
        "roman",
        "--to",
        "tim",
        "--title",
        "Count",
        "--type",
        "research",
        "--priority",
        "high",
        "--deadline",
        "2h",
        "--criterion",
        "It is a number",
        "--branch",
        "b",
        "--file",
        "a.rs",
    ]);
    let [task, talk] = ["taskId", "correlationId"].map(|key| asked[key].as_str().unwrap());
    let message = |at: usize| cli.server.whole_log(100)[at]["message"].clone();
    let request = message(0);
    assert_eq!(
        (&request["priority"], &request["payload"]["taskType"]),
        (&json!("high"), &json!("research"))
    );
    assert_eq!(request["payload"]["description"], "Count", "the title will do");
    assert_eq!(request["payload"]["complexity"], "medium");
    assert_eq!(request["payload"]["context"], json!({"branch": "b", "relatedFiles": ["a.rs"]}));
    assert_eq!(request["payload"]["acceptanceCriteria"], json!(["It is a number"]));

    // To the requester, in the same conversation.
    let output = cli.text(&[
        "send",
        "task_response",
        "--from",
        "tim",
        "--task",
        task,
        "--action",
        "completed",
        "--summary",
        "Seven",
        "--next-step",
        "Tell them",
    ]);
    assert!(output.contains("to            roman (queued)"), "{output}");
    assert!(output.contains(&format!("\nnext: openclaw-a2a log thread {talk}\n")), "{output}");
    let answer = message(0);
    assert_eq!(answer["correlationId"], talk);
    assert_eq!(
        answer["payload"]["result"],
        json!({"summary": "Seven", "nextSteps": ["Tell them"]})
    );

    let review = [
        "send",
        "review-request",
        "--from",
        "tim",
        "--to",
        "roman",
        "--title",
        "R",
        "--branch",
        "b",
        "--file",
        "a.rs",
        "--task",
        task,
    ];
    assert_eq!(cli.json(&review)["correlationId"], talk);
    // Back to the author, with what follows from the verdict.
    let verdict = [
        "send",
        "review-response",
        "--from",
        "roman",
        "--task",
        task,
        "--verdict",
        "changes-requested",
        "--branch",
        "b",
        "--must-fix",
        "a.rs:12=It panics",
        "--fixed",
        "b.rs=Typo",
        "--next-task",
        "More",
    ];
    assert_eq!(cli.json(&verdict)["recipients"][0]["agentId"], "tim");
    let payload = message(0)["payload"].clone();
    assert_eq!(payload["nextAction"], "send_back_to_worker");
    assert_eq!(payload["reviewerFixes"], json!([{"file": "b.rs", "description": "Typo"}]));
    assert_eq!(payload["nextTasks"], json!([{"title": "More"}]));
    let concern =
        json!({"file": "a.rs", "line": 12, "severity": "must_fix", "description": "It panics"});
    assert_eq!(payload["unresolvedConcerns"], json!([concern]));
}

#[test]
fn a_person_sends_under_a_name_of_its_own_and_is_answered() {
    let cli = CliFixture::start();
    let asked = cli.json(&["send", "task-request", "--to", "tim", "--title", "Count"]);
    let record = &cli.server.whole_log(100)[0];
    assert_eq!((&record["by"], &record["via"]), (&json!("operator"), &json!("operator:local")));
    let task = asked["taskId"].as_str().unwrap();
    cli.json(&["send", "task-response", "--from", "tim", "--task", task, "--action", "completed"]);
    let waiting = cli.json(&["inbox", "operator"]);
    assert_eq!(waiting["messages"][0]["message"]["payload"]["taskId"], task);
    let body =
        json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Sing"}]}});
    // Only a person gets that name, and it is no agent.
    assert_eq!(cli.server.send(&crate::server::message("human", "tim", "hi")).status, 403);
    let names = cli.json(&["agents"])["agents"].as_array().unwrap().clone();
    assert!(!names.iter().any(|agent| agent["agentId"] == "operator"), "{names:?}");
    assert_eq!(
        cli.server.post("/agents/operator/message:send", body.to_string().as_bytes()).status,
        404
    );
}

#[test]
fn answers_to_people_wait_for_them_across_a_restart() {
    let cli = CliFixture::with_config("[[agents]]\nid = \"tim\"\n[[agents]]\nid = \"roman\"\n");
    let asked = cli.json(&["send", "task-request", "--to", "tim", "--title", "Count"]);
    let task = asked["taskId"].as_str().unwrap();
    cli.json(&["send", "task-response", "--from", "tim", "--task", task, "--action", "accepted"]);
    let CliFixture { folder, server } = cli;
    assert_eq!(server.terminate().code(), Some(0));
    let cli = CliFixture { server: crate::server::Server::start(folder.path()), folder };
    assert_eq!(cli.json(&["inbox", "operator"])["messages"].as_array().unwrap().len(), 1);
    let taken = cli.json(&["inbox", "operator", "--take", "1"]);
    cli.json(&["inbox", "operator", "--ack", id_of(&taken["messages"][0])]);
    assert_eq!(cli.text(&["inbox", "operator"]), "nothing waits for operator\n");
    let listed = cli.json(&["agents"]);
    assert_eq!(listed["agents"].as_array().unwrap().len(), 2, "{listed}");
}

#[test]
fn a_whole_message_gets_what_it_lacks_and_stays_as_it_was_written() {
    let cli = CliFixture::start();
    let payload = r#"{"scope": "org", "topic": "T", "message": "M", "urgency": "fyi"}"#;
    let input = format!("{{\"type\": \"broadcast\", \"payload\": {payload}}}");
    for args in [["send", "-", "--from", "roman"], ["send", "--json", "--from", "roman"]] {
        let output = cli.run_with(&args, &input);
        assert_eq!((output.code, output.err.as_str()), (Some(0), ""), "{}", output.out);
        let message = &cli.server.whole_log(10)[0]["message"];
        assert_eq!(
            (&message["from"]["agentId"], &message["priority"]),
            (&json!("roman"), &json!("normal"))
        );
        assert_eq!(message["protocol"], "openclaw.a2a.v1");
    }
    // Whole already: the same bytes twice are one message.
    let mut whole: Value = serde_json::from_str(&input).unwrap();
    let sent = crate::server::message("roman", "tim", "x");
    for key in ["protocol", "messageId", "correlationId", "timestamp", "from", "priority"] {
        whole[key] = sent[key].clone();
    }
    let twice =
        [0, 1].map(|_| cli.run_with(&["send", "-", "--format", "json"], &whole.to_string()));
    let outcome = |text: &str| serde_json::from_str::<Value>(text).unwrap()["outcome"].clone();
    assert_eq!(twice.each_ref().map(|output| output.code), [Some(0), Some(0)]);
    assert_eq!(twice.map(|output| outcome(&output.out)), [json!("queued"), json!("duplicate")]);
    // A duplicate key is not lost on the way.
    let output = cli.run_with(&["send", "-"], "{\"type\": \"broadcast\", \"type\": \"broadcast\"}");
    assert!(output.code == Some(1) && output.out.contains("duplicate_key"), "{}", output.out);
    let output = cli.run_with(&["send", "-", "--from", "tim"], &whole.to_string());
    assert!(
        output.code == Some(2) && output.err.contains("leave one of them out"),
        "{}",
        output.err
    );
    let before = cli.server.whole_log(100).len();
    let output = cli.run_with(&["send", "-", "--format", "json"], "no message");
    assert_eq!((output.code, outcome(&output.out)), (Some(1), json!("invalid")));
    assert_eq!(cli.run_with(&["send", "-"], " ").code, Some(2));
    assert_eq!(cli.server.whole_log(100).len(), before, "neither was sent");
}

#[test]
fn refusal_lists_everything_and_explains_what_to_do() {
    let cli = CliFixture::with_config(
        "[[access]]\nname = \"no-tasks\"\nallow = false\nkinds = [\"task_request\"]\nfrom = \"roman\"\n",
    );
    let blank = ["send", "status-update", "--to", "tim", "--progress", " ", "--status", "blocked"];
    let output = cli.run(&blank);
    assert_eq!((output.code, output.err.as_str()), (Some(1), ""));
    for words in [
        "invalid  status_update",
        "/payload/progress  blank: ",
        "/payload/blockedBy  missing: ",
        "next: openclaw-a2a schema status_update",
    ] {
        assert!(output.out.contains(words), "{}", output.out);
    }
    let output = cli.run(&[&blank[..], &["--format", "json"]].concat());
    let receipt: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!((output.code, receipt["errors"].as_array().unwrap().len()), (Some(1), 2));
    let task = ["--title", "Count"];
    for (args, words) in [
        (
            ["--from", "roman", "--to", "tim"],
            "next: openclaw-a2a access explain roman tim task_request",
        ),
        (["--from", "tim", "--to", "romann"], "did you mean `roman`? Ask"),
        (["--from", "system", "--to", "tim"], "no agent may send under it"),
    ] {
        let output = cli.run(&[&["send", "task-request"], &args[..], &task].concat());
        assert_eq!(output.code, Some(1), "{}", output.err);
        assert!(output.out.contains(words), "{}", output.out);
    }
    let unknown = new_id();
    let output = cli.run(&[
        "send",
        "task-response",
        "--from",
        "tim",
        "--to",
        "roman",
        "--task",
        &unknown,
        "--action",
        "accepted",
    ]);
    assert!(
        output.code == Some(1) && output.out.contains(&format!("task show {unknown}")),
        "{}",
        output.out
    );
    // What cannot be sent at all.
    for (args, words) in [
        (vec!["send", "task-request", "--title", "x"], "--to"),
        (vec!["send", "gossip"], "unrecognized"),
        (vec!["send", "broadcast", "--topic", "t", "--message", "m", "--scope", "orgg"], "'org'"),
        (vec!["send", "task-request", "--to", "a b", "--title", "x"], "--to"),
        (vec!["send", "task-request", "--to", "tim", "--title", "x", "--deadline", "soon"], "15m"),
    ] {
        let output = cli.run(&args);
        assert!(output.code == Some(2) && output.err.contains(words), "{args:?}: {}", output.err);
    }
}

#[test]
fn without_a_server_or_a_token_it_prints_how_to_get_one() {
    let folder = tempfile::tempdir().unwrap();
    let send = ["send", "broadcast", "--topic", "t", "--message", "m"];
    let verbs: [&[&str]; 6] = [
        &send,
        &["agents"],
        &["inbox", "tim"],
        &["task", "list"],
        &["breaker", "list"],
        &["dead-letters", "list"],
    ];
    for args in verbs {
        let output = run(folder.path(), args, "");
        assert_eq!((output.code, output.out.as_str()), (Some(2), ""), "{args:?}");
        assert!(output.err.contains("openclaw-a2a serve"), "{args:?}: {}", output.err);
    }
    assert!(!folder.path().join("data").exists(), "looking makes nothing");

    let cli = CliFixture::start();
    let token = |whose: [&str; 2]| {
        let made = run(cli.folder.path(), &["token", "create", whose[0], whose[1]], "");
        made.out.trim().to_owned()
    };
    let (tim, david) = (token(["--agent", "tim"]), token(["--operator", "david"]));
    for args in verbs {
        let output = cli.run(args);
        assert_eq!(output.code, Some(2), "{args:?}");
        assert!(output.err.contains("--token, or in OPENCLAW_TOKEN"), "{args:?}: {}", output.err);
    }
    let as_tim = cli.run(&["dead-letters", "list", "--token", &tim]);
    assert!(as_tim.code == Some(2) && as_tim.err.contains("operator's token"), "{}", as_tim.err);
    // An agent's token is that agent's; a person's is marked where it speaks for an agent.
    let refused = cli.run(&[&send[..], &["--token", &tim]].concat());
    assert!(refused.code == Some(1) && refused.out.contains("You are `tim`"), "{}", refused.out);
    cli.json(&[&send[..], &["--from", "tim", "--token", &tim]].concat());
    cli.json(&[&send[..], &["--token", &david]].concat());
    cli.json(&[&send[..], &["--from", "roman", "--token", &david]].concat());
    let log = cli.server.client().bearing(&david).whole_log(10);
    let who = |at: usize| (log[at]["by"].clone(), log[at]["via"].clone());
    assert_eq!(who(0), (json!("roman"), json!("operator:david")));
    assert_eq!(who(1), (json!("operator"), json!("operator:david")));
    assert_eq!(who(2), (json!("tim"), Value::Null));
}

#[test]
fn broadcast_that_reaches_nobody_prints_so() {
    let cli = CliFixture::start();
    let send = ["send", "broadcast", "--topic", "t", "--message", "m", "--scope", "c_suite"];
    let sent = cli.text(&send);
    assert!(sent.starts_with("delivered") && sent.contains("  to            no agent"), "{sent}");
    let sent = cli.text(&["send", "status-update", "--to", "tim", "--progress", "p"]);
    assert!(!sent.contains("no agent"), "{sent}");
}
