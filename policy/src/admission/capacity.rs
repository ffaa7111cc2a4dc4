//! The places of one inbox: taken before a message is durable, given back when it is done.

use std::cell::Cell;

use a2a_protocol::Outcome;

/// How much one inbox may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InboxLimits {
    /// Messages.
    pub messages: usize,
    /// Their bytes, as they were sent.
    pub bytes: usize,
}

/// There is no room for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InboxFull {
    /// The inbox holds as many messages as it may.
    #[error("its inbox holds {limit} messages, which is the limit")]
    Messages {
        /// The limit.
        limit: usize,
    },
    /// The inbox would hold more bytes than it may.
    #[error(
        "with this message its inbox would hold more than {limit} bytes, which is the limit (limits.inbox_mb)"
    )]
    Bytes {
        /// The limit.
        limit: usize,
    },
    /// All inboxes together would hold more bytes than they may.
    #[error(
        "with this message it would hold more than {limit} bytes for all agents together, which is the limit (limits.pending_mb)"
    )]
    AllBytes {
        /// The limit.
        limit: usize,
    },
}

/// How many places of an inbox are taken, and how many bytes the messages in them have; shared by
/// the router and the session it belongs to.
#[derive(Debug)]
pub struct InboxCapacity {
    limits: Cell<InboxLimits>,
    /// While fewer are taken and somebody is there, a message counts as delivered.
    prompt: usize,
    taken: Cell<usize>,
    bytes: Cell<usize>,
    live: Cell<bool>,
}

impl InboxCapacity {
    /// No place taken, nobody there.
    #[must_use]
    pub fn new(limits: InboxLimits, prompt: usize) -> Self {
        let (limits, taken, bytes) = (Cell::new(limits), Cell::new(0), Cell::new(0));
        Self { limits, prompt, taken, bytes, live: Cell::new(false) }
    }

    /// So much may be taken from now on. What lies there stays, even beyond it.
    pub fn set_limits(&self, limits: InboxLimits) {
        self.limits.set(limits);
    }

    /// Takes a place for a message of so many bytes, and says what that means for the message.
    ///
    /// # Errors
    /// [`InboxFull`] when every place is taken, or too many bytes are.
    pub fn take(&self, bytes: usize) -> Result<Outcome, InboxFull> {
        let limits = self.limits.get();
        self.check(limits, bytes, limits)?;
        let prompt = self.live.get() && self.taken.get() < self.prompt;
        self.take_back(bytes);
        Ok(if prompt { Outcome::Delivered } else { Outcome::Queued })
    }

    /// Takes a place for a notice of the bus: beyond the limits, but not without end.
    ///
    /// # Errors
    /// [`InboxFull`] when twice the limits are taken.
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

    /// Takes a place for a message that was accepted earlier, even beyond the limits.
    pub fn take_back(&self, bytes: usize) {
        self.taken.set(self.taken.get() + 1);
        self.bytes.set(self.bytes.get().saturating_add(bytes));
    }

    /// Gives the place of a message of so many bytes back.
    pub fn free(&self, bytes: usize) {
        self.taken.set(self.taken.get().saturating_sub(1));
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
    }

    /// How many are taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken.get()
    }

    /// How many bytes the messages in them have.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Somebody is there to handle what arrives, or nobody is any more.
    pub fn set_live(&self, live: bool) {
        self.live.set(live);
    }

    /// Whether somebody is there.
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
    fn a_place_is_prompt_while_few_wait_and_somebody_is_there() {
        let slots = InboxCapacity::new(limits(3, 100), 1);
        assert_eq!(slots.take(1), Ok(Outcome::Queued));
        slots.free(1);
        slots.set_live(true);
        assert_eq!(slots.take(1), Ok(Outcome::Delivered));
        assert_eq!(slots.take(1), Ok(Outcome::Queued));
        assert_eq!(slots.take(1), Ok(Outcome::Queued));
        assert_eq!(slots.take(1), Err(InboxFull::Messages { limit: 3 }));
        for taken in 4..=6 {
            assert_eq!(slots.take_exempt(1), Ok(()));
            assert_eq!(slots.taken(), taken);
        }
        assert_eq!(slots.take_exempt(1), Err(InboxFull::Messages { limit: 3 }));
        slots.take_back(1);
        assert_eq!((slots.taken(), slots.bytes()), (7, 7));
        slots.set_limits(limits(8, 100));
        assert_eq!(slots.take(1), Ok(Outcome::Queued));
        slots.set_limits(limits(2, 100));
        assert_eq!(slots.take(1), Err(InboxFull::Messages { limit: 2 }));
        assert_eq!(slots.taken(), 8);
    }

    #[test]
    fn bytes_are_limited_as_messages_are() {
        let slots = InboxCapacity::new(limits(100, 10), 1);
        slots.take(6).unwrap();
        assert_eq!(slots.take(5), Err(InboxFull::Bytes { limit: 10 }));
        slots.take(4).unwrap();
        assert_eq!(slots.take(1), Err(InboxFull::Bytes { limit: 10 }));
        slots.take_exempt(10).unwrap();
        assert_eq!(slots.take_exempt(1), Err(InboxFull::Bytes { limit: 10 }));
        slots.take_back(50);
        assert_eq!((slots.taken(), slots.bytes()), (4, 70), "what was accepted is kept");
        for bytes in [50, 10, 6] {
            slots.free(bytes);
        }
        assert_eq!(slots.take(6), Ok(Outcome::Queued));
        assert_eq!((slots.taken(), slots.bytes()), (2, 10));
    }
}
