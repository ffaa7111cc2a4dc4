//! The states a task and its review can be in, as the ledger of the bus says them.

closed_set! {
    /// How far the work on a task is.
    pub enum TaskState {
        /// Asked for; the assignee has not answered.
        Requested = "requested",
        /// The assignee has taken it.
        Accepted = "accepted",
        /// It is being worked on.
        Working = "working",
        /// It waits for something the assignee cannot provide.
        Blocked = "blocked",
        /// The assignee set it aside.
        Paused = "paused",
        /// A reviewer sent it back to be changed.
        Reopened = "reopened",
        /// It is done.
        Completed = "completed",
        /// It could not be done, was never delivered, or nobody began it before its deadline.
        Failed = "failed",
        /// The assignee did not take it.
        Declined = "declined",
        /// Whoever asked for it called it off.
        Cancelled = "cancelled",
    }
}

impl TaskState {
    /// Whether the work is over.
    #[must_use]
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Declined | Self::Cancelled)
    }
}

closed_set! {
    /// How far the review of a task's work is.
    pub enum ReviewState {
        /// A reviewer was asked and has not given a verdict.
        Pending = "pending",
        /// The work is good.
        Approved = "approved",
        /// The author must change something.
        ChangesRequested = "changes_requested",
        /// Somebody more senior must decide.
        Escalated = "escalated",
    }
}

impl ReviewState {
    /// Whether somebody still owes a verdict.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::Escalated)
    }
}
