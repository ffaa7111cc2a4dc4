//! Admission, delivery and task decisions of the bus, as pure functions and state machines.
//!
//! Every decision has the form *(state, input, now) → verdict*. The actors ask for a verdict, apply
//! it and send. The clock is an argument, so a test runs at any point in time, and nothing here
//! depends on a runtime.
//!
//! ```text
//! admission    whether a message is accepted, and which recipients it reaches
//! breaker      circuit breaker: message loops between agents
//! assignments  the task ledger: tasks between two agents on the bus
//! delivery     one session's inbox: priorities, leases, retries, dead letters
//! tasks        A2A tasks: queues, states, translation to and from bus messages
//! objectives   objectives: plans created, started, blocked, ended
//! ```

mod admission;
mod assignments;
mod audience;
mod breaker;
mod clock;
mod delivery;
pub mod objectives;
pub mod tasks;

pub use admission::{
    Accepted, AccessQuery, AccessRules, AdmissionState, AdmissionVerdict, AgentKey, BadProfile,
    BadRule, BadSelector, Caller, CannotUpdate, Decision, DedupIndex, DedupMatch, DedupRecord,
    Directory, Explanation, Fingerprints, Holder, InboxCapacity, InboxFull, InboxLimits, Incoming,
    Limited, NameTaken, Names, NarrowedRules, NoSuchAgent, Party, Profile, RateLimits,
    RateSettings, Reach, Recipients, Refusal, RefusalSampler, Rule, Selector, Suppressed, admit,
    assess,
};
pub use assignments::{
    Assignment, Change, Ledger, LedgerRefusal, LedgerSettings, Proposal, REVIEW_TRANSITIONS,
    Review, TRANSITIONS, Transition, Undo,
};
pub use audience::Audience;
pub use breaker::{
    BadCircuitKey, Breaker, BreakerDecision, BreakerInput, BreakerSettings, Circuit, CircuitKey,
    CircuitState, SendCause, Sketch, TripReason, WorkProgress,
};
pub use clock::Now;
pub use delivery::{AfterFailure, DeliveryKey, DeliveryState, Inbox, QueueEntry, RetryPolicy};
