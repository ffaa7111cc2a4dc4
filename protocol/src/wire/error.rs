//! The one table of errors: what each [`Fault`] is called in JSON-RPC, HTTP and gRPC's words.

mod details;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::{Method, Version};
use crate::fault::Fault;

/// What an error is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// The code in JSON-RPC.
    pub code: i32,
    /// The HTTP status.
    pub http: u16,
    /// The word of `google.rpc.Code`.
    pub status: &'static str,
    /// The reason of its `google.rpc.ErrorInfo`.
    pub reason: &'static str,
    /// What 0.3 calls it.
    pub name: &'static str,
}

/// The table.
#[must_use]
pub const fn form(fault: &Fault) -> Form {
    let (code, http, status, reason, name) = match fault {
        Fault::TaskNotFound { .. } => {
            (-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND", "TaskNotFoundError")
        }
        // A2A has no error of its own for it.
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
        // From here on our own.
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
    Form { code, http, status, reason, name }
}

/// When trying again makes sense, for the header `Retry-After` and the like.
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

/// Why something is no call: errors of JSON-RPC itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is no JSON.
    #[error("this is not JSON: {reason}")]
    NotJson {
        /// What is wrong with it.
        reason: String,
    },
    /// It is JSON, but no call.
    #[error("this is not a JSON-RPC 2.0 request: {reason}")]
    InvalidRequest {
        /// What is wrong with it.
        reason: String,
    },
    /// Too many calls at once.
    #[error("the batch has {calls} calls; at most {most} are allowed at once")]
    BatchTooLarge {
        /// How many there are.
        calls: usize,
        /// How many there may be.
        most: usize,
    },
    /// There is no such method.
    #[error("there is no method {method}{}", near.map(|near| format!("; did you mean {near}?")).unwrap_or_default())]
    MethodNotFound {
        /// As the caller wrote it.
        method: String,
        /// The nearest one there is.
        near: Option<&'static str>,
    },
}

impl Refusal {
    /// For a method that is known in none of these versions; its name is cut, for it may be as
    /// long as the body.
    #[must_use]
    pub fn method_not_found(method: &str, versions: &[Version]) -> Self {
        let near = Method::nearest(method, versions);
        Self::MethodNotFound { method: method.chars().take(64).collect(), near }
    }

    /// Its code in JSON-RPC.
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

/// The `error` of a JSON-RPC answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct JsonRpc {
    code: i32,
    message: String,
    data: Value,
}

impl JsonRpc {
    pub(super) fn of(version: Version, fault: &Fault) -> Self {
        let data = match version {
            Version::V1_0 => details::list(fault),
            Version::V0_3 => details::object(fault),
        };
        Self { code: form(fault).code, message: fault.to_string(), data }
    }
}

impl From<&Refusal> for JsonRpc {
    /// Which version the caller speaks may not be known; both read this form.
    fn from(refusal: &Refusal) -> Self {
        let facts = match refusal {
            Refusal::MethodNotFound { near: Some(near), .. } => {
                vec![("suggestion", (*near).to_owned())]
            }
            _ => Vec::new(),
        };
        let data = json!([details::info(refusal.reason(), &facts)]);
        Self { code: refusal.code(), message: refusal.to_string(), data }
    }
}

/// The body of an HTTP+JSON answer that is an error.
pub(super) struct Rest<'a>(pub(super) Version, pub(super) &'a Fault);

impl Serialize for Rest<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(version, fault) = self;
        let Form { code, http, status, name, .. } = form(fault);
        let message = fault.to_string();
        let body = match version {
            Version::V1_0 => json!({"error": {
                "code": http, "status": status, "message": message, "details": details::list(fault),
            }}),
            // 0.3 says nothing about it. Its JavaScript client reads `code` and `message`, its
            // conformance kit and Java server have the name in `error`; Python of 0.3 looks at the
            // status, Python of 1.x, speaking 0.3, at the name in `type`.
            Version::V0_3 => json!({
                "error": name, "type": name, "code": code, "message": message,
                "data": details::object(fault),
            }),
        };
        body.serialize(serializer)
    }
}
