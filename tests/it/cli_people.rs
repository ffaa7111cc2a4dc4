use serde_json::{Value, json};

use crate::command::CliFixture;
use crate::server::{id_of, message, new_id};

#[test]
fn agents_are_listed_and_shown() {
    let cli = CliFixture::start();
    let profile = json!({"role": "VP Architecture", "squad": "core", "tier": "T1", "capabilities": ["review"]});
    cli.server.put("/bus/agents/tim", &profile);
    cli.server.accepted(&message("roman", "tim", "hi"));
    let table = cli.text(&["agents"]);
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines[0], "ID     PRESENCE  SESSIONS  PENDING  SQUAD  TIER  ROLE");
    assert_eq!(lines[1], "roman  online    0         0");
    assert_eq!(lines[2], "tim    online    0         1        core   T1    VP Architecture");
    let roman = &cli.json(&["agents"])["agents"][0];
    assert_eq!((&roman["agentId"], &roman["presence"]), (&json!("roman"), &json!("online")));
    assert_eq!(cli.jsonl(&["agents"])[1]["agentId"], "tim");
    let tim = cli.text(&["agents", "tim"]);
    assert!(
        tim.contains("  capabilities  review\n") && tim.contains("next: openclaw-a2a inbox tim"),
        "{tim}"
    );
    assert!(tim.contains("  pending       1 (") && tim.contains(" bytes)\n"), "{tim}");
    assert_eq!(cli.json(&["agents", "tim"])["squad"], "core");
    cli.fails_with(&["agents", "timm"], "openclaw-a2a agents");
    assert_eq!(cli.run(&["agents", "a b"]).code, Some(2));
}

#[test]
fn looking_into_an_inbox_takes_and_counts_nothing() {
    let cli = CliFixture::start();
    assert_eq!(cli.text(&["inbox", "tim"]), "nothing waits for tim\n");
    let sent = message("roman", "tim", "first");
    cli.server.accepted(&sent);
    let mut urgent = message("roman", "tim", "second");
    urgent["priority"] = json!("urgent");
    cli.server.accepted(&urgent);
    for _ in 0..3 {
        let table = cli.text(&["inbox", "tim"]);
        let lines: Vec<_> = table.lines().collect();
        assert!(lines[0].starts_with("SEQ  STATE    ATTEMPTS  FROM   TYPE"), "{table}");
        assert!(
            lines[1].contains(id_of(&urgent)) && lines[1].ends_with("in_progress: second"),
            "{table}"
        );
        assert!(lines[2].contains("  waiting  0         roman  status_update  "), "{table}");
    }
    let seen = cli.jsonl(&["inbox", "tim"]);
    assert_eq!((&seen[1]["message"], &seen[1]["attempts"]), (&sent, &json!(0)));
    assert!(cli.text(&["inbox", "tim", "--limit", "1"]).ends_with("\nand 1 more (--limit)\n"));
    // It registers no agent and updates no presence.
    cli.fails_with(&["inbox", "nobody"], "There is no agent `nobody`");
    assert_eq!(cli.json(&["agents"])["agents"].as_array().unwrap().len(), 2);
    // The next poll has them for the first time.
    let taken = cli.server.inbox("tim", "limit=2");
    assert_eq!(taken.iter().map(|one| one["attempt"].clone()).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(cli.jsonl(&["inbox", "tim"])[0]["state"], "taken");
    let bad = cli.server.try_inbox("tim", "peek=true&wait=1s").unwrap();
    assert_eq!(bad.status, 400, "{bad:?}");
}

#[test]
fn messages_are_taken_acknowledged_and_given_back() {
    let cli = CliFixture::with_config(
        "[delivery]\nfirst_pause_ms = 3600000\nlongest_pause_ms = 3600000\n",
    );
    let [first, second] = ["first", "second"].map(|text| message("roman", "tim", text));
    for sent in [&first, &second] {
        cli.server.accepted(sent);
    }
    cli.fails_with(&["inbox", "tim", "--ack", id_of(&first)], "--take 1");
    let text = cli.text(&["inbox", "tim", "--take", "1"]);
    assert!(text.contains("\"progress\": \"first\""), "{text}");
    assert!(
        text.contains(&format!("next: openclaw-a2a inbox tim --ack {}", id_of(&first))),
        "{text}"
    );
    let acknowledged = cli.json(&["inbox", "tim", "--ack", id_of(&first)]);
    assert_eq!(acknowledged, json!({"messageId": id_of(&first), "event": "acknowledged"}));
    let taken = cli.json(&["inbox", "tim", "--take", "5", "--wait", "30s"]);
    assert_eq!(taken["messages"][0]["message"], second);
    let back = cli.text(&["inbox", "tim", "--nack", id_of(&second), "--reason", "not now"]);
    assert!(back.starts_with(&format!("{} is returned: ", id_of(&second))), "{back}");
    let seen = cli.jsonl(&["inbox", "tim"]);
    assert_eq!((&seen[0]["state"], &seen[0]["attempts"]), (&json!("pausing"), &json!(1)));
    assert!(cli.text(&["inbox", "tim"]).contains("  again in "), "it pauses");
    assert_eq!(cli.text(&["inbox", "tim", "--take", "1"]), "nothing waits for tim\n");
    let log = cli.text(&["log", "show", id_of(&second)]);
    assert!(log.contains("not now"), "{log}");
    for args in [["--take", "0"], ["--wait", "1s"], ["--reason", "x"], ["--ack", "x"]] {
        assert_eq!(cli.run(&[&["inbox", "tim"], &args[..]].concat()).code, Some(2), "{args:?}");
    }
}

#[test]
fn waiting_poll_gets_the_next_message() {
    let cli = CliFixture::start();
    let sent = message("roman", "tim", "late");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| cli.json(&["inbox", "tim", "--take", "1", "--wait", "60s"]));
        // Whether it asks before or after, it gets the message.
        cli.server.accepted(&sent);
        assert_eq!(waits.join().unwrap()["messages"][0]["message"], sent);
    });
}

#[test]
fn access_is_explained_with_the_rule() {
    let cli = CliFixture::with_config(
        "[[access]]\nname = \"no-tasks\"\nallow = false\nkinds = [\"task_request\"]\nfrom = \"roman\"\n",
    );
    let text = cli.text(&["access", "explain", "roman", "tim", "status-update"]);
    assert!(text.starts_with("allowed by the rule default\n"), "{text}");
    let output = cli.run(&["access", "explain", "roman", "tim", "task_request"]);
    assert_eq!((output.code, output.err.as_str()), (Some(1), ""));
    assert!(output.out.starts_with("refused by the rule no-tasks\n"), "{}", output.out);
    let output = cli.run(&[
        "access",
        "explain",
        "roman",
        "tim",
        "broadcast",
        "--scope",
        "c_suite",
        "--format",
        "json",
    ]);
    let answer: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!((output.code, &answer["rule"]), (Some(1), &json!("c-suite-scope")));
    cli.fails_with(&["access", "explain", "roman", "timm", "broadcast"], "not known here");
    let output = cli.run(&["access", "explain", "roman", "tim", "task-reqest"]);
    assert!(output.code == Some(2) && output.err.contains("task_request"), "{}", output.err);
}

#[test]
fn conversations_are_stopped_and_resumed() {
    let cli = CliFixture::start();
    assert_eq!(cli.text(&["breaker", "list"]), "no open circuits\n");
    let talk = new_id();
    let key = format!("correlation:{talk}");
    let stopped = cli.json(&["breaker", "trip", &talk, "--reason", "let us talk"]);
    assert_eq!((&stopped["key"], &stopped["reason"]), (&json!(key), &json!("manual")));
    let table = cli.text(&["breaker", "list"]);
    assert!(
        table.contains(&format!("{key}  open   manual")) && table.contains("until it is reset"),
        "{table}"
    );
    assert_eq!(cli.jsonl(&["breaker", "list"])[0]["key"], json!(key));
    let output =
        cli.run(&["send", "broadcast", "--topic", "t", "--message", "m", "--conversation", &talk]);
    assert!(
        output.code == Some(1)
            && output.out.contains(&format!("next: openclaw-a2a breaker show {key}")),
        "{}",
        output.out
    );
    let shown = cli.text(&["breaker", "show", &key]);
    assert!(
        shown.contains("  evidence  let us talk\n") && shown.contains("  tripped  manual"),
        "{shown}"
    );
    let shown = cli.json(&["breaker", "show", &talk]);
    assert_eq!(shown["events"][0]["event"], "tripped");
    assert_eq!(cli.text(&["breaker", "reset", &talk]), format!("{key} is closed\n"));
    cli.fails_with(&["breaker", "reset", &talk, "--format", "json"], "is not stopped");
    cli.fails_with(&["breaker", "show", &key], "openclaw-a2a breaker list");
    let output = cli.run(&["breaker", "show", "tim"]);
    assert!(output.code == Some(2) && output.err.contains("pair:<from>"), "{}", output.err);
}

#[test]
fn dead_letters_are_shown_retried_and_dropped() {
    let cli = CliFixture::with_config("[delivery]\nattempts = 1\n");
    assert_eq!(cli.text(&["dead-letters", "list"]), "there are no dead letters\n");
    // One that several could not handle.
    let mut sent = message("main", "tim", "x");
    sent["type"] = json!("knowledge_share");
    sent["payload"] = json!({"topic": "T", "discovery": "D", "relevantTo": ["tim", "roman"],
        "source": "S", "actionable": false});
    let seq = cli.server.accepted(&sent)["seq"].to_string();
    for agent in ["tim", "roman"] {
        assert_eq!(cli.server.inbox(agent, "wait=10s").len(), 1);
        assert_eq!(cli.server.settle(agent, id_of(&sent), "nack").status, 200);
    }
    let table = cli.text(&["dead-letters", "list"]);
    assert_eq!(table.lines().count(), 3, "{table}");
    assert!(table.contains(&format!("\n{seq}    main  roman  1         given back")), "{table}");
    assert_eq!(cli.jsonl(&["dead-letters", "list"]).len(), 2);
    assert_eq!(cli.json(&["dead_letters", "list"]), cli.server.get("/bus/dead-letters").body);
    let output = cli.run(&["dead-letters", "show", &seq]);
    assert!(
        output.code == Some(2) && output.err.contains("of roman, tim; name one"),
        "{}",
        output.err
    );
    let shown = cli.text(&["dead-letters", "show", &seq, "tim"]);
    assert!(
        shown.contains("\"discovery\": \"D\"") && shown.contains("  type          knowledge_share"),
        "{shown}"
    );
    assert_eq!(cli.json(&["dead-letters", "show", &seq, "tim"])["message"], sent);
    let again = cli.json(&["dead-letters", "retry", &seq, "tim"]);
    assert_eq!((&again["event"], &again["agentId"]), (&json!("returned"), &json!("tim")));
    assert_eq!(cli.server.inbox("tim", "wait=10s")[0]["message"], sent);
    // Now only one has that number.
    let dropped = cli.text(&["dead-letters", "drop", &seq]);
    assert!(dropped.starts_with(&format!("{seq} of roman is dropped\n")), "{dropped}");
    for verb in ["show", "retry", "drop"] {
        cli.fails_with(&["dead-letters", verb, &seq], "openclaw-a2a dead-letters list");
    }
    assert_eq!(cli.run(&["dead-letters", "show", "x"]).code, Some(2));
}
