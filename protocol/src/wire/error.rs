//! Error table: maps each [`Fault`] to its codes in JSON-RPC, HTTP and `google.rpc`, and to the
//! machine-readable details.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::{Method, Version};
use crate::fault::Fault;
use crate::validate::violation::Violation;

/// The codes of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorCodes {
    /// JSON-RPC error code.
    pub code: i32,
    /// HTTP status.
    pub http: u16,
    /// Name in `google.rpc.Code`.
    pub status: &'static str,
    /// Reason in `google.rpc.ErrorInfo`.
    pub reason: &'static str,
    /// Name in 0.3.
    pub name: &'static str,
}

/// The codes of a fault.
#[must_use]
pub const fn codes(fault: &Fault) -> ErrorCodes {
    let (code, http, status, reason, name) = match fault {
        Fault::TaskNotFound { .. } => {
            (-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND", "TaskNotFoundError")
        }
        // A2A has no separate error for this case.
        Fault::PushNotFound { .. } => {
            (-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND", "TaskNotFoundError")
        }
        Fault::ObjectiveNotFound { .. } => {
            (-32001, 404, "NOT_FOUND", "OBJECTIVE_NOT_FOUND", "ObjectiveNotFoundError")
        }
        Fault::PlanNotFound { .. } => {
            (-32001, 404, "NOT_FOUND", "PLAN_NOT_FOUND", "PlanNotFoundError")
        }
        Fault::TaskNotCancelable { .. } => {
            (-32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE", "TaskNotCancelableError")
        }
        Fault::PushNotSupported => (
            -32003,
            400,
            "FAILED_PRECONDITION",
            "PUSH_NOTIFICATION_NOT_SUPPORTED",
            "PushNotificationNotSupportedError",
        ),
        Fault::Unsupported { .. } => (
            -32004,
            400,
            "FAILED_PRECONDITION",
            "UNSUPPORTED_OPERATION",
            "UnsupportedOperationError",
        ),
        Fault::ContentType { .. } => (
            -32005,
            400,
            "INVALID_ARGUMENT",
            "CONTENT_TYPE_NOT_SUPPORTED",
            "ContentTypeNotSupportedError",
        ),
        Fault::InvalidAgentResponse { .. } => {
            (-32006, 500, "INTERNAL", "INVALID_AGENT_RESPONSE", "InvalidAgentResponseError")
        }
        Fault::NoExtendedCard => (
            -32007,
            400,
            "FAILED_PRECONDITION",
            "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
            "AuthenticatedExtendedCardNotConfiguredError",
        ),
        Fault::ExtensionRequired { .. } => (
            -32008,
            400,
            "FAILED_PRECONDITION",
            "EXTENSION_SUPPORT_REQUIRED",
            "ExtensionSupportRequiredError",
        ),
        Fault::VersionNotSupported { .. } => (
            -32009,
            400,
            "FAILED_PRECONDITION",
            "VERSION_NOT_SUPPORTED",
            "VersionNotSupportedError",
        ),
        Fault::InvalidParams(_) => {
            (-32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS", "InvalidParamsError")
        }
        Fault::MessageConflict { .. } => {
            (-32602, 409, "ALREADY_EXISTS", "MESSAGE_ID_CONFLICT", "MessageIdConflictError")
        }
        Fault::Internal => (-32603, 500, "INTERNAL", "INTERNAL_ERROR", "InternalError"),
        // Errors of this server, which A2A does not define.
        Fault::QueueFull { .. } => (-32050, 503, "UNAVAILABLE", "QUEUE_FULL", "QueueFullError"),
        Fault::RateLimited { .. } => {
            (-32051, 429, "RESOURCE_EXHAUSTED", "RATE_LIMITED", "RateLimitedError")
        }
        Fault::CircuitOpen { .. } => (-32052, 409, "ABORTED", "CIRCUIT_OPEN", "CircuitOpenError"),
        Fault::Forbidden { .. } => {
            (-32053, 403, "PERMISSION_DENIED", "FORBIDDEN", "ForbiddenError")
        }
        Fault::NoSuchAgent { .. } => {
            (-32054, 404, "NOT_FOUND", "AGENT_NOT_FOUND", "AgentNotFoundError")
        }
        Fault::Unavailable { .. } => {
            (-32055, 503, "UNAVAILABLE", "UNAVAILABLE", "UnavailableError")
        }
    };
    ErrorCodes { code, http, status, reason, name }
}

/// Milliseconds to wait before a retry, for headers such as `Retry-After`.
#[must_use]
pub const fn retry_after_ms(fault: &Fault) -> Option<u64> {
    match fault {
        Fault::QueueFull { retry_after_ms, .. }
        | Fault::RateLimited { retry_after_ms, .. }
        | Fault::Unavailable { retry_after_ms, .. } => Some(*retry_after_ms),
        Fault::CircuitOpen { retry_after_ms, .. } => *retry_after_ms,
        _ => None,
    }
}

/// The reason why a request is not a valid call: the errors of JSON-RPC itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The body is not JSON.
    #[error("this is not JSON: {reason}")]
    NotJson {
        /// The reason.
        reason: String,
    },
    /// The body is JSON, but not a call.
    #[error("this is not a JSON-RPC 2.0 request: {reason}")]
    InvalidRequest {
        /// The reason.
        reason: String,
    },
    /// The batch has too many calls.
    #[error("the batch has {calls} calls; at most {most} are allowed at once")]
    BatchTooLarge {
        /// Number of calls.
        calls: usize,
        /// Maximum number of calls.
        most: usize,
    },
    /// The method does not exist.
    #[error("there is no method {method}{}", near.map(|near| format!("; did you mean {near}?")).unwrap_or_default())]
    MethodNotFound {
        /// The name as the caller wrote it, truncated.
        method: String,
        /// The most similar method name.
        near: Option<&'static str>,
    },
}

impl Refusal {
    /// For a method that none of these versions defines. The name is truncated, because it may be as
    /// long as the body.
    #[must_use]
    pub fn method_not_found(method: &str, versions: &[Version]) -> Self {
        let near = Method::nearest(method, versions);
        Self::MethodNotFound { method: method.chars().take(64).collect(), near }
    }

    /// JSON-RPC error code.
    #[must_use]
    pub const fn code(&self) -> i32 {
        match self {
            Self::NotJson { .. } => -32700,
            Self::InvalidRequest { .. } | Self::BatchTooLarge { .. } => -32600,
            Self::MethodNotFound { .. } => -32601,
        }
    }

    const fn reason(&self) -> &'static str {
        match self {
            Self::NotJson { .. } => "PARSE_ERROR",
            Self::InvalidRequest { .. } => "INVALID_REQUEST",
            Self::BatchTooLarge { .. } => "BATCH_TOO_LARGE",
            Self::MethodNotFound { .. } => "METHOD_NOT_FOUND",
        }
    }
}

/// The `error` of a JSON-RPC response.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct JsonRpc {
    code: i32,
    message: String,
    data: Value,
}

impl JsonRpc {
    pub(super) fn of(version: Version, fault: &Fault) -> Self {
        let data = match version {
            Version::V1_0 => details_list(fault),
            Version::V0_3 => details_object(fault),
        };
        Self { code: codes(fault).code, message: fault.to_string(), data }
    }
}

impl From<&Refusal> for JsonRpc {
    /// The version of the caller may be unknown; clients of both versions read this form.
    fn from(refusal: &Refusal) -> Self {
        let facts = match refusal {
            Refusal::MethodNotFound { near: Some(near), .. } => {
                vec![("suggestion", (*near).to_owned())]
            }
            _ => Vec::new(),
        };
        let data = json!([error_info(refusal.reason(), &facts)]);
        Self { code: refusal.code(), message: refusal.to_string(), data }
    }
}

/// The body of an HTTP+JSON error response.
pub(super) struct Rest<'a>(pub(super) Version, pub(super) &'a Fault);

impl Serialize for Rest<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(version, fault) = self;
        let ErrorCodes { code, http, status, name, .. } = codes(fault);
        let message = fault.to_string();
        let body = match version {
            Version::V1_0 => json!({"error": {
                "code": http, "status": status, "message": message, "details": details_list(fault),
            }}),
            // 0.3 does not specify this body. Its JavaScript client reads `code` and `message`; its
            // conformance kit and Java server use the name in `error`. The Python SDK of 0.3 reads
            // the status, the one of 1.x in 0.3 mode reads the name in `type`.
            Version::V0_3 => json!({
                "error": name, "type": name, "code": code, "message": message,
                "data": details_object(fault),
            }),
        };
        body.serialize(serializer)
    }
}

/// Maximum violations in one response.
const MAX_VIOLATIONS: usize = 100;

/// A `google.rpc.ErrorInfo`; its metadata values are strings.
fn error_info(reason: &str, metadata: &[(&str, String)]) -> Value {
    let mut info = json!({
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": "a2a-protocol.org",
    });
    if !metadata.is_empty() {
        let fields = metadata.iter().map(|(key, value)| ((*key).to_owned(), json!(value)));
        info["metadata"] = Value::Object(fields.collect());
    }
    info
}

/// The details in the form of 1.0: a list of objects with `@type`.
fn details_list(fault: &Fault) -> Value {
    let facts: Vec<_> = facts(fault);
    let mut details = vec![error_info(codes(fault).reason, &facts)];
    if let Fault::InvalidParams(violations) = fault {
        let fields: Vec<_> = violations.iter().take(MAX_VIOLATIONS).map(field_violation).collect();
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": fields,
        }));
    }
    if let Some(ms) = retry_after_ms(fault) {
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.RetryInfo",
            "retryDelay": format!("{}.{:03}s", ms / 1000, ms % 1000),
        }));
    }
    // Data without a `google.rpc` type. A `Struct` can be read without a schema.
    let typed_facts = typed_facts(fault);
    if !typed_facts.is_empty() {
        details.push(json!({
            "@type": "type.googleapis.com/google.protobuf.Struct",
            "value": typed_facts,
        }));
    }
    Value::Array(details)
}

/// The details in the form of 0.3: a plain object.
fn details_object(fault: &Fault) -> Value {
    let mut fields = Map::new();
    fields.insert("reason".into(), codes(fault).reason.into());
    fields.extend(facts(fault).into_iter().map(|(key, value)| (key.to_owned(), value.into())));
    fields.extend(typed_facts(fault));
    Value::Object(fields)
}

/// The facts of the error, as strings.
fn facts(fault: &Fault) -> Vec<(&'static str, String)> {
    let mut facts = match fault {
        Fault::TaskNotFound { task } => vec![("taskId", task.clone())],
        Fault::ObjectiveNotFound { objective } => vec![("objectiveId", objective.clone())],
        Fault::PlanNotFound { plan } => vec![("planId", plan.clone())],
        Fault::PushNotFound { task, id } => {
            vec![("taskId", task.clone()), ("configId", id.clone())]
        }
        Fault::TaskNotCancelable { task, state } => {
            vec![("taskId", task.clone()), ("state", (*state).to_owned())]
        }
        Fault::ExtensionRequired { uri } => vec![("extension", uri.clone())],
        Fault::VersionNotSupported { version } => {
            vec![("version", version.clone()), ("supported", "0.3, 1.0".to_owned())]
        }
        Fault::MessageConflict { message } => vec![("messageId", message.clone())],
        Fault::NoSuchAgent { agent, .. } => vec![("agentId", agent.clone())],
        Fault::QueueFull { limit, .. } => vec![("limit", limit.to_string())],
        _ => Vec::new(),
    };
    if let Some(ms) = retry_after_ms(fault) {
        facts.push(("retryAfterMs", ms.to_string()));
    }
    facts
}

/// The facts that keep their JSON type: numbers, and violations in the form of the bus.
fn typed_facts(fault: &Fault) -> Map<String, Value> {
    let mut fields = Map::new();
    if let Some(ms) = retry_after_ms(fault) {
        fields.insert("retryAfterMs".into(), ms.into());
    }
    if let Fault::InvalidParams(violations) = fault {
        let listed: Vec<_> =
            violations.iter().take(MAX_VIOLATIONS).map(|violation| json!(violation)).collect();
        fields.insert("violations".into(), listed.into());
    }
    fields
}

fn field_violation(violation: &Violation) -> Value {
    json!({
        "field": dotted(&violation.path),
        "description": violation.message,
        "reason": violation.code.as_str().to_ascii_uppercase(),
    })
}

/// A JSON Pointer as a protocol buffers field path: `message.parts[0].text`.
fn dotted(pointer: &str) -> String {
    let mut field = String::new();
    for token in pointer.split('/').skip(1) {
        if !token.is_empty() && token.bytes().all(|b| b.is_ascii_digit()) {
            field.push_str(&format!("[{token}]"));
        } else {
            if !field.is_empty() {
                field.push('.');
            }
            field.push_str(&token.replace("~1", "/").replace("~0", "~"));
        }
    }
    field
}
