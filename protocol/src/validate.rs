//! Validation report: lists every violation of a message that the types refused.
//!
//! Reading a valid message never enters this module. When serde refuses a message, the bytes are
//! read a second time:
//!
//! ```text
//! bytes ─▶ document ─▶ JSON value + duplicate keys
//!                         │
//!            checker (schema generated from the types) ─▶ violations ─▶ report
//!            report  (rules between two fields)        ─▶     ▲
//! ```
//!
//! - `schema` generates the published JSON Schemas from the types.
//! - `document` finds what a schema cannot see: duplicate keys, depth, U+0000, syntax errors.
//! - `checker` turns each schema error into a [`Violation`](crate::Violation) with advice.
//! - `violation_text` holds the pieces of those sentences.
//! - `message_ids` reads the ids of a refused message, so that the refusal can name it.

pub(crate) mod checker;
pub(crate) mod document;
pub(crate) mod message_ids;
pub(crate) mod report;
pub mod schema;
pub(crate) mod violation;
pub(crate) mod violation_text;
