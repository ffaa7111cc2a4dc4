//! Circuit breaker against generated traffic: storms must trip it, honest work must not. Objectives
//! under random operations.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that fails should panic

mod bounds;
mod corpus;
mod honest;
mod objectives;
mod storms;
mod world;
