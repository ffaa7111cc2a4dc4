//! The places of one inbox: taken before a message is durable, given back when it is done.

use std::cell::Cell;

use a2a_protocol::Outcome;

/// The inbox is at its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its inbox holds {limit} messages, which is the limit")]
pub struct InboxFull {
    /// The limit.
    pub limit: usize,
}

/// How many places of an inbox are taken; shared by the router and the session it belongs to.
#[derive(Debug)]
pub struct Slots {
    limit: Cell<usize>,
    /// While fewer are taken and somebody is there, a message counts as delivered.
    prompt: usize,
    taken: Cell<usize>,
    live: Cell<bool>,
}

impl Slots {
    /// No place taken, nobody there.
    #[must_use]
    pub fn new(limit: usize, prompt: usize) -> Self {
        Self { limit: Cell::new(limit), prompt, taken: Cell::new(0), live: Cell::new(false) }
    }

    /// So many may be taken from now on. What lies there stays, even beyond it.
    pub fn set_limit(&self, limit: usize) {
        self.limit.set(limit);
    }

    /// Takes a place, and says what that means for the message.
    ///
    /// # Errors
    /// [`InboxFull`] when every place is taken.
    pub fn take(&self) -> Result<Outcome, InboxFull> {
        let taken = self.taken.get();
        let limit = self.limit.get();
        if taken >= limit {
            return Err(InboxFull { limit });
        }
        self.taken.set(taken + 1);
        let prompt = self.live.get() && taken < self.prompt;
        Ok(if prompt { Outcome::Delivered } else { Outcome::Queued })
    }

    /// Takes a place for a notice of the bus: beyond the limit, but not without end.
    ///
    /// # Errors
    /// [`InboxFull`] when twice the limit is taken.
    pub fn take_exempt(&self) -> Result<(), InboxFull> {
        let limit = self.limit.get();
        if self.taken.get() >= limit.saturating_mul(2) {
            return Err(InboxFull { limit });
        }
        self.take_back();
        Ok(())
    }

    /// Takes a place for a message that was accepted earlier, even beyond the limit.
    pub fn take_back(&self) {
        self.taken.set(self.taken.get() + 1);
    }

    /// Gives a place back.
    pub fn free(&self) {
        self.taken.set(self.taken.get().saturating_sub(1));
    }

    /// How many are taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken.get()
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

    #[test]
    fn a_place_is_prompt_while_few_wait_and_somebody_is_there() {
        let slots = Slots::new(3, 1);
        assert_eq!(slots.take(), Ok(Outcome::Queued));
        slots.free();
        slots.set_live(true);
        assert_eq!(slots.take(), Ok(Outcome::Delivered));
        assert_eq!(slots.take(), Ok(Outcome::Queued));
        assert_eq!(slots.take(), Ok(Outcome::Queued));
        assert_eq!(slots.take(), Err(InboxFull { limit: 3 }));
        for taken in 4..=6 {
            assert_eq!(slots.take_exempt(), Ok(()));
            assert_eq!(slots.taken(), taken);
        }
        assert_eq!(slots.take_exempt(), Err(InboxFull { limit: 3 }));
        slots.take_back();
        assert_eq!(slots.taken(), 7);
        slots.set_limit(8);
        assert_eq!(slots.take(), Ok(Outcome::Queued));
        slots.set_limit(2);
        assert_eq!(slots.take(), Err(InboxFull { limit: 2 }));
        assert_eq!(slots.taken(), 8);
    }
}
