//! The circuit breaker against a corpus: storms that must be cut, honest work that must pass.

mod bounds;
mod honest;
mod storms;
mod world;
