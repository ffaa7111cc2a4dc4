//! The circuit breaker against a corpus: storms that must be cut, honest work that must pass.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that fails should panic

mod bounds;
mod honest;
mod storms;
mod world;
