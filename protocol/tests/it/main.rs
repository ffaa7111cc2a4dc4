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

/// Strategies that generate valid messages and then damage them.
mod generate;
