//! Promises of the task store, one module per promise.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that fails should panic

/// Several writes as one: all of them or none.
mod atomic;
/// A file and a database in memory alike: writes, versions, repeats, queues, events, expiry.
mod conformance;
/// SIGKILL during commits: acknowledged commits survive, and none is partly there.
mod crash;
/// Tasks that are stored only when they have ended, and answers without a task.
mod ended_tasks;
/// Files only: restarts, other versions, a full disk, concurrent readers.
mod file;
/// Pages of tasks: order, filters, tokens, omitted fields.
mod list;
/// A file of the first schema is migrated and keeps its tasks.
mod migration;
/// Random writes, batched in a file and one by one in memory, give the same results.
mod model;
/// Pages of objectives: order, filters, tokens, with and without plans.
mod objective_pages;
/// Objectives with their plans and tasks: writes, revisions, trees, histories, expiry.
mod objectives;
/// The webhook outbox delivers every event in order.
mod push;

/// Builders for tasks, objectives and writes.
mod setup;
