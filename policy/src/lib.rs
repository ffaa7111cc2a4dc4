//! The decisions of the bus, as pure functions and state machines.
//!
//! Everything here has the form *(state, input, now) → verdict*. The actors ask, apply
//! the verdict and send; they decide nothing themselves. The clock is always an
//! argument, so that a test can stand at any moment.
//!
//! ```text
//! pipeline::admit ─▶ roster       who is it for, is the sender who it says
//!                 ─▶ seen         was it accepted before
//!                 ─▶ access       may the sender write there
//!                 ─▶ ledger       does the answer fit what was asked
//!                 ─▶ rate_limit   may the sender say so much
//!                 ─▶ breaker      does the conversation go in circles
//!                 ─▶ (the floor)  is there room in the recipient's inbox
//! refusals                        which refusals are written down one by one
//! inbox ─▶ priority_queue         what is handled next, retried, given up
//! tasks                           A2A tasks: queues, states, how they travel over the bus
//! opt                             objectives: plans made, begun, blocked, ended
//! ```

mod access;
mod breaker;
mod clock;
mod inbox;
mod ledger;
mod names;
pub mod opt;
mod pipeline;
mod priority_queue;
mod rate_limit;
mod refusals;
mod roster;
mod seen;
mod slots;
pub mod tasks;

pub use access::{
    AccessRules, Asked, BadRule, BadSelector, Decision, Explanation, NarrowedRules, Party, Reach,
    Rule, Selector,
};
pub use breaker::{
    BadCircuitKey, Breaker, BreakerSettings, Circuit, CircuitKey, CircuitState, Gate, Passage,
    Progress, To, TripReason,
};
pub use clock::Now;
pub use inbox::{AfterFailure, DeliveryKey, Inbox, QueueEntry, RetryPolicy, Standing};
pub use ledger::{
    Change, Ledger, LedgerRefusal, LedgerSettings, Proposal, REVIEW_TABLE, Review, Step, TABLE,
    Task, Undo,
};
pub use names::{Holder, NameTaken, Names};
pub use pipeline::{Accepted, Caller, Floor, Incoming, Refusal, Verdict, admit, assess};
pub use rate_limit::{Audience, Limited, RateLimits, RateSettings};
pub use refusals::{Refusals, Suppressed};
pub use roster::{AgentKey, BadProfile, CannotUpdate, NoSuchAgent, Profile, Recipients, Roster};
pub use seen::{Fingerprints, Seen, SeenBefore, SeenIds};

pub use slots::{InboxFull, InboxLimits, Slots};
