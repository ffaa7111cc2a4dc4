//! The bus API: one file for each resource below `/bus`, and the published JSON Schemas.
//!
//! A handler decodes the request, calls the bus and encodes the answer; it decides nothing about a
//! message. `operations` in each file describes its routes for the OpenAPI document.

pub(crate) mod agents;
pub(crate) mod circuits;
pub(crate) mod dead_letters;
pub(crate) mod inbox;
pub mod log;
pub(crate) mod messages;
pub(crate) mod names;
pub(crate) mod schemas;
pub(crate) mod tasks;
