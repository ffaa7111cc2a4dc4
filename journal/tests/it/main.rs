//! Guarantees of the journal, one module for each.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that fails should panic

/// Values longer than one sled chunk: every chunk counts, and a removal leaves none.
mod chunks;
/// Both journals behave alike: pages, lookups, events, order, closing.
mod conformance;
/// Facts of the bus that a restart restores.
mod facts;
/// A failing disk: every step of a commit, and the state of the journal afterwards.
mod faults;
/// No text in a message can forge a record.
mod forging;
/// Indexes written by other versions of the program.
mod formats;
/// Records missing in one form are taken from the other; records missing in both are reported.
mod gaps;
/// The exact bytes of a message record and an event, with hashes from another program.
mod golden;
/// Random commits, faults and restarts against a simple model.
mod model;
/// Reading without a server: the log stays unchanged, and a server can start at any time.
mod offline;
/// Every filter of a query, against a scan of all lines.
mod query;
/// Histories of large messages, a clock that was set back, and positions beyond the end.
mod reader;
/// What a removal must preserve, however much that is.
mod removal;
/// State after a restart: after a clean stop, after a kill, with the index missing or unfit.
mod reopen;
/// Old days are compressed, removed and recorded, with a stop at any step.
mod retention;
/// Every kind of tampering is detected and named.
mod tampering;
/// Writes cut at every byte, damage in the middle, files of other programs.
mod torn;
/// Batches in the WAL survive a machine that goes down at any moment.
mod wal;
/// Distinguishes a torn batch that was never durable from damage to durable ones.
mod watermark;
/// Failed writebacks, failed fsyncs, and what the page cache shows afterwards.
mod writeback;

/// Test disk that injects faults.
mod faulty_disk;
/// Test disk with a page cache that differs from the disk.
mod page_cache_disk;
/// Fixtures: records to commit, and checks of the result.
mod setup;
