//! What is wrong with a message, in words a language model can act on.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::limits::VIOLATIONS;

closed_set! {
    /// The stable name of a kind of violation.
    pub enum Code {
        /// A required field is absent.
        Missing = "missing",
        /// A field the protocol does not know.
        UnknownField = "unknown_field",
        /// A value of another JSON type, `null` included.
        WrongType = "wrong_type",
        /// A value outside the set or range of allowed ones.
        NotAllowed = "not_allowed",
        /// Not a hyphenated UUID of version 7.
        BadUuid = "bad_uuid",
        /// Not an RFC 3339 timestamp with `T` and an offset, or too far in the future.
        BadTimestamp = "bad_timestamp",
        /// Not an agent id.
        BadAgentId = "bad_agent_id",
        /// Nothing but white space where something must be said.
        Blank = "blank",
        /// A string with too many characters.
        TooLong = "too_long",
        /// An array with too many items.
        TooMany = "too_many",
        /// An array with too few items.
        TooFew = "too_few",
        /// Objects and arrays nested too deep.
        TooDeep = "too_deep",
        /// A message with too many bytes.
        TooLarge = "too_large",
        /// A key that stands twice in one object.
        DuplicateKey = "duplicate_key",
        /// Two fields that contradict each other.
        Mismatch = "mismatch",
        /// Bytes that are no JSON text.
        NotJson = "not_json",
    }
}

/// One thing that is wrong, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Violation {
    /// JSON Pointer (RFC 6901) to the place; empty for the message as a whole.
    pub path: String,
    /// The kind of violation, for programs.
    pub code: Code,
    /// What is wrong and what to write instead, for people and language models.
    pub message: String,
    /// The allowed values, where they are a closed set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
    /// The nearest known word, where one is near.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

impl Violation {
    /// A violation without a closed set or a suggestion.
    #[must_use]
    pub fn new(path: impl Into<String>, code: Code, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            code,
            message: message.into(),
            allowed: Vec::new(),
            suggestion: None,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.path.is_empty() { "(the whole)" } else { &self.path };
        write!(f, "{place}: {}: {}", self.code, self.message)
    }
}

/// Everything that is wrong with one message; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    violations: Vec<Violation>,
    more: usize,
}

impl Report {
    /// Orders the violations by place, drops repeats and cuts the list at its limit.
    pub(crate) fn new(mut violations: Vec<Violation>) -> Self {
        let by_place = |a: &Violation, b: &Violation| {
            (&a.path, a.code.as_str()).cmp(&(&b.path, b.code.as_str()))
        };
        violations.sort_by(by_place);
        violations.dedup_by(|a, b| a.path == b.path && a.code == b.code);
        let more = violations.len().saturating_sub(VIOLATIONS);
        if more > 0 {
            // A flood deep inside must not hide what is wrong at the top.
            violations.sort_by_key(|violation| violation.path.matches('/').count());
            violations.truncate(VIOLATIONS);
            violations.sort_by(by_place);
        }
        Self { violations, more }
    }

    /// The report on a message that was not read because it has `bytes` bytes, too many.
    #[must_use]
    pub fn too_large(bytes: usize) -> Self {
        crate::document::too_large(bytes).into()
    }

    /// The violations, ordered by path.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// How many violations lie beyond the listed ones.
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
