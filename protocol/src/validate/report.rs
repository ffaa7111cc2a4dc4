//! Violation report of a refused message: lists all violations at once.
//!
//! The types have refused the message. The schema generated from these types finds each violation
//! with its path (`checker`). Duplicate keys and contradictions between fields are added.

use std::fmt;
use std::sync::LazyLock;

use serde_json::Value;

use crate::body::{NextAction, Verdict};
use crate::envelope::session_key_fits;
use crate::limits::VIOLATIONS;
use crate::schema;
use crate::validate::checker::Checker;
use crate::validate::document::Document;
use crate::validate::violation_text::{alternatives, quote};
use crate::{Code, Violation};

/// All violations of one message; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    violations: Vec<Violation>,
    more: usize,
}

impl Report {
    /// Sorts the violations by path, removes duplicates and truncates the list to its limit.
    pub(crate) fn new(mut violations: Vec<Violation>) -> Self {
        let by_path = |a: &Violation, b: &Violation| {
            (&a.path, a.code.as_str()).cmp(&(&b.path, b.code.as_str()))
        };
        violations.sort_by(by_path);
        violations.dedup_by(|a, b| a.path == b.path && a.code == b.code);
        let more = violations.len().saturating_sub(VIOLATIONS);
        if more > 0 {
            // Many violations deep inside must not displace those at the top.
            violations.sort_by_key(|violation| violation.path.matches('/').count());
            violations.truncate(VIOLATIONS);
            violations.sort_by(by_path);
        }
        Self { violations, more }
    }

    /// The report of a message that was not parsed because `bytes` is above the limit.
    #[must_use]
    pub fn too_large(bytes: usize) -> Self {
        crate::validate::document::too_large(bytes).into()
    }

    /// The violations, ordered by path.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Number of violations beyond the listed ones.
    #[must_use]
    pub fn more(&self) -> usize {
        self.more
    }

    /// The violations by value.
    #[must_use]
    pub fn into_violations(self) -> Vec<Violation> {
        self.violations
    }
}

impl From<Violation> for Report {
    fn from(violation: Violation) -> Self {
        Self { violations: vec![violation], more: 0 }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, violation) in self.violations.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            violation.fmt(f)?;
        }
        if self.more > 0 {
            write!(f, "\n… and {} more", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for Report {}

static ENVELOPE: LazyLock<Checker> = LazyLock::new(|| Checker::new(schema::envelope()));

/// Computes the report of a message that the types have refused.
pub(crate) fn explain(bytes: &[u8]) -> Report {
    let document = match Document::read(bytes) {
        Ok(document) => document,
        Err(violation) => return violation.into(),
    };
    let mut violations = document.duplicate_keys;
    violations.extend(ENVELOPE.violations(&document.value));
    violations.extend(contradictions(&document.value));
    crate::a2a::progress::replace_violations(&document.value, &mut violations);
    if violations.is_empty() {
        // Types and schema disagree: a defect of this crate that the property tests look for.
        let message = "The message cannot be read, and no single field says why. Compare it with `openclaw-a2a schema`.";
        violations.push(Violation::new("", Code::WrongType, message));
    }
    Report::new(violations)
}

/// Violations of rules between two fields.
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
    let verdict = text("/payload/verdict").and_then(Verdict::from_name);
    let next = text("/payload/nextAction").and_then(NextAction::from_name);
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
