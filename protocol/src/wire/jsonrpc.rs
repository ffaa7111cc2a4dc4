//! JSON-RPC 2.0: takes a body apart into calls, and puts answers together.
//!
//! Ids are kept as the text they came as, so that a number of thirty digits comes back as it
//! was. Parameters are not looked into here.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::Version;
use super::encode::json_text;
use super::error::{self, Refusal};
use crate::fault::Fault;
use crate::fields::object::present;

/// A body, taken apart.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// One call, to be answered with one object.
    One(Item<'a>),
    /// Several, to be answered with an array of the answers to those that have an id.
    Batch(Vec<Item<'a>>),
}

/// A call, or why it is none.
pub type Item<'a> = Result<Request<'a>, RejectedRequest<'a>>;

/// A call.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// What its answer repeats; without one it is a notification and gets no answer.
    pub id: Option<Id<'a>>,
    /// The name of the method.
    pub method: Cow<'a, str>,
    /// The parameters, unread.
    pub params: Option<&'a str>,
}

/// An id as it was json_text: a string, a number or `null`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Id<'a>(&'a str);

impl<'a> Id<'a> {
    /// For an answer to something whose id is not known.
    pub const NULL: Id<'static> = Id("null");

    /// An id that was kept as the text that [`Id::as_json`] gave.
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

/// Something that is no call, with its id where that can be told.
#[derive(Debug, Clone, PartialEq)]
pub struct RejectedRequest<'a> {
    /// The id, or [`Id::NULL`].
    pub id: Id<'a>,
    /// Why.
    pub refusal: Refusal,
}

/// The fields of a call, each as it stands there.
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

/// Takes a body apart; a batch may have `most` calls.
///
/// # Errors
/// When it is no JSON, no object or array, an empty array, or too long a one: then there is one
/// answer, with the id `null`.
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

/// One call of a batch. The array was JSON, so what fails inside is only that one.
fn batched(item: &RawValue) -> Item<'_> {
    request(item.get()).unwrap_or_else(|refusal| Err(RejectedRequest { id: Id::NULL, refusal }))
}

/// One call. The outer error is for a text without an id, the inner for a call with one.
fn request(text: &str) -> Result<Item<'_>, Refusal> {
    let is_object = text.trim_start().starts_with('{');
    if !is_object {
        // It may still be no JSON at all, which is another error.
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
    // It is JSON already, so the first byte tells its type. It is said again as it came, so it must
    // be something that everybody can read: no half of a character, no number without end.
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

/// A text that is JSON but has, say, two ids, is a bad request and not bad JSON.
fn not_json(error: &serde_json::Error) -> Refusal {
    let reason = error.to_string();
    match error.classify() {
        Category::Data => Refusal::InvalidRequest { reason },
        Category::Io | Category::Syntax | Category::Eof => Refusal::NotJson { reason },
    }
}

/// The answer to a call that was done.
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

/// The answer to a call that was not done.
#[must_use]
pub fn fault(version: Version, id: Id<'_>, fault: &Fault) -> String {
    failure(id, &error::JsonRpc::of(version, fault))
}

/// The answer to something that is no call, or names no method.
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

/// The answers to a batch, as one body; `None` when nobody wants one.
#[must_use]
pub fn batch(answers: &[String]) -> Option<String> {
    (!answers.is_empty()).then(|| format!("[{}]", answers.join(",")))
}
