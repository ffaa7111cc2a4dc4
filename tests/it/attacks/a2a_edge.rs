//! Rows 6, 13, 14, 25 and 26 at the doors of A2A: where webhooks may go, bodies that are meant to
//! hurt, streams that only stay, pages of other origins, shapes that are mixed.

use serde_json::json;

use crate::a2a_caller::{Caller, FAR, FORMS, Form, id};
use crate::a2a_worker::Worker;
use crate::server::{Answer, Server};

fn start(folder: &std::path::Path) -> (Server, Worker) {
    let server = Server::with_config(folder, FAR);
    let tim = Worker::tim(&server);
    (server, tim)
}

const URLS: &[&str] = &[
    "http://example.com/hook",
    "https://127.0.0.1/hook",
    "https://localhost/hook",
    "https://localhost./hook",
    "https://[::1]/hook",
    "https://[::ffff:127.0.0.1]/hook",
    "https://2130706433/hook",
    "https://0x7f000001/hook",
    "https://0177.0.0.1/hook",
    "https://127.1/hook",
    "https://0.0.0.0/hook",
    "https://10.0.0.1/hook",
    "https://192.168.1.1/hook",
    "https://172.16.0.1/hook",
    "https://100.64.0.1/hook",
    "https://169.254.169.254/latest/meta-data",
    "https://[fe80::1]/hook",
    "https://[fd00::1]/hook",
    "https://user:pass@example.com/hook",
    "https://example.com@127.0.0.1/hook",
    "ftp://example.com/hook",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "//example.com/hook",
    "example.com",
    "",
    "https://",
];

#[test]
fn webhooks_lead_nowhere_near_us() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    for form in FORMS {
        let caller = Caller::of(&server, form, "tim");
        let task = id(&caller.begin(json!({})).unwrap());
        let request = tim.next();
        let inline = match form {
            Form::Rpc03 => "pushNotificationConfig",
            Form::Rest03 => "pushNotification",
            _ => "taskPushNotificationConfig",
        };
        let total = caller.list(&[]).unwrap()["totalSize"].clone();
        for url in URLS {
            let refused = caller.set_push(&task, &json!({"id": "x", "url": url})).unwrap_err();
            assert_eq!(refused.code, -32602, "{form:?} {url} {refused:?}");
            let message_key = if form == Form::Rest03 { "request" } else { "message" };
            let params = json!({
                message_key: caller.message(json!({})),
                "configuration": {inline: {"url": url}, "returnImmediately": true,
                    "blocking": false},
            });
            let refused = caller.send(params).unwrap_err();
            assert_eq!(refused.code, -32602, "{form:?} inline {url} {refused:?}");
        }
        assert_eq!(caller.list(&[]).unwrap()["totalSize"], total, "{form:?}");
        let wishes = caller.list_pushes(&task).unwrap();
        assert!(!wishes.to_string().contains("hook"), "{form:?} {wishes}");
        tim.complete(&request, "done");
        crate::a2a_http::until(&caller, &task, "completed");
    }
    assert!(!tim.has_work());
}

/// A small answer of a type that callers can read.
fn is_typed(answer: &Answer, why: &str) {
    // What begins as a batch is answered as one.
    let first = answer.body.get(0).unwrap_or(&answer.body);
    let code = &first["error"]["code"];
    let refused = match answer.status {
        200 => code.as_i64().is_some_and(|code| code < -32000),
        400..=499 => true,
        _ => false,
    };
    assert!(refused, "{why}: {answer:?}");
    assert!(answer.body.to_string().len() < 4_096, "{why}: a long answer");
}

#[test]
fn bodies_that_are_meant_to_hurt_are_refused_with_a_type() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let deep_objects = format!("{}1{}", "{\"a\":".repeat(10_000), "}".repeat(10_000));
    let message = |inside: &str| {
        format!(r#"{{"messageId":"m","role":"ROLE_USER","parts":[{{"text":"x"}}],{inside}}}"#)
    };
    let send = |message: &str| format!(r#"{{"message":{message}}}"#);
    let cases: Vec<(&str, String)> = vec![
        ("depth", deep.clone()),
        ("depth of objects", deep_objects.clone()),
        ("depth of metadata", send(&message(&format!(r#""metadata":{deep_objects}"#)))),
        ("depth of data", send(&message(&format!(r#""parts":[{{"data":{deep}}}]"#)))),
        ("two keys", send(&message(r#""messageId":"n""#))),
        ("two messages", format!(r#"{{"message":{0},"message":{0}}}"#, message(r#""x":1"#))),
        ("NaN", send(&message(r#""metadata":{"a":NaN}"#))),
        ("infinity", send(&message(r#""metadata":{"a":Infinity}"#))),
        ("a huge number", send(&message(r#""metadata":{"a":1e999999}"#))),
        ("a lone surrogate", send(&message(r#""contextId":"\ud800""#))),
        ("NUL in an id", send(&message("\"contextId\":\"a\\u0000b\""))),
        ("NUL in a text", send(&message("\"metadata\":{\"a\":\"\\u0000\"}"))),
        ("a bare NUL", "\0".to_owned()),
        ("a long id", send(&message(&format!(r#""contextId":"{}""#, "x".repeat(100_000))))),
        ("a null id", send(r#"{"messageId":null,"role":"ROLE_USER","parts":[{"text":"x"}]}"#)),
        ("no parts", send(r#"{"messageId":"m","role":"ROLE_USER","parts":[]}"#)),
        (
            "an agent's role",
            send(r#"{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"x"}]}"#),
        ),
        ("two contents", send(&message(r#""parts":[{"text":"x","url":"https://a"}]"#))),
        ("bad base64", send(&message(r#""parts":[{"raw":"***"}]"#))),
        ("an array for the message", r#"{"message":["m","ROLE_USER"]}"#.to_owned()),
    ];
    for (why, body) in &cases {
        is_typed(&server.post("/agents/tim/message:send", body.as_bytes()), why);
        is_typed(&server.post("/agents/tim/v1/message:send", body.as_bytes()), why);
        for method in ["SendMessage", "message/send", "SendStreamingMessage"] {
            let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{body}}}"#);
            is_typed(&server.post("/agents/tim/a2a", call.as_bytes()), why);
        }
        is_typed(&server.post("/agents/tim/a2a", body.as_bytes()), why);
    }
    let long = "x".repeat(500_000);
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": long});
    is_typed(&server.post("/a2a", call.to_string().as_bytes()), "a long method");
    for bytes in [b"\xff\xfe".as_slice(), b"{\"message\":\"\xc3\x28\"}"] {
        is_typed(&server.post("/agents/tim/a2a", bytes), "no UTF-8");
        is_typed(&server.post("/agents/tim/message:send", bytes), "no UTF-8");
    }
    assert!(!tim.has_work(), "none of it was taken");
    let caller = Caller::of(&server, Form::Rest10, "tim");
    assert_eq!(caller.list(&[]).unwrap()["totalSize"], 0);
    caller.begin(json!({})).unwrap();
    tim.next();
}

#[test]
fn streams_that_only_stay_are_counted_and_cost_others_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("{FAR}[http]\nmax_streams = 40\n");
    let server = Server::with_config(folder.path(), &config);
    let tim = Worker::tim(&server);
    let caller = Caller::of(&server, Form::Rpc10, "tim");
    let task = id(&caller.begin(json!({})).unwrap());
    let request = tim.next();
    let mut idle = Vec::new();
    let refused = loop {
        let own = Caller::of(&server.client(), FORMS[idle.len() % 4], "tim");
        match own.subscribe(&task) {
            Ok(stream) => idle.push(stream),
            Err(refused) => break refused,
        }
        assert!(idle.len() <= 40, "there is no limit");
    };
    assert_eq!((idle.len(), refused.code), (40, -32055), "{refused:?}");
    // Everything else continues, and permits are released.
    let other = id(&caller.begin(json!({})).unwrap());
    let second = tim.next();
    tim.complete(&second, "done");
    crate::a2a_http::until(&caller, &other, "completed");
    tim.complete(&request, "done");
    for stream in idle {
        assert_eq!(stream.rest().last().unwrap().word(), "completed");
    }
    let open = id(&caller.begin(json!({})).unwrap());
    tim.next();
    // A place is free once the server has seen that the reader is gone.
    let again = (0..10_000).find_map(|_| caller.subscribe(&open).ok());
    assert!(again.is_some());
}

#[test]
fn other_names_and_other_pages_are_not_served() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    for form in FORMS {
        let caller = Caller::of(&server, form, "tim");
        for (header, value, status) in [
            ("host", "evil.example", 421),
            ("origin", "https://evil.example", 403),
            ("origin", "null", 403),
            ("sec-fetch-site", "cross-site", 403),
        ] {
            let page = caller.with(header, value);
            assert_eq!(page.begin(json!({})).unwrap_err().answer.status, status, "{form:?}");
            assert_eq!(page.list(&[]).unwrap_err().answer.status, status, "{form:?}");
        }
    }
    for card in ["/.well-known/agent-card.json", "/agents/tim/.well-known/agent-card.json"] {
        let page = server.client().with("origin", "https://evil.example").get(card);
        assert_eq!(page.status, 200, "what anybody may know");
        assert!(!page.headers.contains_key("access-control-allow-origin"));
        assert_eq!(server.client().with("host", "evil.example").get(card).status, 421);
    }
    assert!(!tim.has_work());
}

#[test]
fn shapes_of_both_versions_mixed_are_read_and_answered_in_the_version_called() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    let parts = [
        json!([{"kind": "text", "text": "a"}]),
        json!([{"type": "text", "text": "a"}]),
        json!([{"text": "a"}]),
    ];
    for (method, wrapped) in [("message/send", false), ("SendMessage", true)] {
        for (parts, role) in parts.iter().zip(["user", "ROLE_USER", "user"]) {
            let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {
                "message": {"messageId": crate::server::new_id(), "role": role, "parts": parts},
                "configuration": {"returnImmediately": true, "blocking": false},
            }});
            let answer = server.post("/agents/tim/a2a", call.to_string().as_bytes());
            let result = &answer.body["result"];
            assert_eq!(result.get("task").is_some(), wrapped, "{method} {answer:?}");
            assert_eq!(result["kind"] == "task", !wrapped, "{method} {answer:?}");
            assert_eq!(tim.next()["payload"]["title"], "a", "{method}");
        }
    }
    // Header and method name different versions: both are supported here.
    let caller = Caller::of(&server, Form::Rpc03, "tim").with("a2a-version", "1.0");
    assert!(caller.list(&[]).unwrap()["tasks"].is_array());
}
