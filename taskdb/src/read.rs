//! Reads: queries, row decoding and page limits.
//!
//! A call borrows a connection from the pool and runs all its queries in one transaction, so it
//! sees whole commits only. A page ends after a number of items or of bytes, whichever comes first.

mod objectives;
mod page;
mod pool;
mod row;
mod tasks;

pub(crate) use pool::Pool;
pub(crate) use row::{number, repeated};
pub(crate) use tasks::SqliteReader;
