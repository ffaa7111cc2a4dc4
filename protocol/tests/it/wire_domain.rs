//! Strategies that generate values of the A2A domain model, and one example of each.

use std::sync::Arc;

use a2a_protocol::TaskId;
use a2a_protocol::operation::{
    ArtifactUpdateEvent, Authentication, PushConfig, Reply, StatusUpdateEvent, StreamEvent,
    TaskPage,
};
use a2a_protocol::task::{
    Artifact, Content, ContextId, Message, Metadata, OpaqueId, Part, Role, Task, TaskState,
    TaskStatus, UtcMillis,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

pub const TASK: &str = "0192a4c8-7e1a-7b3c-9d4e-000000000003";

pub fn label(text: &str) -> OpaqueId {
    OpaqueId::try_from(text).unwrap()
}

fn opaque_ids() -> impl Strategy<Value = OpaqueId> {
    "[a-zA-Z0-9][ -~é]{0,12}".prop_map(|text| label(&text))
}

fn contexts() -> impl Strategy<Value = ContextId> {
    "[a-z0-9-]{1,12}".prop_map(|text| ContextId::try_from(text.as_str()).unwrap())
}

/// Values without fractions, which programs format differently.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[^\0]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec(("[a-z]{1,6}", inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn metadata() -> impl Strategy<Value = Option<Metadata>> {
    option::weighted(0.3, vec(("[a-z/]{1,8}", values()), 1..3))
        .prop_map(|fields| fields.map(|fields| fields.into_iter().collect()))
}

/// Parts without the fields that 0.3 cannot represent (a media type of text or data).
fn parts() -> impl Strategy<Value = Part> {
    let base64 = vec(any::<[u8; 3]>(), 0..4).prop_map(|groups| "AbC9".repeat(groups.len()));
    let text = "[^\0]{0,20}".prop_map(|text| Part::from(Content::Text(text)));
    let data = values().prop_map(|value| Part::from(Content::Data(value)));
    let name = || option::of("[a-z.]{1,8}");
    let file =
        prop_oneof![base64.prop_map(Content::Raw), "https://[a-z]{1,8}/".prop_map(Content::Url),];
    let file = (file, name(), name()).prop_map(|(content, filename, media_type)| Part {
        filename,
        media_type,
        ..Part::from(content)
    });
    (prop_oneof![text, data, file], metadata())
        .prop_map(|(part, metadata)| Part { metadata, ..part })
}

pub fn messages() -> impl Strategy<Value = Message> {
    (
        opaque_ids(),
        option::of(contexts()),
        option::of(opaque_ids()),
        prop::sample::select(Role::ALL),
        vec(parts(), 1..4),
        metadata(),
        vec("[a-z:]{1,8}", 0..2),
        vec("[a-z]{1,8}", 0..2),
    )
        .prop_map(
            |(message_id, context_id, task_id, role, parts, metadata, extensions, refs)| Message {
                message_id,
                context_id,
                task_id,
                role,
                parts,
                metadata,
                extensions,
                reference_task_ids: refs,
            },
        )
}

fn times() -> impl Strategy<Value = UtcMillis> {
    (0_i64..4_102_444_800_000)
        .prop_map(|ms| chrono::DateTime::from_timestamp_millis(ms).unwrap().into())
}

fn statuses() -> impl Strategy<Value = TaskStatus> {
    (prop::sample::select(TaskState::ALL), option::of(messages()), times()).prop_map(
        |(state, message, timestamp)| TaskStatus {
            state,
            message: message.map(Into::into),
            timestamp,
        },
    )
}

fn artifacts() -> impl Strategy<Value = Artifact> {
    let name = || option::of("[a-z]{1,8}");
    (opaque_ids(), name(), name(), vec(parts(), 1..3), metadata()).prop_map(
        |(artifact_id, name, description, parts, metadata)| Artifact {
            artifact_id,
            name,
            description,
            parts,
            metadata,
            extensions: Vec::new(),
        },
    )
}

fn ids() -> impl Strategy<Value = TaskId> {
    any::<u64>().prop_map(|n| format!("0192a4c8-7e1a-7b3c-9d4e-{:012x}", n >> 16).parse().unwrap())
}

pub fn tasks() -> impl Strategy<Value = Task> {
    (ids(), contexts(), statuses(), vec(artifacts(), 0..3), vec(messages(), 0..3), metadata())
        .prop_map(|(id, context_id, status, artifacts, history, metadata)| Task {
            id,
            context_id,
            status,
            artifacts: artifacts.into_iter().map(Arc::new).collect(),
            history: history.into_iter().map(Arc::new).collect(),
            metadata,
        })
}

pub fn events() -> impl Strategy<Value = StreamEvent> {
    let status = (ids(), contexts(), statuses(), metadata());
    let status = status.prop_map(|(task_id, context_id, status, metadata)| {
        StreamEvent::StatusUpdate(Box::new(StatusUpdateEvent {
            task_id,
            context_id,
            status,
            metadata,
        }))
    });
    let artifact = (ids(), contexts(), artifacts(), any::<bool>(), any::<bool>());
    let artifact = artifact.prop_map(|(task_id, context_id, artifact, append, last_chunk)| {
        StreamEvent::ArtifactUpdate(Box::new(ArtifactUpdateEvent {
            task_id,
            context_id,
            artifact: artifact.into(),
            append,
            last_chunk,
            metadata: None,
        }))
    });
    prop_oneof![
        tasks().prop_map(|task| StreamEvent::Task(Box::new(task))),
        messages().prop_map(|message| StreamEvent::Message(Box::new(message))),
        status,
        artifact,
    ]
}

/// One message with every kind of part.
pub fn message() -> Message {
    let object = |value: Value| value.as_object().unwrap().clone();
    Message {
        message_id: label("m-1"),
        context_id: Some(ContextId::try_from("ctx-1").unwrap()),
        task_id: Some(label(TASK)),
        role: Role::Agent,
        parts: vec![
            Part::text("Hello"),
            Part {
                filename: Some("a.bin".into()),
                media_type: Some("application/octet-stream".into()),
                ..Content::Raw("AAEC".into()).into()
            },
            Content::Url("https://example.com/a".into()).into(),
            Content::Data(json!({"n": [1, 2]})).into(),
            Part { metadata: Some(object(json!({"k": 1}))), ..Content::Data(json!([1, 2])).into() },
        ],
        metadata: Some(object(json!({"from": "test"}))),
        extensions: vec!["https://example.com/ext".into()],
        reference_task_ids: vec!["other".into()],
    }
}

/// One task with everything.
pub fn task() -> Task {
    let user = Message {
        role: Role::User,
        message_id: label("m-0"),
        parts: vec![Part::text("Hi")],
        metadata: None,
        extensions: Vec::new(),
        reference_task_ids: Vec::new(),
        ..message()
    };
    Task {
        id: TASK.parse().unwrap(),
        context_id: ContextId::try_from("ctx-1").unwrap(),
        status: TaskStatus {
            state: TaskState::Canceled,
            message: Some(message().into()),
            timestamp: "2026-02-21T18:30:00.5Z".parse().unwrap(),
        },
        artifacts: vec![Arc::new(Artifact {
            artifact_id: label("a-1"),
            name: Some("report".into()),
            description: None,
            parts: vec![Part::text("done")],
            metadata: None,
            extensions: Vec::new(),
        })],
        history: vec![user.into()],
        metadata: None,
    }
}

pub fn push() -> PushConfig {
    PushConfig {
        id: Some(label("c-1")),
        task_id: Some(label(TASK)),
        url: "https://example.com/hook".into(),
        token: Some("word".into()),
        authentication: Some(Authentication {
            scheme: "Bearer".into(),
            credentials: Some("secret".into()),
        }),
        legacy: false,
        progress: false,
        opt: false,
    }
}

/// One reply of each kind, with the methods it answers.
pub fn replies() -> Vec<(&'static str, a2a_protocol::wire::Method, Reply)> {
    use a2a_protocol::wire::Method;
    let task = || Reply::Task(Arc::new(task()));
    let page = TaskPage {
        tasks: vec![self::task()],
        next_page_token: "next".into(),
        page_size: 1,
        total_size: 2,
    };
    let pushes = Reply::Pushes { configs: vec![push()], next_page_token: String::new() };
    vec![
        ("send_task", Method::SendMessage, task()),
        ("send_message", Method::SendMessage, Reply::Message(Box::new(message()))),
        ("get_task", Method::GetTask, task()),
        ("cancel_task", Method::CancelTask, task()),
        ("list_tasks", Method::ListTasks, Reply::Tasks(page)),
        ("set_push", Method::SetPush, Reply::Push(push())),
        ("get_push", Method::GetPush, Reply::Push(push())),
        ("list_pushes", Method::ListPushes, pushes),
        ("delete_push", Method::DeletePush, Reply::Deleted),
    ]
}
