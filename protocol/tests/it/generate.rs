//! Strategies for valid messages, written from the specification independently of the types, and for
//! damage that a sender could do to them.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value, json};

fn uuid() -> impl Strategy<Value = Value> {
    "[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-fA-F]{12}".prop_map(Value::from)
}

fn agent() -> impl Strategy<Value = Value> {
    "[A-Za-z0-9][A-Za-z0-9._-]{0,12}".prop_map(Value::from)
}

fn timestamp() -> impl Strategy<Value = Value> {
    let date = (0..=9999u32, 1..=12u32, 1..=28u32, 0..24u32, 0..60u32, 0..60u32);
    let tail = select(vec!["Z", "z", ".5Z", ".123456789012+05:30", "-23:59", "+00:00"]);
    (date, tail).prop_map(|((y, mo, d, h, mi, s), tail)| {
        json!(format!("{y:04}-{mo:02}-{d:02}T{h:02}:{mi:02}:{s:02}{tail}"))
    })
}

fn text() -> impl Strategy<Value = Value> {
    "[^\\x00]{0,20}".prop_map(Value::from)
}

fn required_text() -> impl Strategy<Value = Value> {
    "[^\\x00]{0,8}[!-~é語][^\\x00]{0,8}".prop_map(Value::from)
}

fn one_of(names: &'static [&'static str]) -> impl Strategy<Value = Value> {
    select(names).prop_map(Value::from)
}

fn list(item: impl Strategy<Value = Value>, min: usize) -> impl Strategy<Value = Value> {
    prop::collection::vec(item, min..4).prop_map(Value::from)
}

/// Any JSON without U+0000, with the nesting of typical extensible objects.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e300..1e300f64).prop_map(Value::from),
        text(),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z/~ ]{1,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// An object with all required fields and some optional ones.
fn object(
    required: Vec<(&'static str, BoxedStrategy<Value>)>,
    optional: Vec<(&'static str, BoxedStrategy<Value>)>,
) -> BoxedStrategy<Value> {
    let required =
        required.into_iter().map(|(name, value)| value.prop_map(move |v| Some((name, v))).boxed());
    let optional = optional.into_iter().map(|(name, value)| {
        prop::option::of(value).prop_map(move |value| value.map(|v| (name, v))).boxed()
    });
    let fields: Vec<BoxedStrategy<Option<(&'static str, Value)>>> =
        required.chain(optional).collect();
    fields
        .prop_map(|fields| {
            Value::Object(
                fields.into_iter().flatten().map(|(name, v)| (name.to_owned(), v)).collect(),
            )
        })
        .boxed()
}

macro_rules! fields {
    ($($name:literal: $value:expr),* $(,)?) => { vec![$(($name, $value.boxed())),*] };
}

fn extensible(optional: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    (object(vec![], optional), prop::collection::btree_map("x[a-z:/.]{0,8}", anything(), 0..3))
        .prop_map(|(mut typed, extra)| {
            if let Value::Object(fields) = &mut typed {
                fields.extend(extra);
            }
            typed
        })
        .boxed()
}

fn payload(kind: &'static str) -> BoxedStrategy<Value> {
    match kind {
        "task_request" => object(
            fields! {
                "taskId": uuid(), "title": required_text(), "description": required_text(),
                "taskType": one_of(&["implementation", "review", "research", "analysis", "design"]),
                "complexity": one_of(&["trivial", "low", "medium", "high", "expert"]),
            },
            fields! {
                "deadline": timestamp(), "acceptanceCriteria": list(text(), 0),
                "context": extensible(fields! { "branch": text(), "worktree": text(), "relatedFiles": list(text(), 0) }),
            },
        ),
        "task_response" => object(
            fields! {
                "taskId": uuid(), "reason": required_text(),
                "action": one_of(&["accepted", "declined", "completed", "failed", "blocked"]),
            },
            fields! {
                "result": extensible(fields! {
                    "branch": text(), "worktree": text(), "filesChanged": list(text(), 0),
                    "summary": text(), "nextSteps": list(text(), 0),
                }),
            },
        ),
        "review_request" => object(
            fields! {
                "taskId": uuid(), "title": required_text(), "branch": required_text(),
                "worktree": required_text(), "filesForReview": list(text(), 1), "authorAgent": agent(),
            },
            fields! { "authorTier": text(), "reviewLevel": text(), "priorReviewNotes": text() },
        ),
        "review_response" => review_response(),
        "status_update" => object(
            fields! {
                "status": one_of(&["in_progress", "blocked", "completed", "paused"]),
                "progress": required_text(), "blockedBy": required_text(),
            },
            fields! {
                "taskId": uuid(), "estimatedCompletion": timestamp(),
                "metadata": extensible(fields! { "https://a2a-protocol.org/extensions/task-progress/v1": progress() }),
            },
        ),
        "knowledge_share" => object(
            fields! {
                "topic": required_text(), "discovery": required_text(), "relevantTo": list(agent(), 0),
                "source": required_text(), "actionable": any::<bool>().prop_map(Value::from),
            },
            fields! { "suggestedAction": text() },
        ),
        _ => object(
            fields! {
                "scope": one_of(&["squad", "org", "c-suite"]), "topic": required_text(),
                "message": required_text(), "urgency": one_of(&["fyi", "attention_needed", "action_required"]),
            },
            vec![],
        ),
    }
}

fn progress() -> BoxedStrategy<Value> {
    let tracker = object(
        fields! { "id": "[^\\x00]{1,20}".prop_map(Value::from) },
        fields! {
            "progress": (0..10u32).prop_map(Value::from), "total": (10.0..1e9f64).prop_map(Value::from),
            "message": text(), "status": one_of(&["running", "completed", "failed"]),
            "startedAt": timestamp(), "updatedAt": timestamp(),
        },
    );
    let number = || any::<i32>().prop_map(Value::from);
    let aggregate =
        object(vec![], fields! { "progress": number(), "total": number(), "message": text() });
    object(fields! { "trackers": list(tracker, 0) }, fields! { "aggregate": aggregate })
}

fn review_response() -> BoxedStrategy<Value> {
    let severity = one_of(&["must_fix", "should_fix", "suggestion"]);
    let line = prop_oneof![(1..1u64 << 53).prop_map(Value::from), Just(json!(23.0))];
    let concern = object(
        fields! { "file": required_text(), "severity": severity, "description": required_text() },
        fields! { "line": line },
    );
    let fix = object(fields! { "file": required_text(), "description": required_text() }, vec![]);
    let next = object(
        fields! { "title": required_text() },
        fields! { "assignTo": text(), "dependencies": list(text(), 0) },
    );
    let pairs = select(vec![
        ("approved", "push_and_close"),
        ("approved", "escalate_to_senior"),
        ("changes_requested", "send_back_to_worker"),
        ("changes_requested", "escalate_to_senior"),
        ("escalated", "send_back_to_worker"),
        ("escalated", "push_and_close"),
        ("escalated", "escalate_to_senior"),
    ]);
    let rest = object(
        fields! { "taskId": uuid(), "branch": required_text(), "worktree": required_text() },
        fields! { "reviewerFixes": list(fix, 0), "unresolvedConcerns": list(concern, 0), "nextTasks": list(next, 0) },
    );
    (rest, pairs)
        .prop_map(|(mut body, (verdict, next))| {
            body["verdict"] = verdict.into();
            body["nextAction"] = next.into();
            body
        })
        .boxed()
}

pub const KINDS: &[&str] = &[
    "task_request",
    "task_response",
    "status_update",
    "knowledge_share",
    "review_request",
    "review_response",
    "broadcast",
];

/// A valid message of any kind.
pub fn message() -> impl Strategy<Value = Value> {
    let keys = select(vec![None, Some("agent:{}:main"), Some("cron:nightly"), Some("agent:x")]);
    let from = (agent(), keys, prop::option::of(text()))
        .prop_map(|(agent, key, role)| {
            let mut from = json!({ "agentId": agent });
            if let Some(key) = key {
                from["sessionKey"] = key.replace("{}", agent.as_str().unwrap()).into();
            }
            if let Some(role) = role {
                from["role"] = role;
            }
            from
        })
        .boxed();
    let to = object(fields! { "agentId": agent() }, fields! { "role": text() });
    select(KINDS).prop_flat_map(move |kind| {
        let needs_to = !matches!(kind, "knowledge_share" | "broadcast");
        let to = if needs_to { to.clone().prop_map(Some).boxed() } else { prop::option::of(to.clone()).boxed() };
        let header = (uuid(), timestamp(), from.clone(), to, one_of(&["low", "normal", "high", "urgent"]), uuid());
        (header, payload(kind)).prop_map(move |((id, time, from, to, priority, correlation), payload)| {
            let mut message = json!({
                "protocol": "openclaw.a2a.v1", "messageId": id, "timestamp": time, "from": from,
                "type": kind, "priority": priority, "correlationId": correlation, "payload": payload,
            });
            if let Some(to) = to {
                message["to"] = to;
            }
            message
        })
    })
}

/// One piece of damage, applied at a path chosen by an index.
#[derive(Debug, Clone)]
pub enum Damage {
    Replace(Value),
    Remove,
    Rename(String),
    Add(String, Value),
}

pub fn damage() -> impl Strategy<Value = (Index, Damage)> {
    let tricky = select(vec![
        json!(null),
        json!(""),
        json!("  "),
        json!("\u{85}"),
        json!("\u{feff}"),
        json!(0),
        json!(-1),
        json!(1.0),
        json!(2.5),
        json!(1e300),
        json!(true),
        json!([]),
        json!({}),
        json!(["a"]),
        json!({"agentId": "x"}),
        json!("x".repeat(513)),
        json!("é".repeat(513)),
        json!("x".repeat(32_769)),
        json!(vec!["a"; 1_001]),
        json!("00000000-0000-0000-0000-000000000000"),
        json!("0192a4c8-7e1a-4b3c-9d4e-000000000001"),
        json!("0192a4c87e1a7b3c9d4e000000000001"),
        json!("2026-02-30T00:00:00Z"),
        json!("2026-02-21 00:00:00Z"),
        json!("2016-12-31T23:59:60Z"),
        json!("2016-12-31T23:58:60Z"),
        json!("2017-01-01T00:59:60+01:00"),
        json!("2026-02-21T00:00:00.Z"),
        json!("2026-02-21T00:00:00+0100"),
        json!("agent:tim:main"),
        json!("roman\n"),
        json!("task_request"),
        json!("broadcast"),
        json!("Urgent"),
        json!("blocked"),
        json!("declined"),
        json!("approved"),
        json!("changes_requested"),
        json!("push_and_close"),
        json!("openclaw.a2a.v2"),
    ]);
    let value = prop_oneof![3 => tricky, 1 => anything()];
    let damage = prop_oneof![
        4 => value.clone().prop_map(Damage::Replace),
        2 => Just(Damage::Remove),
        1 => "[a-zA-Z]{1,8}".prop_map(Damage::Rename),
        1 => ("[a-zA-Z]{1,8}", value).prop_map(|(key, value)| Damage::Add(key, value)),
    ];
    (any::<Index>(), damage)
}

/// Applies damage at one of all paths of the message.
pub fn apply(message: &mut Value, at: Index, damage: Damage) {
    let mut places = Vec::new();
    collect(message, &mut String::new(), &mut places);
    let pointer = &places[at.index(places.len())];
    let (parent, token) = pointer.rsplit_once('/').unwrap_or(("", ""));
    let token = token.replace("~1", "/").replace("~0", "~");
    match damage {
        Damage::Replace(value) => *message.pointer_mut(pointer).unwrap() = value,
        Damage::Remove => match message.pointer_mut(parent) {
            Some(Value::Object(fields)) => drop(fields.shift_remove(&token)),
            Some(Value::Array(items)) => drop(items.pop()),
            _ => {}
        },
        Damage::Rename(key) => {
            if let Some(Value::Object(fields)) = message.pointer_mut(parent)
                && let Some(value) = fields.shift_remove(&token)
            {
                fields.insert(key, value);
            }
        }
        Damage::Add(key, value) => {
            if let Some(Value::Object(fields)) = message.pointer_mut(pointer) {
                fields.insert(key, value);
            }
        }
    }
}

fn collect(value: &Value, path: &mut String, places: &mut Vec<String>) {
    places.push(path.clone());
    let length = path.len();
    let mut below = |token: &str, value: &Value| {
        path.push('/');
        path.push_str(&token.replace('~', "~0").replace('/', "~1"));
        collect(value, path, places);
        path.truncate(length);
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| below(key, value)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, value)| below(&i.to_string(), value))
        }
        _ => {}
    }
}

/// The same object with the keys in reverse order.
pub fn reversed(message: &Value) -> Value {
    match message {
        Value::Object(fields) => Value::Object(
            fields.iter().rev().map(|(k, v)| (k.clone(), reversed(v))).collect::<Map<_, _>>(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(reversed).collect()),
        other => other.clone(),
    }
}
