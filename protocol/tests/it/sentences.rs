use a2a_protocol::{Code, Envelope, Violation};
use serde_json::{Value, json};

fn violations(change: impl Fn(&mut Value)) -> Vec<Violation> {
    let mut message = json!({
        "protocol": "openclaw.a2a.v1",
        "messageId": "0192a4c8-7e1a-7b3c-9d4e-000000000001",
        "timestamp": "2026-02-21T18:30:00.000Z",
        "from": {"agentId": "roman", "sessionKey": "agent:roman:main"},
        "to": {"agentId": "tim"},
        "type": "task_request",
        "priority": "normal",
        "correlationId": "0192a4c8-7e1a-7b3c-9d4e-000000000002",
        "payload": {
            "taskId": "0192a4c8-7e1a-7b3c-9d4e-000000000003",
            "title": "Build", "description": "Build it", "taskType": "implementation", "complexity": "low"
        },
    });
    change(&mut message);
    Envelope::parse(message.to_string().as_bytes())
        .expect_err("a damaged message")
        .into_violations()
}

fn only(change: impl Fn(&mut Value)) -> Violation {
    let mut found = violations(change);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn a_missing_field_is_explained_by_its_own_description() {
    let violation = only(|m| drop(m["payload"].as_object_mut().unwrap().remove("title")));
    assert_eq!(
        violation.message,
        "`title` is missing. Add it to \"payload\": a string — One line that names the work."
    );
    let violation = only(|m| drop(m["payload"].as_object_mut().unwrap().remove("complexity")));
    assert_eq!(violation.allowed, ["trivial", "low", "medium", "high", "expert"]);
}

#[test]
fn misspelt_field_or_value_gets_a_suggestion() {
    let violation = only(|m| m["payload"]["accpetanceCriteria"] = json!([]));
    assert_eq!(violation.suggestion.as_deref(), Some("acceptanceCriteria"));
    assert_eq!(
        violation.message,
        "There is no field \"accpetanceCriteria\" here. Did you mean `acceptanceCriteria`?"
    );
    let violation = only(|m| m["priority"] = json!("Urgnet"));
    assert_eq!(violation.suggestion.as_deref(), Some("urgent"));
    assert_eq!(violation.allowed, ["low", "normal", "high", "urgent"]);
    let violation = only(|m| m["priority"] = json!("asap"));
    assert_eq!(violation.suggestion, None);
    assert_eq!(
        violation.message,
        "\"priority\" cannot be \"asap\". Write `low`, `normal`, `high` or `urgent`."
    );
}

#[test]
fn null_gets_the_advice_to_omit_the_field() {
    let violation = only(|m| m["payload"]["deadline"] = Value::Null);
    assert_eq!(violation.code, Code::WrongType);
    assert_eq!(
        violation.message,
        "\"deadline\" is null. Leave the field out if it has no value; otherwise write a string."
    );
}

#[test]
fn quoted_input_is_truncated_and_escaped() {
    let violation =
        only(|m| m["to"]["agentId"] = json!(format!("\u{1b}[31m\n{}", "x".repeat(500))));
    assert_eq!(violation.code, Code::BadAgentId);
    assert!(!violation.message.contains(['\u{1b}', '\n']), "{}", violation.message);
    assert!(violation.message.len() < 300);
}

#[test]
fn all_violations_are_reported_at_once_ordered_by_path() {
    let found = violations(|m| {
        m["payload"]["title"] = json!("");
        m["payload"]["taskId"] = json!("7");
        m["from"]["sessionKey"] = json!("agent:tim:main");
        m["priority"] = json!(5);
        m.as_object_mut().unwrap().remove("timestamp");
    });
    let places: Vec<_> = found.iter().map(|v| (v.path.as_str(), v.code)).collect();
    assert_eq!(
        places,
        [
            ("/from/sessionKey", Code::Mismatch),
            ("/payload/taskId", Code::BadUuid),
            ("/payload/title", Code::Blank),
            ("/priority", Code::WrongType),
            ("/timestamp", Code::Missing),
        ]
    );
}

#[test]
fn contradiction_lists_the_allowed_values() {
    let violation = only(|m| {
        m["type"] = json!("review_response");
        m["payload"] = json!({
            "taskId": "0192a4c8-7e1a-7b3c-9d4e-000000000003", "verdict": "approved",
            "branch": "b", "worktree": "w", "nextAction": "send_back_to_worker"
        });
    });
    assert_eq!((violation.path.as_str(), violation.code), ("/payload/nextAction", Code::Mismatch));
    assert_eq!(violation.allowed, ["push_and_close", "escalate_to_senior"]);
}

#[test]
fn following_the_sentence_about_null_leads_to_a_valid_message() {
    let required = only(|m| m["payload"]["title"] = Value::Null);
    assert_eq!(required.message, "\"title\" is null, but it must be a string.");
    let item = only(|m| m["payload"]["acceptanceCriteria"] = json!(["a", null]));
    assert_eq!(
        item.message,
        "\"acceptanceCriteria\"[1] is null. Remove this item, or write a string."
    );
    let priority = only(|m| m["priority"] = json!(5));
    assert_eq!(priority.allowed, ["low", "normal", "high", "urgent"]);
}

#[test]
fn common_mistakes_of_models_get_a_correction() {
    let advises = |change: &dyn Fn(&mut Value), part: &str| {
        let message = only(change).message;
        assert!(message.contains(part), "{message}");
    };
    advises(&|m| m["to"] = json!("tim"), r#"Write {"agentId":"tim"}."#);
    advises(&|m| m["payload"]["acceptanceCriteria"] = json!("done"), r#"Write ["done"]."#);
    advises(&|m| m["payload"] = json!("{\"taskId\": 1}"), "not a string of JSON");
    advises(&|m| m["payload"]["to"] = json!("tim"), "beside `payload`");
    advises(
        &|m| drop(m.as_object_mut().unwrap().remove("payload")),
        "an object with `taskId`, `title`,",
    );
    advises(&|m| drop(m.as_object_mut().unwrap().remove("from")), "an object with `agentId`");
    advises(&|m| m["timestamp"] = json!("2026-02-30T00:00:00Z"), "not a moment that exists");
    advises(&|m| m["messageId"] = json!("0192a4c8-7e1a-4b3c-9d4e-000000000001"), "it is version 4");
}

#[test]
fn text_that_is_not_json_gets_the_reason() {
    for (text, part) in [
        ("```json\n{}\n```", "Markdown fence"),
        ("\u{feff}{}", "byte order mark"),
        (r#"{"a": "\ud800"}"#, "half of a surrogate pair"),
        ("{'a': 1}", "double-quoted keys"),
    ] {
        let report = Envelope::parse(text.as_bytes()).unwrap_err();
        assert!(report.to_string().contains(part), "{report}");
    }
}

#[test]
fn many_deep_violations_do_not_displace_those_at_the_top() {
    let found = violations(|m| {
        m["priority"] = json!("soon");
        m["payload"]["acceptanceCriteria"] = json!(vec![Value::Null; 1_001]);
    });
    assert!(found.iter().any(|v| v.path == "/priority"));
    assert!(found.iter().any(|v| v.path == "/payload/acceptanceCriteria"));
}
