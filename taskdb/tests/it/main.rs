//! What the store of tasks promises to the outside, one module per promise.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that fails should panic

/// Both stores answer alike: writes, versions, repeats, queues, events, expiry.
mod conformance;
/// SIGKILL in the middle of commits: what was answered is there, and nothing by halves.
mod crash;
/// What is only true of the file: restarts, other versions, a full disk, many readers.
mod file;
/// Pages of tasks: order, filters, tokens, what is left out.
mod list;
/// A file of the first schema opens and keeps its tasks.
mod migration;
/// Random writes on both stores, which must never differ.
mod model;
/// Pages of objectives: order, filters, tokens, with and without plans.
mod objective_pages;
/// Objectives with their plans and tasks: writes, revisions, trees, histories, expiry.
mod objectives;
/// Tasks that are written once, when they have ended.
mod once;
/// Webhooks hear every event in order.
mod push;
/// Several writes as one: all of them or none.
mod together;

/// Tasks to write, and ways to look at what came of them.
mod setup;
