//! The circuit breaker against a corpus: storms that must be cut, honest work that must pass.
//! Objectives and the planner under random treatment.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that fails should panic

mod bounds;
mod honest;
mod objectives;
mod planner;
mod storms;
mod world;
