//! The failure path: why a message was refused, everything at once.
//!
//! The types have said no. Here the schema generated from those types lists each fault
//! with its place (`checker`), and the faults no schema can see are added.

use std::sync::LazyLock;

use serde_json::Value;

use crate::body::{NextAction, Verdict};
use crate::checker::Checker;
use crate::document::Document;
use crate::envelope::session_key_fits;
use crate::schema;
use crate::violation::{Code, Report, Violation};
use crate::wording::{alternatives, quote};

static ENVELOPE: LazyLock<Checker> = LazyLock::new(|| Checker::new(schema::envelope()));

/// Everything that is wrong with the bytes of a message that was refused.
pub(crate) fn explain(bytes: &[u8]) -> Report {
    let document = match Document::read(bytes) {
        Ok(document) => document,
        Err(violation) => return violation.into(),
    };
    let mut violations = document.duplicate_keys;
    violations.extend(ENVELOPE.faults(&document.value));
    violations.extend(contradictions(&document.value));
    crate::progress::retell(&document.value, &mut violations);
    if violations.is_empty() {
        // Types and schema disagree: a defect of this crate that the property tests look for.
        let message = "The message cannot be read, and no single field says why. Compare it with `openclaw-a2a schema`.";
        violations.push(Violation::new("", Code::WrongType, message));
    }
    Report::new(violations)
}

/// Faults that lie between two fields.
fn contradictions(message: &Value) -> Vec<Violation> {
    let text = |pointer| message.pointer(pointer).and_then(Value::as_str);
    let mut found = Vec::new();
    if let (Some(agent), Some(key)) = (text("/from/agentId"), text("/from/sessionKey"))
        && !session_key_fits(agent, key)
    {
        let sentence = format!(
            "The session key {} belongs to another agent than `from.agentId`, which is {}. Use a session key of your own, or leave it out.",
            quote(key),
            quote(agent)
        );
        found.push(Violation::new("/from/sessionKey", Code::Mismatch, sentence));
    }
    let verdict = text("/payload/verdict").and_then(Verdict::from_word);
    let next = text("/payload/nextAction").and_then(NextAction::from_word);
    if let (Some("review_response"), Some(verdict), Some(next)) = (text("/type"), verdict, next)
        && verdict.contradicts(next)
    {
        let fitting: Vec<_> =
            NextAction::ALL.iter().filter(|n| !verdict.contradicts(**n)).collect();
        let sentence = format!(
            "`nextAction` `{next}` contradicts the verdict `{verdict}`. Write {}, or change the verdict.",
            alternatives(&fitting)
        );
        let mut violation = Violation::new("/payload/nextAction", Code::Mismatch, sentence);
        violation.allowed = fitting.iter().map(ToString::to_string).collect();
        found.push(violation);
    }
    found
}
