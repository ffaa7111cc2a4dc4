//! States of an assignment (a task between two agents in the ledger) and of its review.

closed_set! {
    /// State of an assignment.
    pub enum AssignmentState {
        /// Requested; the assignee has not answered.
        Requested = "requested",
        /// The assignee has accepted it.
        Accepted = "accepted",
        /// The assignee is working on it.
        Working = "working",
        /// The work waits for something that the assignee cannot provide.
        Blocked = "blocked",
        /// The assignee has paused the work.
        Paused = "paused",
        /// A reviewer has requested changes.
        Reopened = "reopened",
        /// The work is done.
        Completed = "completed",
        /// The work failed, the request was never delivered, or its deadline passed before the work began.
        Failed = "failed",
        /// The assignee has declined it.
        Declined = "declined",
        /// The requester has cancelled it.
        Cancelled = "cancelled",
    }
}

impl AssignmentState {
    /// Whether the state is terminal.
    #[must_use]
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Declined | Self::Cancelled)
    }
}

closed_set! {
    /// State of the review of an assignment's work.
    pub enum ReviewState {
        /// A review was requested and has no verdict.
        Pending = "pending",
        /// The reviewer has approved the work.
        Approved = "approved",
        /// The author must change the work.
        ChangesRequested = "changes_requested",
        /// A more senior reviewer must decide.
        Escalated = "escalated",
    }
}

impl ReviewState {
    /// Whether a verdict is outstanding.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::Escalated)
    }
}
