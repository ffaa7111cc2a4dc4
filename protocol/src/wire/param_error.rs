//! Path and reason of parameters that could not be deserialized.
//!
//! Only the failure path uses this module. The JSON is parsed again into a [`JsonTree`], which keeps
//! duplicate keys. The same types are deserialized from that tree with [`ParamError`], which keeps
//! path and code, where serde_json's error has only a sentence.

use std::fmt;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, Expected, MapAccess, SeqAccess, Unexpected,
    Visitor,
};
use serde::forward_to_deserialize_any;

use crate::validate::document::push_token;
use crate::validate::violation::{Code, Violation};

use super::params::THIS_KEY;

/// Maximum nesting that serde_json parses.
const DEPTH: usize = 127;

/// The violation in `params`, which could not be parsed; `read` repeats the attempt.
pub(super) fn describe(params: &str, read: impl Fn(&JsonTree) -> Option<ParamError>) -> Violation {
    if nesting(params) > DEPTH {
        let message =
            format!("Objects and arrays are nested more than {DEPTH} levels deep. Flatten them.");
        return Violation::new("", Code::TooDeep, message);
    }
    match serde_json::from_str::<JsonTree>(params) {
        Ok(node) => read(&node).map_or_else(unreadable, ParamError::into_violation),
        Err(error) => Violation::new("", Code::NotJson, format!("This cannot be read: {error}.")),
    }
}

/// The violation for U+0000 in `params`, if there is one. Programs downstream cannot represent it.
pub(super) fn find_nul(params: &str) -> Option<Violation> {
    // Only as an escape: JSON does not allow the character itself.
    memchr::memmem::find(params.as_bytes(), br"\u0000")?;
    let node = serde_json::from_str::<JsonTree>(params).ok()?;
    let mut path = String::new();
    node.nul_path(&mut path).then(|| {
        let message = "This contains the character U+0000, which not every program that reads it can hold. Leave that character out.";
        Violation::new(path, Code::NotAllowed, message)
    })
}

fn unreadable() -> Violation {
    Violation::new("", Code::NotAllowed, "These parameters cannot be read.")
}

/// Nesting of `text`, which need not be valid JSON.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// A JSON value that keeps all keys, including duplicates, in their order.
#[derive(Debug, Clone)]
pub(super) enum JsonTree {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
    Items(Vec<JsonTree>),
    Fields(Vec<(String, JsonTree)>),
}

impl JsonTree {
    fn nul_path(&self, path: &mut String) -> bool {
        let length = path.len();
        match self {
            Self::Text(text) => return text.contains('\0'),
            Self::Items(items) => {
                for (i, item) in items.iter().enumerate() {
                    push_token(path, &i.to_string());
                    if item.nul_path(path) {
                        return true;
                    }
                    path.truncate(length);
                }
            }
            Self::Fields(fields) => {
                for (key, value) in fields {
                    if key.contains('\0') {
                        return true;
                    }
                    push_token(path, key);
                    if value.nul_path(path) {
                        return true;
                    }
                    path.truncate(length);
                }
            }
            _ => {}
        }
        false
    }
}

impl<'de> Deserialize<'de> for JsonTree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = JsonTree;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any JSON value")
            }
            fn visit_unit<E>(self) -> Result<JsonTree, E> {
                Ok(JsonTree::Null)
            }
            fn visit_bool<E>(self, value: bool) -> Result<JsonTree, E> {
                Ok(JsonTree::Bool(value))
            }
            fn visit_u64<E>(self, value: u64) -> Result<JsonTree, E> {
                Ok(JsonTree::Unsigned(value))
            }
            fn visit_i64<E>(self, value: i64) -> Result<JsonTree, E> {
                Ok(JsonTree::Signed(value))
            }
            fn visit_f64<E>(self, value: f64) -> Result<JsonTree, E> {
                Ok(JsonTree::Float(value))
            }
            fn visit_str<E>(self, text: &str) -> Result<JsonTree, E> {
                Ok(JsonTree::Text(text.into()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<JsonTree, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(JsonTree::Items(items))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonTree, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(JsonTree::Fields(fields))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// A deserialization error with path and code.
#[derive(Debug)]
pub(super) struct ParamError {
    /// Path tokens from the innermost to the outermost.
    path: Vec<String>,
    code: Code,
    message: String,
    allowed: Vec<String>,
}

impl ParamError {
    fn new(code: Code, message: String) -> Self {
        Self { path: Vec::new(), code, message, allowed: Vec::new() }
    }

    fn under(mut self, token: impl Into<String>) -> Self {
        self.path.push(token.into());
        self
    }

    pub(super) fn into_violation(self) -> Violation {
        let mut path = String::new();
        for token in self.path.iter().rev() {
            push_token(&mut path, token);
        }
        Violation { allowed: self.allowed, ..Violation::new(path, self.code, self.message) }
    }
}

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ParamError {}

impl de::Error for ParamError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(Code::NotAllowed, message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(
            Code::WrongType,
            format!("This must be {}, not {}.", wanted(expected), shown(&found)),
        )
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(
            Code::NotAllowed,
            format!("This must be {}, not {}.", wanted(expected), shown(&found)),
        )
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let allowed = expected.iter().map(|&name| name.to_owned()).collect();
        let message = format!("This is not one of the allowed words: {}.", short(&variant));
        Self { allowed, ..Self::new(Code::NotAllowed, message) }
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(Code::Missing, format!("`{field}` must be given.")).under(field)
    }

    fn duplicate_field(field: &'static str) -> Self {
        if field == THIS_KEY {
            let message = "This key stands more than once in the same object. Keep one of them.";
            return Self::new(Code::DuplicateKey, message.to_owned());
        }
        let message = format!("`{field}` stands more than once in the same object. Keep one.");
        Self::new(Code::DuplicateKey, message).under(field)
    }
}

/// The expected type, with the terms of JSON.
fn wanted(expected: &dyn Expected) -> String {
    match &*expected.to_string() {
        "a sequence" => "an array".into(),
        "a map" => "an object".into(),
        other => other.into(),
    }
}

/// The value found, with the terms of JSON.
fn shown(found: &Unexpected<'_>) -> String {
    match found {
        Unexpected::Unit | Unexpected::Option => "null".into(),
        Unexpected::Bool(value) => value.to_string(),
        Unexpected::Unsigned(value) => format!("the number {value}"),
        Unexpected::Signed(value) => format!("the number {value}"),
        Unexpected::Float(value) => format!("the number {value}"),
        Unexpected::Str(text) => format!("\"{}\"", short(text)),
        Unexpected::Seq => "an array".into(),
        Unexpected::Map => "an object".into(),
        other => short(other),
    }
}

/// Text of the caller, truncated so that the error stays short.
fn short(found: &impl fmt::Display) -> String {
    let text = found.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

impl<'de> Deserializer<'de> for &'de JsonTree {
    type Error = ParamError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParamError> {
        match self {
            JsonTree::Null => visitor.visit_unit(),
            JsonTree::Bool(value) => visitor.visit_bool(*value),
            JsonTree::Unsigned(value) => visitor.visit_u64(*value),
            JsonTree::Signed(value) => visitor.visit_i64(*value),
            JsonTree::Float(value) => visitor.visit_f64(*value),
            JsonTree::Text(text) => visitor.visit_borrowed_str(text),
            JsonTree::Items(items) => visitor.visit_seq(Items(items.iter().enumerate())),
            JsonTree::Fields(fields) => {
                visitor.visit_map(Fields { rest: fields.iter(), current: None })
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParamError> {
        match self {
            JsonTree::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct Items<'a>(std::iter::Enumerate<std::slice::Iter<'a, JsonTree>>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = ParamError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ParamError> {
        let Some((i, item)) = self.0.next() else { return Ok(None) };
        seed.deserialize(item).map(Some).map_err(|error| error.under(i.to_string()))
    }
}

struct Fields<'a> {
    rest: std::slice::Iter<'a, (String, JsonTree)>,
    current: Option<&'a (String, JsonTree)>,
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = ParamError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ParamError> {
        self.current = self.rest.next();
        let Some((key, _)) = self.current else { return Ok(None) };
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, ParamError> {
        let Some((key, value)) = self.current else {
            return Err(de::Error::custom("a value without a key"));
        };
        seed.deserialize(value).map_err(|error: ParamError| error.under(key))
    }
}
