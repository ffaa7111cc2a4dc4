//! What the store of tasks promises to the outside, one module per promise.

/// Both stores answer alike: writes, versions, repeats, queues, events, expiry.
mod conformance;
/// SIGKILL in the middle of commits: what was answered is there, and nothing by halves.
mod crash;
/// What is only true of the file: restarts, other versions, a full disk, many readers.
mod file;
/// Pages of tasks: order, filters, tokens, what is left out.
mod list;
/// Random writes on both stores, which must never differ.
mod model;
/// Webhooks hear every event in order.
mod push;

/// Tasks to write, and ways to look at what came of them.
mod setup;
