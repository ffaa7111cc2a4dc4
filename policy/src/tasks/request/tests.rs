//! Requests built from tasks.

use super::*;

fn task(parts: Value) -> Task {
    serde_json::from_value(json!({
        "id": "0192a4c8-7e1a-7b3c-9d4e-000000000003",
        "contextId": "talk",
        "status": {"state": "TASK_STATE_WORKING", "timestamp": "2026-02-21T18:30:00.000Z"},
        "history": [{"messageId": "m1", "role": "ROLE_USER", "parts": parts}],
    }))
    .unwrap()
}

fn request(task: &Task) -> Envelope {
    request_in(task, None)
}

fn request_in(task: &Task, version: Option<&str>) -> Envelope {
    let envelope = dispatch(task, version).message;
    // The bus accepts the message.
    Envelope::parse(&envelope.to_json()).unwrap()
}

fn dispatch(task: &Task, version: Option<&str>) -> TaskDispatch {
    let (principal, agent) = ("acme".parse().unwrap(), "tim".parse().unwrap());
    let correlation = "0192a4c8-7e1a-7b3c-9d4e-000000000002".parse().unwrap();
    let (principal, agent) = (&principal, &agent);
    let request = Request { task, principal, agent, correlation, earlier_messages: &[], version };
    let now = Now { utc: chrono::DateTime::UNIX_EPOCH, uptime: std::time::Duration::ZERO };
    task_request(&request, now).unwrap()
}

#[test]
fn dispatch_reports_whether_it_is_whole() {
    let small = task(json!([{"text": "Count"}]));
    assert!(dispatch(&small, None).whole);
    assert!(dispatch(&small, Some("0.3")).whole);
    let large = task(json!([{"text": "x".repeat(200_000)}]));
    assert!(!dispatch(&large, None).whole, "a part stays with the task");
    let mut noted = small.clone();
    noted.metadata = json!({"colour": "blue"}).as_object().cloned();
    assert!(!dispatch(&noted, None).whole, "the task's own metadata do not travel");
    let mut again = small.clone();
    again.history.push(again.history[0].clone());
    assert!(!dispatch(&again, None).whole, "more was said before");
}

#[test]
fn short_text_is_the_whole_description_and_title_is_one_line() {
    let described = |text: &str| {
        let envelope = request(&task(json!([{"text": text}])));
        let Body::TaskRequest(body) = envelope.body else { panic!() };
        (body.title.to_string(), body.description.to_string())
    };
    let (title, description) = described("  Count\n\tthe  kinds ");
    assert_eq!(
        (title.as_str(), description.as_str()),
        ("Count the kinds", "  Count\n\tthe  kinds ")
    );
    assert!(describes_whole(&description));
    assert!(!describes_whole(&described(" \n").1), "there is no text");
    for (delivery, count) in [("x", DESCRIPTION_CHARS), ("ü", DESCRIPTION_CHARS + 1)] {
        let (title, description) = described(&delivery.repeat(count));
        assert_eq!(title, delivery.repeat(limits::TITLE_CHARS));
        assert_eq!(description.chars().count(), DESCRIPTION_CHARS);
        assert!(!describes_whole(&description), "it may have been cut");
    }
}

fn context_of(envelope: &Envelope) -> Value {
    let Body::TaskRequest(body) = &envelope.body else { panic!() };
    body.context.as_ref().unwrap().to_value()
}

#[test]
fn reused_message_id_makes_a_new_request() {
    let mut task = task(json!([{"text": "one"}]));
    let first = request(&task).message_id;
    assert_eq!(request(&task).message_id, first, "the same after a restart");
    let again = task.history[0].clone();
    task.history.push(again);
    assert_ne!(request(&task).message_id, first);
}

#[test]
fn small_message_is_sent_whole() {
    let parts = json!([{"text": "Count\nthe kinds"}, {"data": {"n": [1, null]}}]);
    let envelope = request(&task(parts.clone()));
    let Body::TaskRequest(body) = &envelope.body else { panic!() };
    assert_eq!(body.title.as_str(), "Count the kinds");
    assert_eq!(&*body.description, "Count\nthe kinds");
    let context = context_of(&envelope);
    assert_eq!(context["a2a"]["parts"], parts);
    assert_eq!(context["contextId"], "talk");
}

#[test]
fn version_of_caller_is_sent() {
    let task = task(json!([{"text": "hi"}]));
    assert!(context_of(&request(&task)).get("a2aVersion").is_none());
    assert_eq!(context_of(&request_in(&task, Some("0.3")))["a2aVersion"], "0.3");
}

#[test]
fn oversized_part_is_sent_by_reference() {
    let deep = (0..40).fold(json!(1), |inner, _| json!([inner]));
    for part in [
        json!({"raw": "A".repeat(200_000)}),
        json!({"text": "x".repeat(40_000)}),
        json!({"text": "a\u{0}b"}),
        json!({"data": deep}),
        json!({"data": vec![0; 1_001]}),
    ] {
        let context = context_of(&request(&task(json!([part, {"text": "small"}]))));
        assert_eq!(context["a2a"]["parts"][0]["reference"]["part"], 0, "{part:.60}");
        assert_eq!(context["a2a"]["parts"][1]["text"], "small");
    }
}

#[test]
fn longest_request_is_a_valid_bus_message() {
    request(&task(json!([{"text": "\u{1}".repeat(16_000)}, {"data": vec![0; 999]}])));
    request(&task(json!([{"text": "\u{1f980}".repeat(32_768)}])));
}

#[test]
fn dispatch_id_is_stable_per_message() {
    let id: TaskId = "0192a4c8-7e1a-7b3c-9d4e-000000000003".parse().unwrap();
    let (one, two) = ("m1".try_into().unwrap(), "m2".try_into().unwrap());
    assert_eq!(dispatch_id(id, &one, 0), dispatch_id(id, &one, 0));
    assert_ne!(dispatch_id(id, &one, 0), dispatch_id(id, &two, 0));
}
