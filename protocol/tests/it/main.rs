//! Integration tests of the crate's public behaviour, one module per guarantee.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a failing test should panic

/// Valid messages round-trip; types, report and schema agree on all other bytes.
mod agreement;
/// The published schemas are the generated ones, and every example in them is valid.
mod golden_schemas;
/// No input causes a panic; each hostile form has its own clear error.
mod hostile_bytes;
/// Violation sentences state what to write instead.
mod sentences;
/// Every shared test vector gets exactly its listed violations.
mod vectors;
/// A2A: one card for both versions.
mod wire_card;
/// A2A: every call, reply, event and error in both versions, as committed files.
mod wire_golden;
/// A2A: JSON-RPC bodies good and bad, HTTP+JSON paths and queries, hostile bytes.
mod wire_hostile;
/// A2A: objectives and plans, as committed files.
mod wire_opt;
/// A2A: the examples in the specification of OPT are parsed, and replies contain their fields.
mod wire_opt_seeds;
/// A2A: agreement with the official types of 1.0, and round trips through 0.3.
mod wire_oracle;

/// Strategies that generate valid messages and damage them.
mod generate;
/// Strategies that generate values of the A2A domain model.
mod wire_domain;
