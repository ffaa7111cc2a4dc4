//! JSON reader of the failure path: finds the violations that a schema check cannot see.
//!
//! A schema check works on a parsed value, which no longer shows duplicate keys or the nesting of
//! the text. This reader records them while it parses.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::limits::{COUNTED_BYTES, DEPTH, MESSAGE_BYTES, VIOLATIONS};
use crate::validate::violation::{Code, Violation};

/// A parsed JSON text with its duplicate keys.
pub(crate) struct Document {
    pub(crate) value: Value,
    pub(crate) duplicate_keys: Vec<Violation>,
}

impl Document {
    /// Parses `bytes`; the error is the reason why they are not a JSON text within the limits.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Violation> {
        if bytes.len() > MESSAGE_BYTES {
            return Err(too_large(bytes.len()));
        }
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let at = error.valid_up_to();
            not_json(format!("The bytes are not UTF-8: byte {at} (counted from 0) begins no character. Send the message as UTF-8 JSON text."))
        })?;
        let mut state = ReadState::default();
        let mut reader = serde_json::Deserializer::from_str(text);
        let value = NodeReader { state: &mut state, depth: 0 }
            .deserialize(&mut reader)
            .and_then(|value| reader.end().map(|()| value))
            .map_err(|error| {
                state.stopped_by.take().unwrap_or_else(|| syntax_error(text, &error))
            })?;
        Ok(Self { value, duplicate_keys: state.duplicate_keys })
    }
}

/// The violation of a message that is larger than the limit.
pub(crate) fn too_large(bytes: usize) -> Violation {
    let has = match bytes {
        counted if counted <= COUNTED_BYTES => format!("{counted} bytes"),
        _ => format!("more than {COUNTED_BYTES} bytes"),
    };
    Violation::new(
        "",
        Code::TooLarge,
        format!(
            "The message has {has}; at most {MESSAGE_BYTES} are allowed. Shorten it, or put large content into a file and name the file."
        ),
    )
}

fn not_json(message: String) -> Violation {
    Violation::new("", Code::NotJson, message)
}

fn syntax_error(text: &str, error: &serde_json::Error) -> Violation {
    if text.trim().is_empty() {
        return not_json("There is no JSON text here. Send one JSON object.".into());
    }
    if let Some(advice) = common_mistake(text) {
        return not_json(format!("This is not JSON text: {advice}"));
    }
    let place = match (error.line(), error.column()) {
        (1, column) => format!("column {column}"),
        (line, column) => format!("line {line} column {column}"),
    };
    if error.is_eof() {
        return not_json(format!(
            "The JSON text ends too early, at {place}. Close every string, array and object."
        ));
    }
    // serde_json appends the position to its sentence; this sentence has its own form for it.
    let full = error.to_string();
    let what = match full.split(" at line ").next().unwrap_or(&full) {
        "unexpected end of hex escape" | "lone leading surrogate in hex escape" => {
            "a \\u escape is half of a surrogate pair"
        }
        what => what,
    };
    not_json(format!(
        "This is not JSON text: {what} at {place}. Send one JSON object, with double-quoted keys and strings, numbers a double can hold, and nothing after it."
    ))
}

/// Advice for common mistakes that a parser's message does not explain.
fn common_mistake(text: &str) -> Option<&'static str> {
    if text.starts_with('\u{feff}') {
        return Some("it begins with a byte order mark. Send it without.");
    }
    text.trim_start()
        .starts_with("```")
        .then_some("it is wrapped in a Markdown fence. Send only what stands inside.")
}

#[derive(Default)]
struct ReadState {
    /// JSON Pointer of the value being read.
    path: String,
    duplicate_keys: Vec<Violation>,
    /// The violation that stopped the reader, unless it was a syntax error.
    stopped_by: Option<Violation>,
}

/// Appends one reference token to a JSON Pointer.
pub(crate) fn push_token(path: &mut String, token: &str) {
    path.push('/');
    for c in token.chars() {
        match c {
            '~' => path.push_str("~0"),
            '/' => path.push_str("~1"),
            c => path.push(c),
        }
    }
}

impl ReadState {
    fn stop<E: de::Error>(&mut self, violation: Violation) -> E {
        self.stopped_by = Some(violation);
        E::custom("stopped")
    }

    fn check_text<E: de::Error>(&mut self, text: &str) -> Result<(), E> {
        if memchr::memchr(0, text.as_bytes()).is_none() {
            return Ok(());
        }
        let path = if self.path.is_empty() { "the message" } else { &self.path };
        let message = format!(
            "A string at {path} contains the character U+0000, which not every program that reads it can hold. Leave that character out."
        );
        Err(self.stop(not_json(message)))
    }
}

struct NodeReader<'a> {
    state: &'a mut ReadState,
    /// Number of containers around this value.
    depth: usize,
}

impl NodeReader<'_> {
    fn enter<E: de::Error>(&mut self) -> Result<(), E> {
        self.depth += 1;
        if self.depth > DEPTH {
            let message = format!(
                "Objects and arrays are nested more than {DEPTH} levels deep. Flatten the value, or send it as a string."
            );
            return Err(self.state.stop(Violation::new("", Code::TooDeep, message)));
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for NodeReader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NodeReader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        self.state.check_text(text)?;
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Value, A::Error> {
        self.enter()?;
        let length = self.state.path.len();
        let mut items = Vec::new();
        loop {
            push_token(&mut self.state.path, &items.len().to_string());
            let item =
                seq.next_element_seed(NodeReader { state: self.state, depth: self.depth })?;
            self.state.path.truncate(length);
            match item {
                Some(item) => items.push(item),
                None => return Ok(items.into()),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Value, A::Error> {
        self.enter()?;
        let length = self.state.path.len();
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            self.state.check_text(&key)?;
            push_token(&mut self.state.path, &key);
            let value = map.next_value_seed(NodeReader { state: self.state, depth: self.depth })?;
            if fields.insert(key, value).is_some() && self.state.duplicate_keys.len() < VIOLATIONS {
                let message =
                    "This key stands more than once in the same object. Keep one of them.";
                let violation = Violation::new(&*self.state.path, Code::DuplicateKey, message);
                self.state.duplicate_keys.push(violation);
            }
            self.state.path.truncate(length);
        }
        Ok(fields.into())
    }
}
