//! `openclaw-a2a serve` over HTTP: what is common to its tests.

/// Lists in pages, who sees whom, and what it costs to be refused.
mod directory;
/// Starting, stopping, and starting again.
mod lifecycle;
/// Verbs and parameters that a path does not take; refused messages; names to listen on.
mod paths;
/// Questions that make no sense, health, the log.
mod questions;
/// Inboxes: what is handed out, acknowledged, given back.
mod receiving;
/// Records of refused messages.
mod refusals;
/// Messages: receipts, refusals, limits.
mod sending;

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::server::{Answer, Server};

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// A server with wide limits, where tim is registered.
fn started(folder: &Path) -> Server {
    with_tim(folder, "[limits]\nburst = 1000\n")
}

fn with_tim(folder: &Path, config: &str) -> Server {
    let server = Server::with_config(folder, config);
    assert_eq!(server.inbox("tim", ""), [] as [Value; 0]);
    server
}

/// Asserts a problem of RFC 9457 with this status and code.
#[track_caller]
fn is_problem(answer: &Answer, status: u16, code: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.content_type, "application/problem+json", "{answer:?}");
    assert_eq!(answer.body["code"], code, "{answer:?}");
    assert_eq!(answer.body["status"], status, "{answer:?}");
    assert!(answer.body["title"].is_string(), "{answer:?}");
    assert!(answer.body["detail"].is_string(), "{answer:?}");
}

/// `path code` of every violation.
fn violations(answer: &Answer) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let errors = answer.body["errors"].as_array().unwrap();
    let mut found: Vec<_> =
        errors.iter().map(|e| format!("{} {}", text(&e["path"]), text(&e["code"]))).collect();
    found.sort();
    found
}

fn progress(taken: &[Value]) -> Vec<&str> {
    taken.iter().map(|m| m["message"]["payload"]["progress"].as_str().unwrap()).collect()
}
