//! Field types: every rule about one value is written once, in the type that holds it.
//!
//! | file | type | rule |
//! | --- | --- | --- |
//! | `agent_id` | [`AgentId`](crate::AgentId) | name of an agent, safe in a path and in a log line |
//! | `ids` | [`MessageId`](crate::MessageId), [`TaskId`](crate::TaskId) … | UUID of version 7 |
//! | `opaque_id` | [`OpaqueId`](crate::task::OpaqueId) … | short text chosen by another system |
//! | `text`, `list` | [`Text`](crate::Text), [`List`](crate::List) … | bounded string, bounded array |
//! | `timestamp`, `utc_millis` | [`Timestamp`](crate::Timestamp), [`UtcMillis`](crate::task::UtcMillis) | RFC 3339 as given, or normalised |
//! | `trace` | [`Trace`](crate::Trace) | W3C Trace Context |
//! | `extensible` | [`Extensible`](crate::Extensible) | typed fields plus any others, kept byte for byte |
//! | `closed_set` | macro | enum with a fixed set of names on the wire |
//! | `object` | macro | struct that is read from a JSON object only |
//!
//! Each type enforces its rule when serde reads it and states the same rule in its JSON Schema.
//! The property tests compare the two.

#[macro_use]
pub(crate) mod closed_set;
#[macro_use]
pub(crate) mod object;

pub(crate) mod agent_id;
pub(crate) mod extensible;
mod fast_limits;
pub(crate) mod ids;
pub mod limits;
pub(crate) mod list;
pub(crate) mod opaque_id;
pub(crate) mod text;
pub(crate) mod timestamp;
pub(crate) mod trace;
pub(crate) mod utc_millis;
