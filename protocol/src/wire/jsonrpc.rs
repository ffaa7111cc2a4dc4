//! JSON-RPC 2.0: parses request bodies and writes responses.
//!
//! Ids are kept as their original text, so that a number of thirty digits is returned unchanged.
//! Parameters are not parsed here.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::Version;
use super::encode::json_text;
use super::error::{self, Refusal};
use crate::fault::Fault;
use crate::fields::object::present;

/// A parsed request body.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// One call; the response is one object.
    One(Item<'a>),
    /// A batch; the response is an array with the responses to the calls that have an id.
    Batch(Vec<Item<'a>>),
}

/// A call, or the reason why it is invalid.
pub type Item<'a> = Result<Request<'a>, RejectedRequest<'a>>;

/// A call.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Repeated in the response. `None`: the call is a notification and gets no response.
    pub id: Option<Id<'a>>,
    /// The name of the method.
    pub method: Cow<'a, str>,
    /// The parameters as JSON text.
    pub params: Option<&'a str>,
}

/// An id in its original text: a string, a number or `null`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Id<'a>(&'a str);

impl<'a> Id<'a> {
    /// The id of a response to a request whose id is unknown.
    pub const NULL: Id<'static> = Id("null");

    /// An id from text returned by [`Id::as_json`].
    #[must_use]
    pub const fn from_json(json: &'a str) -> Self {
        Self(json)
    }

    /// The JSON text.
    #[must_use]
    pub const fn as_json(&self) -> &str {
        self.0
    }
}

/// An invalid call, with its id if that could be read.
#[derive(Debug, Clone, PartialEq)]
pub struct RejectedRequest<'a> {
    /// The id, or [`Id::NULL`].
    pub id: Id<'a>,
    /// The reason.
    pub refusal: Refusal,
}

/// The fields of a call as JSON text.
#[derive(Deserialize)]
struct RawRequest<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
}

/// Parses a body; a batch may have at most `most` calls.
///
/// # Errors
/// The body is not JSON, not an object or array, or an empty or too long array. The response is one
/// object with the id `null`.
pub fn parse(body: &[u8], most: usize) -> Result<Incoming<'_>, Refusal> {
    let text = std::str::from_utf8(body).map_err(|error| {
        let at = error.valid_up_to();
        Refusal::NotJson { reason: format!("byte {at} begins no UTF-8 character") }
    })?;
    if !text.trim_start().starts_with('[') {
        return request(text).map(Incoming::One);
    }
    let items: Vec<&RawValue> = serde_json::from_str(text).map_err(|error| not_json(&error))?;
    if items.is_empty() {
        return Err(Refusal::InvalidRequest { reason: "the batch is empty".into() });
    }
    if items.len() > most {
        return Err(Refusal::BatchTooLarge { calls: items.len(), most });
    }
    Ok(Incoming::Batch(items.into_iter().map(batched).collect()))
}

/// Parses one call of a batch. The array was valid JSON, so a failure concerns this call only.
fn batched(item: &RawValue) -> Item<'_> {
    request(item.get()).unwrap_or_else(|refusal| Err(RejectedRequest { id: Id::NULL, refusal }))
}

/// Parses one call. The outer error is for a text without a usable id, the inner one for a call
/// with an id.
fn request(text: &str) -> Result<Item<'_>, Refusal> {
    let is_object = text.trim_start().starts_with('{');
    if !is_object {
        // If it is not JSON at all, the error is a different one.
        serde_json::from_str::<&RawValue>(text).map_err(|error| not_json(&error))?;
        return Err(Refusal::InvalidRequest { reason: "a call is a JSON object".into() });
    }
    let raw: RawRequest<'_> = serde_json::from_str(text).map_err(|error| not_json(&error))?;
    let bad = |reason: &str| Refusal::InvalidRequest { reason: reason.into() };
    let id = match raw.id.map(RawValue::get) {
        None => None,
        Some(id) if is_id(id) => Some(Id(id)),
        Some(_) => return Err(bad("`id` must be a string, a number or null")),
    };
    let refuse = |reason: &str| {
        Ok(Err(RejectedRequest { id: id.unwrap_or(Id::NULL), refusal: bad(reason) }))
    };
    if string(raw.jsonrpc).as_deref() != Some("2.0") {
        return refuse("`jsonrpc` must be \"2.0\"");
    }
    let Some(method) = string(raw.method) else {
        return refuse("`method` must be a string, the name of a method");
    };
    let params = raw.params.map(RawValue::get);
    Ok(Ok(Request { id, method, params }))
}

fn is_id(text: &str) -> bool {
    // The text is valid JSON, so the first byte shows its type. It is repeated unchanged in the
    // response, so every client must be able to read it: no lone surrogate, no endless number.
    match text.as_bytes().first() {
        Some(b'"') => !text.contains('\\') || serde_json::from_str::<String>(text).is_ok(),
        Some(b'-' | b'0'..=b'9') => serde_json::from_str::<serde_json::Number>(text).is_ok(),
        _ => text == "null",
    }
}

fn string(raw: Option<&RawValue>) -> Option<Cow<'_, str>> {
    let text = raw?.get();
    let inside = text.strip_prefix('"')?.strip_suffix('"')?;
    if !inside.contains('\\') {
        return Some(Cow::Borrowed(inside));
    }
    serde_json::from_str::<String>(text).ok().map(Cow::Owned)
}

/// Distinguishes a text that is not JSON from JSON that is not a call, such as one with two ids.
fn not_json(error: &serde_json::Error) -> Refusal {
    let reason = error.to_string();
    match error.classify() {
        Category::Data => Refusal::InvalidRequest { reason },
        Category::Io | Category::Syntax | Category::Eof => Refusal::NotJson { reason },
    }
}

/// The response to a successful call.
#[must_use]
pub fn success(id: Id<'_>, result: &impl Serialize) -> String {
    let mut bytes = opened(id, "result").into_bytes();
    let start = bytes.len();
    if serde_json::to_writer(&mut bytes, result).is_err() {
        bytes.truncate(start);
        bytes.extend_from_slice(b"null");
    }
    bytes.push(b'}');
    String::from_utf8(bytes).unwrap_or_default()
}

/// The response to a failed call.
#[must_use]
pub fn fault(version: Version, id: Id<'_>, fault: &Fault) -> String {
    failure(id, &error::JsonRpc::of(version, fault))
}

/// The response to an invalid call or an unknown method.
#[must_use]
pub fn refusal(id: Id<'_>, refusal: &Refusal) -> String {
    failure(id, &error::JsonRpc::from(refusal))
}

fn failure(id: Id<'_>, error: &error::JsonRpc) -> String {
    let mut text = opened(id, "error");
    text.push_str(&json_text(error));
    text.push('}');
    text
}

fn opened(id: Id<'_>, field: &str) -> String {
    let mut text = String::with_capacity(512);
    for piece in [r#"{"jsonrpc":"2.0","id":"#, id.0, r#",""#, field, r#"":"#] {
        text.push_str(piece);
    }
    text
}

/// The response to a batch; `None` if all its calls are notifications.
#[must_use]
pub fn batch(answers: &[String]) -> Option<String> {
    (!answers.is_empty()).then(|| format!("[{}]", answers.join(",")))
}
