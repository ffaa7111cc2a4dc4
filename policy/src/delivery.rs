//! Inbox of one session: order, leases, redelivery and dead letters.
//!
//! ```text
//! (journal) ─▶ arrive ─▶ waiting ─lease─▶ in flight ─acknowledge─▶ removed
//!                           ▲                 └─fail─▶ backoff ──┐
//!                           └────────────────────────────────────┤
//!                                           dead letter ◀────────┘ after the last attempt
//! ```
//!
//! `priority_queue` holds the waiting entries, `retry` computes the backoff. While an entry is in
//! backoff, later entries of the same sender and priority wait behind it: order per sender,
//! recipient and priority holds across retries.

mod inbox;
mod priority_queue;
mod retry;

pub use inbox::{AfterFailure, DeliveryKey, DeliveryState, Inbox, QueueEntry};
pub use retry::RetryPolicy;
