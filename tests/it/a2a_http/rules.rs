//! JSON-RPC 2.0 and HTTP themselves: batches, notifications, what is no call.

use serde_json::{Value, json};

use super::{start, start_with, until};
use crate::a2a_caller::{Caller, FORMS, Form, id, state};
use crate::server::{Answer, Server, new_id};

fn rpc(server: &Server, body: &str) -> Answer {
    server.post("/agents/tim/a2a", body.as_bytes())
}

fn error(answer: &Answer) -> (Value, Value) {
    assert_eq!((answer.status, answer.content_type.as_str()), (200, "application/json"));
    assert_eq!(answer.body["jsonrpc"], "2.0");
    assert!(answer.body.get("result").is_none(), "{answer:?}");
    (answer.body["error"]["code"].clone(), answer.body["id"].clone())
}

#[test]
fn invalid_call_is_answered_with_its_id_if_it_has_one() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    for (body, code, id) in [
        ("", -32700, Value::Null),
        ("{", -32700, Value::Null),
        ("\u{feff}{}", -32700, Value::Null),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"#, -32700, Value::Null),
        ("7", -32600, Value::Null),
        ("\"text\"", -32600, Value::Null),
        ("{}", -32600, Value::Null),
        ("[]", -32600, Value::Null),
        (r#"{"jsonrpc":"1.0","id":1,"method":"tasks/get"}"#, -32600, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600, json!(1)),
        (r#"{"jsonrpc":"2.0","id":"a","method":7}"#, -32600, json!("a")),
        (r#"{"jsonrpc":"2.0","id":{},"method":"tasks/get"}"#, -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":"\ud83d","method":"tasks/get"}"#, -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":1e400,"method":"tasks/get"}"#, -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":"\ud83d\ude00","method":"x"}"#, -32601, json!("😀")),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"tasks/get"}"#, -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tasks/nothing"}"#, -32601, json!(1)),
        (r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, -32601, Value::Null),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get"}"#, -32602, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":[1]}"#, -32602, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{}}"#, -32602, json!(1)),
    ] {
        assert_eq!(error(&rpc(&server, body)), (json!(code), id), "{body}");
    }
    assert!(!tim.has_work());
}

#[test]
fn an_id_comes_back_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let (server, _tim) = start(folder.path());
    let numbers = ["0", "-1", "123456789012345678901234567890", "1.50", "\"\\u00e9\\n\""];
    for id in numbers {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tasks/list"}}"#);
        let raw = raw(&server, &body);
        assert!(raw.contains(&format!("\"id\":{id},")), "{raw}");
    }
}

/// The body of an answer as it came: reading it would change its numbers.
fn raw(server: &Server, body: &str) -> String {
    let agent: ureq::Agent = ureq::Agent::config_builder().proxy(None).build().into();
    let answer = agent.post(format!("{}/agents/tim/a2a", server.url())).send(body).unwrap();
    answer.into_body().read_to_string().unwrap()
}

#[test]
fn a_batch_is_answered_call_by_call() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    let call = |id: Value, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let caller = Caller::of(&server, Form::Rpc10, "tim");
    let message = caller.message(json!({}));
    let notified = new_id();
    let batch = json!([
        call(json!(1), "GetTask", json!({"id": new_id()})),
        call(json!("two"), "tasks/list", json!({})),
        7,
        call(json!(4), "nothing", json!({})),
        call(json!(5), "SendStreamingMessage", json!({"message": message})),
        {"jsonrpc": "2.0", "method": "SendMessage", "params": {
            "message": caller.message(json!({"contextId": notified})),
            "configuration": {"returnImmediately": true},
        }},
        {"jsonrpc": "2.0", "method": "nothing"},
        call(json!(8), "message/send", json!({"message": {"messageId": "m", "role": "user",
            "parts": [{"kind": "text", "text": "x"}]}, "configuration": {"blocking": false}})),
    ]);
    let answer = rpc(&server, &batch.to_string());
    let answers = answer.body.as_array().unwrap();
    let found = |id: Value| {
        let mut of_id = answers.iter().filter(|answer| answer["id"] == id);
        let found = of_id.next().unwrap_or_else(|| panic!("{id} of {answers:?}"));
        assert!(of_id.next().is_none(), "{id} twice");
        found
    };
    assert_eq!(answers.len(), 6, "{answers:?}");
    assert_eq!(found(json!(1))["error"]["code"], -32001);
    assert!(found(json!("two"))["result"]["tasks"].is_array());
    assert_eq!(found(Value::Null)["error"]["code"], -32600);
    assert_eq!(found(json!(4))["error"]["code"], -32601);
    assert_eq!(found(json!(5))["error"]["code"], -32600);
    assert_eq!(found(json!(8))["result"]["kind"], "task");
    // The notification was processed without an answer; the stream was not.
    let of = [("contextId", json!(notified))];
    assert_eq!(caller.list(&of).unwrap()["totalSize"], 1);
    assert_eq!(caller.list(&[]).unwrap()["totalSize"], 2);
    let contexts =
        [tim.next(), tim.next()].map(|request| request["payload"]["context"]["a2a"].clone());
    assert!(contexts.iter().any(|a2a| a2a["contextId"] == json!(notified)), "{contexts:?}");
}

#[test]
fn notification_gets_no_answer_and_a_batch_has_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let (server, _tim) = start(folder.path());
    let silent = json!({"jsonrpc": "2.0", "method": "tasks/get", "params": {"id": "x"}});
    let unknown = json!({"jsonrpc": "2.0", "method": "x"});
    for body in [silent.clone(), json!([silent, silent]), json!([unknown, unknown])] {
        let answer = rpc(&server, &body.to_string());
        assert_eq!((answer.status, answer.body), (204, Value::Null));
    }
    // A single one that is no sound call of A2A: see docs/decisions/0008.
    let unsound = json!({"jsonrpc": "2.0", "method": "tasks/get", "params": {}});
    for (body, code) in [(unknown, -32601), (unsound, -32602)] {
        let answer = rpc(&server, &body.to_string()).body;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(code)));
    }
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/list"});
    let many = Value::Array(vec![call.clone(); 50]);
    assert_eq!(rpc(&server, &many.to_string()).body.as_array().unwrap().len(), 50);
    let too_many = Value::Array(vec![call; 51]);
    assert_eq!(error(&rpc(&server, &too_many.to_string())), (json!(-32600), Value::Null));
}

#[test]
fn paths_take_their_methods_and_list_them() {
    let folder = tempfile::tempdir().unwrap();
    let (server, _tim) = start(folder.path());
    for below in ["", "/v1", "/agents/tim", "/agents/tim/v1"] {
        for (verb, path, allowed) in [
            ("GET", "message:send", "POST"),
            ("GET", "message:stream", "POST"),
            ("POST", "tasks", "GET"),
            ("DELETE", "tasks/x", "GET"),
            ("GET", "tasks/x:cancel", "POST"),
            ("DELETE", "tasks/x:subscribe", "GET, POST"),
            ("PUT", "tasks/x/pushNotificationConfigs", "GET, POST"),
            ("POST", "tasks/x/pushNotificationConfigs/y", "DELETE, GET"),
        ] {
            let answer = server.call(verb, &format!("{below}/{path}"), &json!({}));
            assert_eq!(answer.status, 405, "{verb} {below}/{path} {answer:?}");
            assert_eq!(answer.headers["allow"], allowed, "{verb} {below}/{path}");
        }
        for path in ["message:sing", "task", "tasks/x/y"] {
            let answer = server.get(&format!("{below}/{path}"));
            assert!(matches!(answer.status, 404 | 400), "{below}/{path} {answer:?}");
        }
    }
    for path in ["/a2a", "/agents/tim/a2a"] {
        let answer = server.get(path);
        assert_eq!((answer.status, &answer.headers["allow"]), (405, &"POST".parse().unwrap()));
    }
}

#[test]
fn a_body_over_http_is_read_or_refused_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start_with(folder.path(), "[http]\nmax_body_kib = 4\n");
    let large = "x".repeat(5_000);
    for path in
        ["/a2a", "/agents/tim/a2a", "/message:send", "/v1/message:stream", "/tim/message:send"]
    {
        let answer = server.post(path, large.as_bytes());
        assert_eq!((answer.status, &answer.body["code"]), (413, &json!("too_large")), "{path}");
    }
    for (path, kind) in [
        ("/agents/tim/message:send", "application/a2a+json"),
        ("/agents/tim/v1/message:send", "application/json"),
    ] {
        for body in ["", "{", "[]", "null", "{\"message\":[]}", "{\"message\":{}}", "\u{0}"] {
            let answer = server.post(path, body.as_bytes());
            assert_eq!((answer.status, answer.content_type.as_str()), (400, kind), "{path} {body}");
        }
        let answer = server.post(path, b"{\"message\":\"\xff\"}");
        assert_eq!(answer.status, 400, "{answer:?}");
    }
    assert!(!tim.has_work());
}

#[test]
fn media_types_that_are_not_taken_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    for form in FORMS {
        let caller = Caller::of(&server, form, "tim");
        let parts = match form {
            Form::Rpc03 => json!([{"kind": "file",
                "file": {"bytes": "AAEC", "mimeType": "application/x-evil"}}]),
            Form::Rest03 => json!([{"file":
                {"fileWithBytes": "AAEC", "mimeType": "application/x-evil"}}]),
            _ => json!([{"raw": "AAEC", "mediaType": "application/x-evil"}]),
        };
        let key = if form == Form::Rest03 { "content" } else { "parts" };
        let refused = caller.ask(json!({ key: parts })).unwrap_err();
        assert_eq!(refused.code, -32005, "{form:?} {refused:?}");
        let output = refused.answer.body.to_string();
        assert!(output.contains("application/x-evil") && output.contains("text/*"), "{output}");
    }
    assert!(!tim.has_work());
}

#[test]
fn a_notification_is_work_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    let caller = Caller::of(&server, Form::Rpc10, "tim");
    let body = json!({"jsonrpc": "2.0", "method": "SendMessage", "params":
        {"message": caller.message(json!({})), "configuration": {"returnImmediately": true}}});
    assert_eq!(rpc(&server, &body.to_string()).status, 204);
    tim.complete(&tim.next(), "done");
    let task = id(&caller.list(&[]).unwrap()["tasks"][0]);
    assert_eq!(state(&until(&caller, &task, "completed")), "completed");
}

/// Programs differ in which of the two they take.
#[test]
fn duplicate_key_is_refused_at_any_depth() {
    let folder = tempfile::tempdir().unwrap();
    let (server, tim) = start(folder.path());
    let twice = r#"{"a":{"b~/":1,"c":2,"b~/":3}}"#;
    let message = |inside: &str| {
        let id = new_id();
        format!(r#"{{"message":{{"messageId":"{id}","role":"ROLE_USER",{inside}}}}}"#)
    };
    for (params, path) in [
        (
            message(&format!(r#""parts":[{{"text":"x"}}],"metadata":{twice}"#)),
            "/message/metadata/a/b~0~1",
        ),
        (
            message(&format!(r#""parts":[{{"text":"x"}},{{"data":[{twice}]}}]"#)),
            "/message/parts/1/data/0/a/b~0~1",
        ),
        (
            message(&format!(r#""parts":[{{"text":"x","metadata":{twice}}}]"#)),
            "/message/parts/0/metadata/a/b~0~1",
        ),
        (
            message(r#""parts":[{"text":"x"}]"#).replacen(
                '{',
                &format!(r#"{{"metadata":{twice},"#),
                1,
            ),
            "/metadata/a/b~0~1",
        ),
    ] {
        let call =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{params}}}"#);
        let answer = rpc(&server, &call);
        assert_eq!(error(&answer), (json!(-32602), json!(1)), "{call}");
        let output = answer.body["error"].to_string();
        assert!(output.contains(path) && output.contains("duplicate_key"), "{output}");
        let answer = server.post("/agents/tim/message:send", params.as_bytes());
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(answer.body.to_string().contains(path), "{answer:?}");
    }
    assert!(server.get("/bus/tasks/a2a").body["tasks"].as_array().unwrap().is_empty());
    drop(tim);
}
