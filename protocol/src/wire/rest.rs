//! HTTP+JSON: routes, queries and bodies of both versions.
//!
//! Independent of an HTTP library: verbs and paths are texts.

use super::decode::{PathIds, decode_named, decode_query};
use super::encode::{Outgoing, json_text};
use super::error::{self, ErrorCodes};
use super::{Decoded, Dialect, Encoded, Method, Version};
use crate::fault::Fault;
use crate::operation::Reply;
use crate::validate::violation::{Code, Violation};

/// The target of a path below the prefix of its version (`/v1` for 0.3, none for 1.0).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The method.
    pub method: Method,
    path_ids: PathIds,
}

/// No route for a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoRoute {
    /// The path does not exist.
    #[error("there is nothing at this path")]
    Unknown,
    /// The path exists for other verbs.
    #[error("this path takes {allowed}")]
    Verb {
        /// Value of the header `Allow`.
        allowed: &'static str,
    },
}

/// Finds the route of `verb` and `path`. The path is still percent-encoded.
///
/// # Errors
/// [`NoRoute`] if the path does not exist, or not for this verb.
pub fn route(version: Version, verb: &str, path: &str) -> Result<Route, NoRoute> {
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let card = match version {
        Version::V0_3 => "card",
        Version::V1_0 => "extendedAgentCard",
    };
    let on = |verbs: &[(&str, Method)], allowed, task: Option<&str>, config: Option<&str>| {
        let Some((_, method)) = verbs.iter().find(|(known, _)| *known == verb) else {
            return Err(NoRoute::Verb { allowed });
        };
        let path_ids = PathIds { task: decoded_segment(task)?, config: decoded_segment(config)? };
        Ok(Route { method: *method, path_ids })
    };
    match segments[..] {
        ["message:send"] => on(&[("POST", Method::SendMessage)], "POST", None, None),
        ["message:stream"] => on(&[("POST", Method::StreamMessage)], "POST", None, None),
        ["tasks"] => on(&[("GET", Method::ListTasks)], "GET", None, None),
        [segment] if segment == card => on(&[("GET", Method::ExtendedCard)], "GET", None, None),
        ["tasks", task] => match action(task) {
            (task, "cancel") => on(&[("POST", Method::CancelTask)], "POST", Some(task), None),
            // GET in the proto file, POST in the specification; servers accept both.
            (task, "subscribe") => {
                let verbs = [("GET", Method::Subscribe), ("POST", Method::Subscribe)];
                on(&verbs, "GET, POST", Some(task), None)
            }
            (task, "") => on(&[("GET", Method::GetTask)], "GET", Some(task), None),
            _ => Err(NoRoute::Unknown),
        },
        ["tasks", task, "pushNotificationConfigs"] => {
            let verbs = [("POST", Method::SetPush), ("GET", Method::ListPushes)];
            on(&verbs, "GET, POST", Some(task), None)
        }
        ["tasks", task, "pushNotificationConfigs", config] => {
            let verbs = [("GET", Method::GetPush), ("DELETE", Method::DeletePush)];
            on(&verbs, "DELETE, GET", Some(task), Some(config))
        }
        _ => Err(NoRoute::Unknown),
    }
}

/// Splits a task's id from the action: `{id}:cancel`. An id may contain colons.
fn action(segment: &str) -> (&str, &str) {
    match segment.rsplit_once(':') {
        Some((task, action @ ("cancel" | "subscribe"))) => (task, action),
        _ => (segment, ""),
    }
}

fn decoded_segment(segment: Option<&str>) -> Result<Option<String>, NoRoute> {
    let Some(segment) = segment else { return Ok(None) };
    match percent_decoded(segment, false) {
        Some(text) if !text.is_empty() => Ok(Some(text)),
        _ => Err(NoRoute::Unknown),
    }
}

/// Decodes a call. `query` is the text after `?`, `body` the body, if there is one.
///
/// # Errors
/// [`Fault::InvalidParams`] with every violation.
pub fn decode(
    version: Version,
    route: &Route,
    query: Option<&str>,
    body: Option<&[u8]>,
) -> Result<Decoded, Fault> {
    let bodied = matches!(
        route.method,
        Method::SendMessage | Method::StreamMessage | Method::SetPush | Method::CancelTask
    );
    if bodied {
        let body = body.map(std::str::from_utf8).transpose().map_err(|error| {
            let at = error.valid_up_to();
            let message = format!("The body is not UTF-8: byte {at} begins no character.");
            Fault::InvalidParams(vec![Violation::new("", Code::NotJson, message)])
        })?;
        let decoded = decode_named(version, route.method, body, &route.path_ids)?;
        // The body of a cancel is the same in both forms of 0.3, so it does not show the form.
        let shown = route.method != Method::CancelTask;
        let dialect = if shown { decoded.dialect } else { default_dialect(version) };
        return Ok(Decoded { dialect, ..decoded });
    }
    let pairs = query_pairs(query.unwrap_or_default())?;
    let decoded = decode_query(version, route.method, pairs, &route.path_ids)?;
    Ok(Decoded { dialect: default_dialect(version), ..decoded })
}

/// The form for callers whose request does not show it: the SDKs and the conformance kit of 0.3
/// read the ProtoJSON of its gRPC definition.
#[must_use]
pub const fn default_dialect(version: Version) -> Dialect {
    match version {
        Version::V0_3 => Dialect::V0_3Proto,
        Version::V1_0 => Dialect::V1_0,
    }
}

/// The body of a reply.
#[must_use]
pub const fn reply<'a>(dialect: Dialect, method: Method, reply: &'a Reply) -> Encoded<'a> {
    Encoded { dialect, outgoing: Outgoing::RestReply(method, reply) }
}

/// The HTTP status and the body of an error.
#[must_use]
pub fn fault(version: Version, fault: &Fault) -> (u16, String) {
    let ErrorCodes { http, .. } = error::codes(fault);
    (http, json_text(&error::Rest(version, fault)))
}

/// The content type of replies that are not streams.
#[must_use]
pub const fn media_type(version: Version) -> &'static str {
    match version {
        Version::V0_3 => "application/json",
        Version::V1_0 => "application/a2a+json",
    }
}

/// The pairs of a query, without the empty ones.
fn query_pairs(query: &str) -> Result<Vec<(String, String)>, Fault> {
    let pieces = query.split('&').filter(|piece| !piece.is_empty());
    let pairs = pieces.map(|piece| {
        let (key, value) = piece.split_once('=').unwrap_or((piece, ""));
        let pair = percent_decoded(key, true).zip(percent_decoded(value, true));
        pair.filter(|(key, value)| !key.contains('\0') && !value.contains('\0')).ok_or_else(|| {
            let message = "The query is not percent-encoded UTF-8 text.";
            Fault::InvalidParams(vec![Violation::new("", Code::NotAllowed, message)])
        })
    });
    // An empty value means that the parameter is not set.
    let set = |pair: &Result<(String, String), Fault>| !matches!(pair, Ok((_, v)) if v.is_empty());
    pairs.filter(set).collect()
}

/// Percent-decodes a text; in a query `+` is a space.
fn percent_decoded(text: &str, query: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high * 16 + low).ok()?
            }
            b'+' if query => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}
