//! Violation: one broken rule of a message, with advice that a language model can follow.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

closed_set! {
    /// The stable name of a kind of violation.
    pub enum Code {
        /// A required field is absent.
        Missing = "missing",
        /// A field that the protocol does not define.
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
        /// Only white space in a field that must not be blank.
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
        /// A key that occurs twice in one object.
        DuplicateKey = "duplicate_key",
        /// Two fields that contradict each other.
        Mismatch = "mismatch",
        /// Bytes that are not a JSON text.
        NotJson = "not_json",
    }
}

/// One broken rule, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Violation {
    /// JSON Pointer (RFC 6901) to the offending value; empty for the message as a whole.
    pub path: String,
    /// The kind of violation, for programs.
    pub code: Code,
    /// What is wrong and what to write instead, for people and language models.
    pub message: String,
    /// The allowed values, if they are a closed set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
    /// The allowed value or field name most similar to the given one, if one is similar.
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
