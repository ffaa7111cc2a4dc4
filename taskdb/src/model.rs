//! What the store keeps and what can be asked of it.
//!
//! - [`StoredTask`] and [`StoredObjective`] are the rows: the part callers see plus what the server
//!   needs after a restart. Each carries a version that rises by 1 with every change.
//! - [`SentMessage`] is a caller's message id with a content hash, for dedup.
//! - [`ListQuery`] and [`ObjectiveQuery`] select a page. A page ends at an item, not at an offset,
//!   so concurrent inserts neither repeat nor skip items.

mod message;
mod objective;
mod page_token;
mod query;
mod task;

pub use message::SentMessage;
pub use objective::{ObjectiveChange, ObjectiveTree, PlanTree, StoredObjective, StoredPlan};
pub use query::{
    BadPageToken, ListQuery, MAX_PAGE, ObjectiveQuery, ObjectiveToken, Objectives, Page, PageToken,
    PushToken,
};
pub use task::{NewEvent, OutboxEntry, Queued, StoredTask};
