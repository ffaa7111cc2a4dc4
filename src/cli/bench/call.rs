//! One HTTP call of a run, and what its answer means.

use std::time::Duration;

use anyhow::{anyhow, bail};
use serde_json::Value;

use crate::cli::server::{Headers, Server};
use crate::cli::stdout::sanitize;

/// Outcome of a call.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Reply {
    /// Accepted, with the body of the answer.
    Accepted(Value),
    /// Refused for now: code, reason and pause before a retry.
    Later(String, String, Duration),
    /// Refused for good: code and reason.
    Never(String, String),
}

/// Pause when the server returns none.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_millis(200);

pub(super) fn post(
    server: &Server,
    path: &str,
    headers: Headers<'_>,
    body: &Value,
) -> anyhow::Result<Reply> {
    let response = server.post(path, headers, body.to_string().as_bytes())?;
    let status = response.status().as_u16();
    let wait = response.headers().get("retry-after");
    let wait = wait.and_then(|wait| wait.to_str().ok()?.parse().ok()).map(Duration::from_secs);
    let body = response.into_body().read_to_string()?;
    Ok(judged(status, wait, serde_json::from_str(&body).unwrap_or_default()))
}

/// Classifies an answer. Reads both problem documents (bus) and A2A errors.
fn judged(status: u16, wait: Option<Duration>, body: Value) -> Reply {
    if (200..300).contains(&status) {
        return Reply::Accepted(body);
    }
    let fault = &body["error"];
    let code = body["code"].as_str().or(fault["details"][0]["reason"].as_str());
    let code = code.map_or_else(|| format!("status_{status}"), str::to_ascii_lowercase);
    let reason = body["detail"].as_str().or(fault["message"].as_str());
    let reason = reason.map_or_else(|| format!("it answered with status {status}"), sanitize);
    let exact = body["retryAfterMs"]
        .as_u64()
        .or_else(|| fault["details"][0]["metadata"]["retryAfterMs"].as_str()?.parse().ok());
    let wait = exact.map(Duration::from_millis).or(wait);
    match status {
        429 | 503 => Reply::Later(code, reason, wait.unwrap_or(DEFAULT_RETRY_AFTER)),
        _ => Reply::Never(code, reason),
    }
}

/// Gets a resource, which must exist.
pub(super) fn get(server: &Server, path: &str) -> anyhow::Result<Value> {
    let response = server.get(path, &[], &[])?;
    let status = response.status().as_u16();
    let text = response.into_body().into_with_config().limit(1 << 28).read_to_string()?;
    match judged(status, None, serde_json::from_str(&text).unwrap_or_default()) {
        Reply::Accepted(body) => Ok(body),
        Reply::Later(_, reason, _) | Reply::Never(_, reason) => {
            let hint = match status {
                401 | 403 => {
                    " (this speaks for many agents: give an operator's token with --token, or in OPENCLAW_TOKEN)"
                }
                404 => {
                    " (with `open = true` in [directory] it would be; or start a server for this alone: openclaw-a2a serve --state-dir DIR)"
                }
                _ => "",
            };
            bail!("the server refuses: {reason}{hint}")
        }
    }
}

/// Takes messages from the inbox of an agent.
pub(super) fn take(server: &Server, agent: &str, wait: &str) -> anyhow::Result<Vec<Value>> {
    let mut body = get(server, &format!("/bus/agents/{agent}/inbox?wait={wait}&limit=16"))?;
    match body["messages"].take() {
        Value::Array(messages) => Ok(messages),
        _ => Err(anyhow!("the server's answer is no inbox")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn refusals_of_both_apis_are_classified() {
        let later = |code: &str, reason: &str, ms| {
            Reply::Later(code.into(), reason.into(), Duration::from_millis(ms))
        };
        let second = Some(Duration::from_secs(1));
        for (status, wait, body, expected) in [
            (202, None, json!({"seq": 1}), Reply::Accepted(json!({"seq": 1}))),
            (
                429,
                second,
                json!({"code": "rate_limited", "detail": "Wait.", "retryAfterMs": 500}),
                later("rate_limited", "Wait.", 500),
            ),
            (
                429,
                second,
                json!({"error": {"message": "Wait.", "details":
                    [{"reason": "RATE_LIMITED", "metadata": {"retryAfterMs": "782"}}]}}),
                later("rate_limited", "Wait.", 782),
            ),
            (503, second, Value::Null, later("status_503", "it answered with status 503", 1_000)),
            (
                503,
                None,
                json!({"code": "queue_full", "detail": "x"}),
                later("queue_full", "x", 200),
            ),
            (
                403,
                None,
                json!({"code": "forbidden", "detail": "no\u{1b}"}),
                Reply::Never("forbidden".into(), "no\\u{1b}".into()),
            ),
        ] {
            assert_eq!(judged(status, wait, body.clone()), expected, "{body}");
        }
    }
}
