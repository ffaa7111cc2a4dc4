//! The circuit breaker against a corpus: storms that must be cut, honest work that must pass.
//! Objectives under random operations.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that fails should panic

mod bounds;
mod honest;
mod objectives;
mod storms;
mod world;
