//! What the journal promises to the outside, one module per promise.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that fails should panic

/// What is written ahead of the day file survives a machine that goes down at any moment.
mod ahead;
/// Both journals answer alike: pages, lookups, events, order, closing.
mod conformance;
/// What the bus notes to know after a restart.
mod facts;
/// A failing disk: every step, and what the journal does next.
mod faults;
/// No text can forge a line.
mod forging;
/// Indexes that other versions of the program wrote.
mod formats;
/// What one form lacks is taken from the other; what both lack is not passed over.
mod gaps;
/// The exact bytes of a record and an event, hashed here by other means.
mod golden;
/// Random commits, faults and restarts against a simple model.
mod model;
/// Reading without a server: the log stays as it is, and a server can start at any time.
mod offline;
/// Long values lie in sled in pieces: all of them count, and all of them go.
mod pieces;
/// What a power cut left of an unpromised batch is not taken for damage, nor damage for that.
mod promised;
/// Every filter, against a plain look at each line.
mod query;
/// Much about one message, clocks that were set back, and places beyond the end.
mod reading;
/// What a removal must not take with it, however much that is.
mod removal;
/// What a restart remembers: after a clean stop, a kill, with sled gone or unfit.
mod reopen;
/// Old days are packed, removed and written down, whatever happens in between.
mod retention;
/// Every way to tamper with the log is noticed and named.
mod tampering;
/// A write cut at every byte, damage in the middle, files that are not ours.
mod torn;

/// A failed writeback, a failed fsync and what the page cache shows afterwards.
mod writeback;

/// A disk with a page cache, which shows what it has not.
mod cached;
/// A disk that fails when told to.
mod faulty;
/// Lines to commit, and ways to look at what came of them.
mod setup;
