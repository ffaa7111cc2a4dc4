//! Admission control: the pipeline a submitted message passes before it reaches the journal.
//!
//! ```text
//! pipeline::admit ─▶ directory   is the sender the one it claims to be; recipients by name
//!   (recipients)  ─▶ dedup       was this message id accepted before
//!                 ─▶ access      may the sender write to each recipient
//!                 ─▶ (ledger)    does a response match its request: `crate::assignments`
//!                 ─▶ rate_limit  is the sender within its rate
//!                 ─▶ (breaker)   is the conversation a loop: `crate::breaker`
//!                 ─▶ capacity    is there space in the recipients' inboxes
//! refusals                       which refusals are logged one by one, which only counted
//! names                          names are unique across agents, clients and operators
//! ```
//!
//! The stages read and change an [`AdmissionState`], which the router implements. Reservations can
//! be released again; a message counts only once the journal has it.

mod access;
mod capacity;
mod dedup;
mod directory;
mod names;
mod pipeline;
mod rate_limit;
mod recipients;
mod refusals;

pub use access::{
    AccessQuery, AccessRules, BadRule, BadSelector, Decision, Explanation, NarrowedRules, Party,
    Reach, Rule, Selector,
};
pub use capacity::{InboxCapacity, InboxFull, InboxLimits};
pub use dedup::{DedupIndex, DedupMatch, DedupRecord, Fingerprints};
pub use directory::{
    AgentKey, BadProfile, CannotUpdate, Directory, NoSuchAgent, Profile, Recipients,
};
pub use names::{Holder, NameTaken, Names};
pub use pipeline::{
    Accepted, AdmissionState, AdmissionVerdict, Caller, Incoming, Refusal, admit, assess,
};
pub use rate_limit::{Limited, RateLimits, RateSettings};
pub use refusals::{RefusalSampler, Suppressed};
