//! Valid and invalid JSON-RPC bodies, HTTP+JSON paths and queries, and hostile bytes.

use a2a_protocol::Code;
use a2a_protocol::fault::Fault;
use a2a_protocol::operation::{GetTask, ListTasks, Operation, PushKey, Reply};
use a2a_protocol::task::TaskState;
use a2a_protocol::wire::jsonrpc::{self, Id, Incoming, Item};
use a2a_protocol::wire::rest::{self, NoRoute};
use a2a_protocol::wire::{Dialect, Method, Version, decode, reply};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::wire_domain::label;

/// Summary of a parsed body: for each item its id, and its method or error code.
fn shape(body: &[u8]) -> String {
    let item = |item: &Item<'_>| match item {
        Ok(request) => {
            let id = request.id.map_or("none".to_owned(), |id| id.as_json().to_owned());
            format!("{id} {} {}", request.method, request.params.unwrap_or("-"))
        }
        Err(refused) => format!("{} {}", refused.id.as_json(), refused.refusal.code()),
    };
    match jsonrpc::parse(body, 3) {
        Ok(Incoming::One(one)) => item(&one),
        Ok(Incoming::Batch(items)) => {
            format!("[{}]", items.iter().map(item).collect::<Vec<_>>().join(", "))
        }
        Err(refusal) => refusal.code().to_string(),
    }
}

#[test]
fn body_is_parsed_as_json_rpc_specifies() {
    let deep = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{}"#, "[".repeat(100_000));
    let cases: Vec<(&str, &str)> = vec![
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}"#, r#"1 m {"a":1}"#),
        (r#" {"id":"x","method":"m","jsonrpc":"2.0","more":{}} "#, r#""x" m -"#),
        (r#"{"jsonrpc":"2.0","method":"m"}"#, "none m -"),
        (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, "null m -"),
        (
            r#"{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"m"}"#,
            "123456789012345678901234567890 m -",
        ),
        (r#"{"jsonrpc":"2.0","id":1.50,"method":"m"}"#, "1.50 m -"),
        (r#"{"jsonrpc":"2.0","id":-1e400,"method":"m"}"#, "-32600"),
        (r#"{"jsonrpc":"2.0","id":"\u0061\"","method":"\u006d"}"#, r#""\u0061\"" m -"#),
        // Invalid JSON.
        ("", "-32700"),
        ("{", "-32700"),
        (r#"{"jsonrpc":"2.0","method":"m","params":{"foo":"bar"}"#, "-32700"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m"} x"#, "-32700"),
        ("[{]", "-32700"),
        ("nul", "-32700"),
        (&deep, "-32700"),
        // JSON, but not a call.
        ("1", "-32600"),
        ("null", "-32600"),
        (r#""text""#, "-32600"),
        ("{}", "null -32600"),
        (r#"{"jsonrpc":"aaa","id":7,"method":"m"}"#, "7 -32600"),
        (r#"{"jsonrpc":2.0,"id":7,"method":"m"}"#, "7 -32600"),
        (r#"{"id":7,"method":"m"}"#, "7 -32600"),
        (r#"{"jsonrpc":"2.0","id":7}"#, "7 -32600"),
        (r#"{"jsonrpc":"2.0","id":7,"method":1}"#, "7 -32600"),
        (r#"{"jsonrpc":"2.0","id":{"bad":1},"method":"m"}"#, "-32600"),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"m"}"#, "-32600"),
        (r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#, "-32600"),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#, "-32600"),
        // Batches.
        ("[]", "-32600"),
        ("[1,{}]", "[null -32600, null -32600]"),
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"b"}]"#,
            "[1 a -, none b -]",
        ),
        ("[1,1,1,1]", "-32600"),
        ("[[]]", "[null -32600]"),
    ];
    for (body, expected) in cases {
        assert_eq!(shape(body.as_bytes()), expected, "{}", &body[..body.len().min(100)]);
    }
    assert_eq!(shape(b"\xff{}"), "-32700");
    let refusal = jsonrpc::parse(b"[1,1,1,1]", 3).unwrap_err();
    assert_eq!(refusal, a2a_protocol::wire::error::Refusal::BatchTooLarge { calls: 4, most: 3 });
}

#[test]
fn response_repeats_the_id_unchanged() {
    let body = br#"{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"m"}"#;
    let Ok(Incoming::One(Ok(request))) = jsonrpc::parse(body, 1) else { panic!() };
    let id = request.id.unwrap();
    let answer = jsonrpc::success(id, &reply(Dialect::V1_0, Method::DeletePush, &Reply::Deleted));
    assert_eq!(answer, r#"{"jsonrpc":"2.0","id":123456789012345678901234567890,"result":null}"#);
    let wrong = jsonrpc::refusal(Id::NULL, &jsonrpc::parse(b"{", 1).unwrap_err());
    let wrong: Value = serde_json::from_str(&wrong).unwrap();
    assert_eq!((&wrong["id"], &wrong["error"]["code"]), (&Value::Null, &json!(-32700)));
    assert_eq!(wrong["error"]["data"][0]["reason"], "PARSE_ERROR");
    assert_eq!(jsonrpc::batch(&[]), None);
    assert_eq!(jsonrpc::batch(&["1".into(), "2".into()]).as_deref(), Some("[1,2]"));
}

#[test]
fn path_is_routed_to_its_method() {
    let cases = [
        ("POST", "message:send", Ok(Method::SendMessage)),
        ("POST", "/message:stream", Ok(Method::StreamMessage)),
        ("GET", "tasks", Ok(Method::ListTasks)),
        ("GET", "tasks/x", Ok(Method::GetTask)),
        ("POST", "tasks/x:cancel", Ok(Method::CancelTask)),
        ("GET", "tasks/x:subscribe", Ok(Method::Subscribe)),
        ("POST", "tasks/x:subscribe", Ok(Method::Subscribe)),
        ("POST", "tasks/x/pushNotificationConfigs", Ok(Method::SetPush)),
        ("GET", "tasks/x/pushNotificationConfigs", Ok(Method::ListPushes)),
        ("GET", "tasks/x/pushNotificationConfigs/c", Ok(Method::GetPush)),
        ("DELETE", "tasks/x/pushNotificationConfigs/c", Ok(Method::DeletePush)),
        ("GET", "extendedAgentCard", Ok(Method::ExtendedCard)),
        ("GET", "card", Err(NoRoute::Unknown)),
        ("GET", "", Err(NoRoute::Unknown)),
        ("GET", "tasks/", Ok(Method::ListTasks)),
        ("GET", "tasks/%ff", Err(NoRoute::Unknown)),
        ("GET", "tasks/%2", Err(NoRoute::Unknown)),
        ("GET", "tasks/x/y", Err(NoRoute::Unknown)),
        ("POST", "tasks/:cancel", Err(NoRoute::Unknown)),
        ("GET", "message:send", Err(NoRoute::Verb { allowed: "POST" })),
        ("PUT", "tasks/x:subscribe", Err(NoRoute::Verb { allowed: "GET, POST" })),
    ];
    for (verb, path, expected) in cases {
        let found = rest::route(Version::V1_0, verb, path).map(|route| route.method);
        assert_eq!(found, expected, "{verb} {path}");
    }
    let card = rest::route(Version::V0_3, "GET", "card").map(|route| route.method);
    assert_eq!(card, Ok(Method::ExtendedCard));
}

fn asked(
    version: Version,
    verb: &str,
    path: &str,
    query: &str,
    body: &str,
) -> Result<a2a_protocol::wire::Decoded, Fault> {
    let route = rest::route(version, verb, path).unwrap();
    rest::decode(version, &route, Some(query), (!body.is_empty()).then_some(body.as_bytes()))
}

#[test]
fn query_and_path_are_decoded_as_parameters() {
    let get =
        |id: &str, history_length| Operation::GetTask(GetTask { id: label(id), history_length });
    let got =
        asked(Version::V1_0, "GET", "tasks/a%3Ab", "historyLength=2&A2A-Version=1.0", "").unwrap();
    assert_eq!((got.operation, got.dialect), (get("a:b", Some(2)), Dialect::V1_0));
    let got = asked(Version::V0_3, "GET", "tasks/x", "history_length=2", "").unwrap();
    assert_eq!((got.operation, got.dialect), (get("x", Some(2)), Dialect::V0_3Proto));
    let query = "contextId=a+b&status=TASK_STATE_WORKING&pageSize=5&includeArtifacts=true&pageToken=&tenant=t";
    let got = asked(Version::V1_0, "GET", "tasks", query, "").unwrap();
    assert_eq!(got.tenant.as_deref(), Some("t"));
    let Operation::ListTasks(list) = got.operation else { panic!() };
    let expected = ListTasks {
        context_id: Some("a b".try_into().unwrap()),
        status: Some(TaskState::Working),
        page_size: Some(5),
        include_artifacts: true,
        ..ListTasks::default()
    };
    assert_eq!(list, expected);
    for version in [Version::V0_3, Version::V1_0] {
        let got = asked(version, "DELETE", "tasks/x/pushNotificationConfigs/c", "", "").unwrap();
        let key = PushKey { task_id: label("x"), id: Some(label("c")) };
        assert_eq!(got.operation, Operation::DeletePush(key));
    }
    for (query, path) in [
        ("pageSize=0", "/pageSize"),
        ("pageSize=ten", "/pageSize"),
        ("pageSize=1&pageSize=2", "/pageSize"),
        ("status=busy", "/status"),
        ("includeArtifacts=1", "/includeArtifacts"),
        ("a=%zz", ""),
        ("contextId=%00", ""),
    ] {
        let Err(Fault::InvalidParams(found)) = asked(Version::V1_0, "GET", "tasks", query, "")
        else {
            panic!("{query}")
        };
        assert_eq!(found[0].path, path, "{query}");
    }
}

#[test]
fn bodies_of_http_json_are_read_in_every_form() {
    let cancel = "tasks/x:cancel";
    for body in ["", "{}", r#"{"name":"tasks/x"}"#, r#"{"id":"x","metadata":{}}"#] {
        for version in [Version::V0_3, Version::V1_0] {
            let got = asked(version, "POST", cancel, "", body).unwrap();
            assert_eq!(Method::from(&got.operation), Method::CancelTask, "{body}");
            assert_eq!(got.dialect, rest::default_dialect(version));
        }
    }
    let Err(Fault::InvalidParams(found)) =
        asked(Version::V1_0, "POST", cancel, "", r#"{"id":"y"}"#)
    else {
        panic!()
    };
    assert_eq!((found[0].path.as_str(), found[0].code), ("/id", Code::Mismatch));

    let pushes = "tasks/x/pushNotificationConfigs";
    let hook = r#"{"id":"c","url":"https://example.com","token":"","authentication":{}}"#;
    let bodies = [
        (format!(r#"{{"taskId":"x","pushNotificationConfig":{hook}}}"#), Dialect::V0_3),
        (format!(r#"{{"name":"tasks/x/pushNotificationConfigs/c","pushNotificationConfig":{hook}}}"#), Dialect::V0_3Proto),
        (format!(r#"{{"parent":"tasks/x","config_id":"c","config":{{"push_notification_config":{hook}}}}}"#), Dialect::V0_3Proto),
        (r#"{"parent":"tasks/x","configId":"c","config":{"pushNotificationConfig":{"url":"https://example.com"}}}"#.into(), Dialect::V0_3Proto),
    ];
    for (body, dialect) in bodies {
        let got = asked(Version::V0_3, "POST", pushes, "", &body).unwrap();
        let Operation::SetPush(config) = got.operation else { panic!() };
        assert_eq!((config.task_id, config.id), (Some(label("x")), Some(label("c"))), "{body}");
        assert_eq!(
            (config.url.as_str(), config.token, config.authentication),
            ("https://example.com", None, None)
        );
        assert_eq!(got.dialect, dialect, "{body}");
    }
    let Err(Fault::InvalidParams(found)) =
        asked(Version::V0_3, "POST", pushes, "", r#"{"config":{}}"#)
    else {
        panic!()
    };
    assert_eq!(found[0].path, "/config/pushNotificationConfig");
}

/// The SDKs of 0.3 omit `false`, and send `true` to wait.
#[test]
fn blocking_is_read_in_every_form() {
    let cases = [
        (Version::V1_0, r#""parts":[{"text":"a"}]"#, "", false),
        (
            Version::V1_0,
            r#""parts":[{"text":"a"}]"#,
            r#","configuration":{"returnImmediately":true}"#,
            true,
        ),
        (Version::V0_3, r#""parts":[{"kind":"text","text":"a"}]"#, "", false),
        (Version::V0_3, r#""parts":[{"kind":"text","text":"a"}]"#, r#","configuration":{}"#, false),
        (
            Version::V0_3,
            r#""parts":[{"kind":"text","text":"a"}]"#,
            r#","configuration":{"blocking":false}"#,
            true,
        ),
        (Version::V0_3, r#""content":[{"text":"a"}]"#, "", false),
        (Version::V0_3, r#""content":[{"text":"a"}]"#, r#","configuration":{}"#, true),
        (
            Version::V0_3,
            r#""content":[{"text":"a"}]"#,
            r#","configuration":{"blocking":true}"#,
            false,
        ),
    ];
    for (version, parts, configuration, at_once) in cases {
        let params =
            format!(r#"{{"message":{{"messageId":"m","role":"user",{parts}}}{configuration}}}"#);
        let Operation::SendMessage(send) =
            decode(version, Method::SendMessage, Some(&params)).unwrap().operation
        else {
            panic!()
        };
        assert_eq!(send.return_immediately, at_once, "{params}");
    }
}

/// Texts similar to calls: fields of the protocol with values of every kind.
fn similar_to_calls() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "message",
        "configuration",
        "metadata",
        "messageId",
        "role",
        "parts",
        "content",
        "text",
        "raw",
        "data",
        "file",
        "kind",
        "id",
        "taskId",
        "status",
        "pageSize",
        "historyLength",
        "url",
        "authentication",
        "config",
        "pushNotificationConfig",
        "schemes",
        "bytes",
        "uri",
        "blocking",
        "contextId",
        "tenant",
    ]);
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<i64>().prop_map(|n| n.to_string()),
        Just("1e999".to_owned()),
        Just(r#""\u0000""#.to_owned()),
        Just(r#""\ud800""#.to_owned()),
        "[a-zA-Z_ ]{0,12}".prop_map(|text| format!("\"{text}\"")),
        Just("\"ROLE_USER\"".to_owned()),
        Just("\"user\"".to_owned()),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        let word = word.clone();
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4)
                .prop_map(|items| format!("[{}]", items.join(","))),
            proptest::collection::vec((word, inner), 0..6).prop_map(|fields| {
                let fields: Vec<_> = fields.iter().map(|(k, v)| format!("\"{k}\":{v}")).collect();
                format!("{{{}}}", fields.join(","))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = shape(&bytes);
        let text = String::from_utf8_lossy(&bytes);
        for &method in Method::ALL {
            let _ = decode(Version::V1_0, method, Some(&text));
            let _ = Version::from_header(Some(&text));
        }
        for verb in ["GET", "POST", "DELETE"] {
            if let Ok(route) = rest::route(Version::V0_3, verb, &format!("tasks/{text}")) {
                let _ = rest::decode(Version::V0_3, &route, Some(&text), Some(&bytes));
            }
        }
    }

    #[test]
    fn text_similar_to_a_call_is_decoded_or_explained(params in similar_to_calls()) {
        for &method in Method::ALL {
            for &version in Version::ALL {
                if let Err(fault) = decode(version, method, Some(&params)) {
                    let Fault::InvalidParams(found) = &fault else { panic!("{fault:?}") };
                    prop_assert!(!found.is_empty(), "{}", params);
                    for violation in found {
                        prop_assert!(violation.message.len() < 400, "{}", violation);
                        prop_assert!(violation.message != "These parameters cannot be read.", "{}", params);
                    }
                }
            }
        }
    }
}
