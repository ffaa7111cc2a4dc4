//! Bounded strings, with a variant that must not be blank.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::limits::{STRING_CHARS, TITLE_CHARS};

/// At least one character that is not Unicode white space. The characters are written out, because
/// regular-expression dialects disagree about `\s` and about escapes.
pub(crate) const NOT_BLANK_PATTERN: &str = "[^\u{9}-\u{d}\u{20}\u{85}\u{a0}\u{1680}\u{2000}-\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}]";

/// A string that may be empty, of at most [`STRING_CHARS`] code points.
pub type Text = Bounded<STRING_CHARS, false>;
/// A string that is not blank, of at most [`STRING_CHARS`] code points.
pub type NonBlank = Bounded<STRING_CHARS, true>;
/// A title or topic: not blank, at most [`TITLE_CHARS`] code points.
pub type Title = Bounded<TITLE_CHARS, true>;

/// A string of at most `MAX` code points that must not be blank if `REQUIRED`.
///
/// ```
/// use a2a_protocol::{BadText, Title};
/// assert_eq!(Title::try_from("Fix the parser").unwrap().as_str(), "Fix the parser");
/// assert_eq!(Title::try_from("  ").unwrap_err(), BadText::Blank);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bounded<const MAX: usize, const REQUIRED: bool>(String);

/// Why a string was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadText {
    /// Only white space in a field that must not be blank.
    #[error("the text is blank")]
    Blank,
    /// More code points than the field allows.
    #[error("the text is longer than {max} characters")]
    TooLong {
        /// Maximum code points of the field.
        max: usize,
    },
    /// U+0000, which databases and terminals downstream cannot represent.
    #[error("the text contains the character U+0000")]
    Nul,
}

/// Whether `text` has more than `max` code points. Counts them only if the byte length does not
/// decide it.
pub(crate) fn longer_than(text: &str, max: usize) -> bool {
    text.len() > max && text.chars().count() > max
}

impl<const MAX: usize, const REQUIRED: bool> Bounded<MAX, REQUIRED> {
    fn check(text: &str) -> Result<(), BadText> {
        if REQUIRED && text.chars().all(char::is_whitespace) {
            return Err(BadText::Blank);
        }
        if longer_than(text, MAX) {
            return Err(BadText::TooLong { max: MAX });
        }
        if memchr::memchr(0, text.as_bytes()).is_some() {
            return Err(BadText::Nul);
        }
        Ok(())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<const MAX: usize, const REQUIRED: bool> TryFrom<String> for Bounded<MAX, REQUIRED> {
    type Error = BadText;

    fn try_from(text: String) -> Result<Self, BadText> {
        Self::check(&text)?;
        Ok(Self(text))
    }
}

impl<const MAX: usize, const REQUIRED: bool> TryFrom<&str> for Bounded<MAX, REQUIRED> {
    type Error = BadText;

    fn try_from(text: &str) -> Result<Self, BadText> {
        Self::check(text)?;
        Ok(Self(text.to_owned()))
    }
}

impl<const MAX: usize, const REQUIRED: bool> From<Bounded<MAX, REQUIRED>> for String {
    fn from(text: Bounded<MAX, REQUIRED>) -> Self {
        text.0
    }
}

impl<const MAX: usize, const REQUIRED: bool> Deref for Bounded<MAX, REQUIRED> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<const MAX: usize, const REQUIRED: bool> fmt::Debug for Bounded<MAX, REQUIRED> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const MAX: usize, const REQUIRED: bool> fmt::Display for Bounded<MAX, REQUIRED> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const MAX: usize, const REQUIRED: bool> Serialize for Bounded<MAX, REQUIRED> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de, const MAX: usize, const REQUIRED: bool> Deserialize<'de> for Bounded<MAX, REQUIRED> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.try_into().map_err(de::Error::custom)
    }
}

impl<const MAX: usize, const REQUIRED: bool> JsonSchema for Bounded<MAX, REQUIRED> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = json_schema!({ "type": "string", "maxLength": MAX });
        if REQUIRED {
            schema.insert("pattern".into(), NOT_BLANK_PATTERN.into());
        }
        schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_length_is_counted_in_code_points() {
        assert!(Title::try_from("é".repeat(512)).is_ok());
        assert_eq!(Title::try_from("é".repeat(513)), Err(BadText::TooLong { max: 512 }));
    }

    #[test]
    fn blank_text_is_refused_only_where_required() {
        assert!(Text::try_from("").is_ok());
        for blank in ["", " ", "\t\r\n", "\u{a0}\u{2003}\u{3000}\u{85}"] {
            assert_eq!(NonBlank::try_from(blank), Err(BadText::Blank), "{blank:?}");
        }
        assert_eq!(Text::try_from("a\0b"), Err(BadText::Nul));
    }

    #[test]
    fn not_blank_pattern_excludes_exactly_unicode_white_space() {
        let pattern = regex_of(NOT_BLANK_PATTERN);
        for c in (0..=0x0010_ffff).filter_map(char::from_u32) {
            assert_eq!(!pattern(c), c.is_whitespace(), "{c:?}");
        }
    }

    /// Whether the pattern matches one character, evaluated by the schema validator that users run.
    fn regex_of(pattern: &str) -> impl Fn(char) -> bool {
        let validator =
            jsonschema::validator_for(&serde_json::json!({ "pattern": pattern })).unwrap();
        move |c| validator.is_valid(&serde_json::Value::String(c.into()))
    }
}
