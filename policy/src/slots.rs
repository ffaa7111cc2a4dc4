//! The places of one inbox: taken before a message is durable, given back when it is done.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use a2a_protocol::Outcome;

/// The inbox is at its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its inbox holds {limit} messages, which is the limit")]
pub struct InboxFull {
    /// The limit.
    pub limit: usize,
}

/// How many places of an inbox are taken; shared by the router and the session it belongs to.
///
/// Both live on one thread; the atomics only let a reserved place travel in a message.
#[derive(Debug)]
pub struct Slots {
    limit: usize,
    /// While fewer are taken and somebody is there, a message counts as delivered.
    prompt: usize,
    taken: AtomicUsize,
    live: AtomicBool,
}

impl Slots {
    /// No place taken, nobody there.
    #[must_use]
    pub fn new(limit: usize, prompt: usize) -> Self {
        Self { limit, prompt, taken: AtomicUsize::new(0), live: AtomicBool::new(false) }
    }

    /// Takes a place, and says what that means for the message.
    ///
    /// # Errors
    /// [`InboxFull`] when every place is taken.
    pub fn take(&self) -> Result<Outcome, InboxFull> {
        let taken = self.taken.load(Relaxed);
        if taken >= self.limit {
            return Err(InboxFull { limit: self.limit });
        }
        self.taken.store(taken + 1, Relaxed);
        let prompt = self.live.load(Relaxed) && taken < self.prompt;
        Ok(if prompt { Outcome::Delivered } else { Outcome::Queued })
    }

    /// Takes a place for a message that was accepted earlier, even beyond the limit.
    pub fn take_back(&self) {
        self.taken.fetch_add(1, Relaxed);
    }

    /// Gives a place back.
    pub fn free(&self) {
        self.taken.store(self.taken.load(Relaxed).saturating_sub(1), Relaxed);
    }

    /// How many are taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken.load(Relaxed)
    }

    /// Somebody is there to handle what arrives, or nobody is any more.
    pub fn set_live(&self, live: bool) {
        self.live.store(live, Relaxed);
    }

    /// Whether somebody is there.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.live.load(Relaxed)
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
        slots.take_back();
        assert_eq!(slots.taken(), 4);
    }
}
