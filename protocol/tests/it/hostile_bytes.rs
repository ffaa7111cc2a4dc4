use a2a_protocol::{Code, Envelope, Progress, limits};
use proptest::prelude::*;
use serde_json::json;

/// A valid message with `field` of its context set to raw JSON text.
fn with_context(raw: &str) -> Vec<u8> {
    format!(
        r#"{{"protocol":"openclaw.a2a.v1","messageId":"0192a4c8-7e1a-7b3c-9d4e-000000000001",
        "timestamp":"2026-02-21T18:30:00Z","from":{{"agentId":"roman"}},"to":{{"agentId":"tim"}},
        "type":"task_request","priority":"normal","correlationId":"0192a4c8-7e1a-7b3c-9d4e-000000000002",
        "payload":{{"taskId":"0192a4c8-7e1a-7b3c-9d4e-000000000003","title":"t","description":"d",
        "taskType":"review","complexity":"low","context":{{"x":{raw}}}}}}}"#
    )
    .into_bytes()
}

fn only_violation(bytes: &[u8]) -> (String, Code) {
    let report = Envelope::parse(bytes).expect_err("hostile");
    let [violation] = report.violations() else { panic!("{report}") };
    assert!(violation.message.len() < 400, "{violation}");
    (violation.path.clone(), violation.code)
}

fn nested(levels: usize) -> String {
    "[".repeat(levels) + &"]".repeat(levels)
}

#[test]
fn the_base_message_is_valid() {
    assert!(Envelope::parse(&with_context("1")).is_ok());
    assert!(Envelope::parse(&with_context("123456789012345678901234567890")).is_ok());
    assert!(Envelope::parse(&with_context(&nested(limits::DEPTH - 3))).is_ok());
}

#[test]
fn each_hostile_form_has_its_own_clear_error() {
    let whole = |code| (String::new(), code);
    let cases: Vec<(&str, Vec<u8>, (String, Code))> = vec![
        ("one level too deep", with_context(&nested(limits::DEPTH - 2)), whole(Code::TooDeep)),
        ("nesting bomb", with_context(&nested(10_000)), whole(Code::TooDeep)),
        ("bare bomb, never closed", "[".repeat(200_000).into_bytes(), whole(Code::TooDeep)),
        (
            "duplicate key deep inside",
            with_context(r#"[{"a":1,"a":2}]"#),
            ("/payload/context/x/0/a".into(), Code::DuplicateKey),
        ),
        (
            "duplicate key by escape",
            with_context(r#"{"a":1,"\u0061":2}"#),
            ("/payload/context/x/a".into(), Code::DuplicateKey),
        ),
        ("huge number", with_context("1e400"), whole(Code::NotJson)),
        ("NaN", with_context("NaN"), whole(Code::NotJson)),
        ("lone surrogate", with_context(r#""\ud800""#), whole(Code::NotJson)),
        ("escaped NUL", with_context(r#""a\u0000b""#), whole(Code::NotJson)),
        ("escaped NUL in a key", with_context(r#"{"a\u0000":1}"#), whole(Code::NotJson)),
        ("raw NUL", with_context("\"a\0b\""), whole(Code::NotJson)),
        (
            "10 MB string",
            with_context(&json!("x".repeat(10_000_000)).to_string()),
            whole(Code::TooLarge),
        ),
        (
            "string over its limit",
            with_context(&json!("x".repeat(32_769)).to_string()),
            ("/payload/context/x".into(), Code::TooLong),
        ),
        (
            "key over its limit",
            with_context(&json!({"k".repeat(32_769): 1}).to_string()),
            (format!("/payload/context/x/{}", "k".repeat(32_769)), Code::TooLong),
        ),
        (
            "array over its limit",
            with_context(&json!(vec![0; 1_001]).to_string()),
            ("/payload/context/x".into(), Code::TooMany),
        ),
        ("invalid UTF-8", b"{\"protocol\": \"\xff\"}".to_vec(), whole(Code::NotJson)),
        ("byte order mark", "\u{feff}{}".as_bytes().to_vec(), whole(Code::NotJson)),
        ("nothing", b"".to_vec(), whole(Code::NotJson)),
        ("two messages", [with_context("1"), with_context("1")].concat(), whole(Code::NotJson)),
        ("an array", b"[]".to_vec(), whole(Code::WrongType)),
        ("null", b"null".to_vec(), whole(Code::WrongType)),
    ];
    for (name, bytes, expected) in cases {
        assert_eq!(only_violation(&bytes), expected, "{name}");
    }
}

#[test]
fn violations_above_the_limit_are_counted_not_listed() {
    let unknown: String = (0..20_000).map(|i| format!(r#""k{i}":0,"#)).collect();
    let report = Envelope::parse(format!("{{{unknown}\"z\":0}}").as_bytes()).unwrap_err();
    assert_eq!(report.violations().len(), limits::VIOLATIONS);
    assert_eq!(report.more(), 20_001 + 8 - limits::VIOLATIONS);
}

#[test]
fn structs_are_not_read_from_arrays() {
    let text = String::from_utf8(with_context("1")).unwrap();
    let listed = text.replace(r#"{"agentId":"roman"}"#, r#"["roman"]"#);
    assert_eq!(only_violation(listed.as_bytes()), ("/from".into(), Code::WrongType));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(Envelope::parse(&bytes));
        drop(Progress::parse(&bytes));
    }

    #[test]
    fn changed_byte_does_not_panic(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        let mut bytes = with_context(r#"{"a": [1, "b", null, 2.5]}"#);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if cut {
            bytes.truncate(at);
        }
        drop(Envelope::parse(&bytes));
        drop(Progress::parse(&bytes));
    }
}
