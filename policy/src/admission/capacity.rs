//! Capacity of one inbox: reserved before a message is durable, released when it is settled.

use std::cell::Cell;

use a2a_protocol::Outcome;

/// The limits of one inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InboxLimits {
    /// The number of messages.
    pub messages: usize,
    /// Their total size in bytes, as submitted.
    pub bytes: usize,
}

/// The limit that leaves no capacity for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InboxFull {
    /// The inbox holds the maximum number of messages.
    #[error("its inbox holds {limit} messages, which is the limit")]
    Messages {
        /// The limit.
        limit: usize,
    },
    /// The inbox would exceed its limit in bytes.
    #[error(
        "with this message its inbox would hold more than {limit} bytes, which is the limit (limits.inbox_mb)"
    )]
    Bytes {
        /// The limit.
        limit: usize,
    },
    /// All inboxes together would exceed their limit in bytes.
    #[error(
        "with this message it would hold more than {limit} bytes for all agents together, which is the limit (limits.pending_mb)"
    )]
    AllBytes {
        /// The limit.
        limit: usize,
    },
}

/// The reserved messages and bytes of an inbox; shared by the router and the session that owns the
/// inbox.
#[derive(Debug)]
pub struct InboxCapacity {
    limits: Cell<InboxLimits>,
    /// While fewer are reserved and the session is live, a message counts as delivered.
    prompt: usize,
    taken: Cell<usize>,
    bytes: Cell<usize>,
    live: Cell<bool>,
}

impl InboxCapacity {
    /// Nothing reserved, session not live.
    #[must_use]
    pub fn new(limits: InboxLimits, prompt: usize) -> Self {
        let (limits, taken, bytes) = (Cell::new(limits), Cell::new(0), Cell::new(0));
        Self { limits, prompt, taken, bytes, live: Cell::new(false) }
    }

    /// Sets new limits. What is reserved stays, even beyond them.
    pub fn set_limits(&self, limits: InboxLimits) {
        self.limits.set(limits);
    }

    /// Reserves capacity for a message of `bytes`. Returns whether it counts as delivered or
    /// queued.
    ///
    /// # Errors
    /// [`InboxFull`] when a limit is reached.
    pub fn take(&self, bytes: usize) -> Result<Outcome, InboxFull> {
        let limits = self.limits.get();
        self.check(limits, bytes, limits)?;
        let prompt = self.live.get() && self.taken.get() < self.prompt;
        self.take_back(bytes);
        Ok(if prompt { Outcome::Delivered } else { Outcome::Queued })
    }

    /// Reserves capacity for a notice of the bus, up to twice the limits.
    ///
    /// # Errors
    /// [`InboxFull`] when twice a limit is reached.
    pub fn take_exempt(&self, bytes: usize) -> Result<(), InboxFull> {
        let limits = self.limits.get();
        let twice = InboxLimits {
            messages: limits.messages.saturating_mul(2),
            bytes: limits.bytes.saturating_mul(2),
        };
        self.check(twice, bytes, limits)?;
        self.take_back(bytes);
        Ok(())
    }

    fn check(
        &self,
        within: InboxLimits,
        bytes: usize,
        limits: InboxLimits,
    ) -> Result<(), InboxFull> {
        if self.taken.get() >= within.messages {
            return Err(InboxFull::Messages { limit: limits.messages });
        }
        if self.bytes.get().saturating_add(bytes) > within.bytes {
            return Err(InboxFull::Bytes { limit: limits.bytes });
        }
        Ok(())
    }

    /// Reserves capacity for a message that was accepted earlier, even beyond the limits.
    pub fn take_back(&self, bytes: usize) {
        self.taken.set(self.taken.get() + 1);
        self.bytes.set(self.bytes.get().saturating_add(bytes));
    }

    /// Releases the capacity of a message of `bytes`.
    pub fn free(&self, bytes: usize) {
        self.taken.set(self.taken.get().saturating_sub(1));
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
    }

    /// The number of reserved messages.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken.get()
    }

    /// Their total size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Sets whether a consumer is attached to the session.
    pub fn set_live(&self, live: bool) {
        self.live.set(live);
    }

    /// Whether a consumer is attached to the session.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.live.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(messages: usize, bytes: usize) -> InboxLimits {
        InboxLimits { messages, bytes }
    }

    #[test]
    fn take_while_live_and_few_wait_is_delivered() {
        let capacity = InboxCapacity::new(limits(3, 100), 1);
        assert_eq!(capacity.take(1), Ok(Outcome::Queued));
        capacity.free(1);
        capacity.set_live(true);
        assert_eq!(capacity.take(1), Ok(Outcome::Delivered));
        assert_eq!(capacity.take(1), Ok(Outcome::Queued));
        assert_eq!(capacity.take(1), Ok(Outcome::Queued));
        assert_eq!(capacity.take(1), Err(InboxFull::Messages { limit: 3 }));
        for taken in 4..=6 {
            assert_eq!(capacity.take_exempt(1), Ok(()));
            assert_eq!(capacity.taken(), taken);
        }
        assert_eq!(capacity.take_exempt(1), Err(InboxFull::Messages { limit: 3 }));
        capacity.take_back(1);
        assert_eq!((capacity.taken(), capacity.bytes()), (7, 7));
        capacity.set_limits(limits(8, 100));
        assert_eq!(capacity.take(1), Ok(Outcome::Queued));
        capacity.set_limits(limits(2, 100));
        assert_eq!(capacity.take(1), Err(InboxFull::Messages { limit: 2 }));
        assert_eq!(capacity.taken(), 8);
    }

    #[test]
    fn bytes_are_limited_as_messages_are() {
        let capacity = InboxCapacity::new(limits(100, 10), 1);
        capacity.take(6).unwrap();
        assert_eq!(capacity.take(5), Err(InboxFull::Bytes { limit: 10 }));
        capacity.take(4).unwrap();
        assert_eq!(capacity.take(1), Err(InboxFull::Bytes { limit: 10 }));
        capacity.take_exempt(10).unwrap();
        assert_eq!(capacity.take_exempt(1), Err(InboxFull::Bytes { limit: 10 }));
        capacity.take_back(50);
        assert_eq!((capacity.taken(), capacity.bytes()), (4, 70), "what was accepted is kept");
        for bytes in [50, 10, 6] {
            capacity.free(bytes);
        }
        assert_eq!(capacity.take(6), Ok(Outcome::Queued));
        assert_eq!((capacity.taken(), capacity.bytes()), (2, 10));
    }
}
