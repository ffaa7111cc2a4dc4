//! Refusals of the server, in all their forms, as one sentence with a hint.
//!
//! The bus answers with problem documents (RFC 9457), A2A with JSON-RPC or HTTP+JSON errors. The
//! caller of a verb needs no knowledge of which API was used.

use std::fmt;

use serde_json::Value;

use crate::cli::stdout::sanitize;

/// A refusal of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct ServerError {
    /// HTTP status.
    pub(in crate::cli) status: u16,
    /// Code for programs, such as `unknown_task` or `TASK_NOT_FOUND`; empty without one.
    pub(in crate::cli) code: String,
    sentence: String,
    /// The resource is not in a state for the request.
    is_too_late: bool,
}

impl ServerError {
    /// Parses a response.
    pub(in crate::cli) fn from_response(status: u16, text: &str) -> Self {
        let answer: Value = serde_json::from_str(text).unwrap_or_default();
        let fault = match &answer["error"] {
            Value::Null => &answer,
            fault => fault,
        };
        let code = fault["details"][0]["reason"].as_str().or(fault["code"].as_str());
        let sentence = fault["detail"].as_str().or(fault["message"].as_str());
        let mut sentences = match sentence {
            Some(sentence) => vec![sentence.to_owned()],
            None => vec![format!("it answered with status {status}")],
        };
        for why in violations(fault) {
            if !sentences[0].contains(&why) {
                sentences.push(why);
            }
        }
        let code = code.unwrap_or_default().to_owned();
        let is_too_late = fault["data"]["violations"].as_array().is_some_and(|all| {
            all.iter().any(|one| one["path"] == "/status" && one["code"] == "not_allowed")
        });
        Self { status, code, sentence: sanitize(&sentences.join(" ")), is_too_late }
    }

    /// Whether the answer is "no": the resource does not exist or is not in a state for the
    /// request. Otherwise the request was not carried out.
    pub(in crate::cli) fn is_no(&self) -> bool {
        matches!(self.status, 404 | 409 | 422)
            || self.code == "TASK_NOT_CANCELABLE"
            || self.is_too_late
    }

    /// What to do about the refusal.
    fn hint(&self) -> &'static str {
        match (self.status, self.code.as_str()) {
            (401, _) => " (give a token with --token, or in OPENCLAW_TOKEN)",
            (403, _) => {
                " (an operator's token is needed: openclaw-a2a token create --operator NAME)"
            }
            (404, "unknown_recipient") => " (see `openclaw-a2a agents`)",
            (404, "unknown_task" | "TASK_NOT_FOUND") => " (see `openclaw-a2a task list`)",
            (404, "not_taken") => " (take it first, with `openclaw-a2a inbox AGENT --take 1`)",
            (429, _) => " (wait a little, then try again)",
            (503, _) => " (try again later; `openclaw-a2a log --follow` shows when it continues)",
            _ => "",
        }
    }
}

/// Descriptions of the individual violations, if the server lists any.
fn violations(fault: &Value) -> Vec<String> {
    let details = ["data", "details"].map(|key| match &fault[key] {
        Value::Array(details) => details.clone(),
        Value::Null => Vec::new(),
        detail => vec![detail.clone()],
    });
    let mut found = Vec::new();
    for detail in details.iter().flatten().chain([fault]) {
        for key in ["fieldViolations", "violations", "errors"] {
            for violation in detail[key].as_array().into_iter().flatten() {
                let why = violation["description"].as_str().or(violation["message"].as_str());
                found.extend(why.map(str::to_owned));
            }
        }
    }
    found
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server refuses: {}{}", self.sentence, self.hint())
    }
}

impl std::error::Error for ServerError {}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn refusal_of_every_form_is_one_sentence_with_a_hint() {
        let cases = [
            (
                401,
                json!({"detail": "who are you?", "code": "unauthorized"}),
                "the server refuses: who are you? (give a token with --token, or in OPENCLAW_TOKEN)",
                false,
            ),
            (
                200,
                json!({"error": {"code": -32602, "message": "no\u{1b}",
                    "data": [{"fieldViolations": [{"description": "This cannot be."}]}]}}),
                "the server refuses: no\\u{1b} This cannot be.",
                false,
            ),
            (
                404,
                json!({"error": {"message": "Task not found.", "details": [{"reason": "TASK_NOT_FOUND"}]}}),
                "the server refuses: Task not found. (see `openclaw-a2a task list`)",
                true,
            ),
            (
                400,
                json!({"error": {"message": "It has ended.", "details": [{"reason": "TASK_NOT_CANCELABLE"}]}}),
                "the server refuses: It has ended.",
                true,
            ),
            (
                200,
                json!({"error": {"code": -32602, "message": "It has ended.", "data": {"violations":
                    [{"path": "/status", "code": "not_allowed", "message": "It has ended."}]}}}),
                "the server refuses: It has ended.",
                true,
            ),
            (409, json!({"detail": "It has ended."}), "the server refuses: It has ended.", true),
            (500, json!("x"), "the server refuses: it answered with status 500", false),
        ];
        for (status, body, expected, is_no) in cases {
            let refusal = ServerError::from_response(status, &body.to_string());
            assert_eq!((refusal.to_string().as_str(), refusal.is_no()), (expected, is_no));
        }
        let forbidden =
            ServerError::from_response(403, r#"{"detail": "no", "code": "forbidden"}"#).to_string();
        assert!(forbidden.contains("an operator's token is needed"), "{forbidden}");
    }
}
