//! What the crate promises to the outside, one module per promise.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that fails should panic

/// Valid messages round-trip; types, report and schema agree on anything else.
mod agreement;
/// The published schemas are the generated ones, and every example in them is valid.
mod golden_schemas;
/// No bytes make it panic; each hostile form has its own clear error.
mod hostile_bytes;
/// The sentences tell a language model what to write instead.
mod sentences;
/// Every shared vector gets exactly its listed set of violations.
mod vectors;
/// A2A: one card for both versions.
mod wire_card;
/// A2A: every call, reply, event and error in both versions, as committed files.
mod wire_golden;
/// A2A: JSON-RPC bodies good and bad, HTTP+JSON paths and queries, hostile bytes.
mod wire_hostile;
/// A2A: objectives and plans, as committed files.
mod wire_opt;
/// A2A: what the texts of the extension print is read, and is in what is written.
mod wire_opt_seeds;
/// A2A: what the official types of 1.0 write and read, and what survives 0.3.
mod wire_oracle;

/// Strategies that generate valid messages and then damage them.
mod generate;
/// Strategies that generate values of the A2A domain model.
mod wire_domain;
