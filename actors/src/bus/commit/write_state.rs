//! Write state of a store: result of the last write and duration of the current one. Readiness
//! reads it.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Write time beyond which a store counts as stalled: a message sent now would wait at least as
/// long. A disk under load takes a fraction of a second; one that hangs never ends.
pub const STALLED: Duration = Duration::from_secs(5);

/// Whether a store takes writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    /// The last write succeeded, and the current one is not stalled.
    Yes,
    /// The last write failed. It is retried; until a write succeeds nothing is accepted.
    Refusing,
    /// The current write has taken this long.
    Stalled(Duration),
    /// A failed fsync left the store in doubt: nothing is accepted until the program is restarted.
    Broken,
}

impl Writing {
    /// Name of the state.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "writing",
            Self::Refusing => "refusing",
            Self::Stalled(_) => "stalled",
            Self::Broken => "broken",
        }
    }
}

const YES: u8 = 0;
const REFUSING: u8 = 1;
const BROKEN: u8 = 2;

/// Shared state of one store.
#[derive(Debug)]
pub(crate) struct WriteState {
    state: AtomicU8,
    /// Start of the current write in milliseconds after `epoch`, plus one; 0 without a write.
    began: AtomicU64,
    epoch: Instant,
    stalled_after: Duration,
}

impl WriteState {
    pub(crate) fn new(stalled_after: Duration) -> Self {
        let (state, began) = (AtomicU8::new(YES), AtomicU64::new(0));
        Self { state, began, epoch: Instant::now(), stalled_after }
    }

    /// Marks the start of a write.
    pub(crate) fn begin(&self) {
        self.began.store(self.elapsed() + 1, Relaxed);
    }

    /// Marks the end of a write, whatever its result.
    pub(crate) fn end(&self) {
        self.began.store(0, Relaxed);
    }

    pub(crate) fn set_writing(&self, writing: bool) {
        let to = if writing { YES } else { REFUSING };
        let change = |now| (now != BROKEN).then_some(to);
        // `Broken` is final.
        let _ = self.state.fetch_update(Relaxed, Relaxed, change);
    }

    pub(crate) fn set_broken(&self) {
        self.state.store(BROKEN, Relaxed);
    }

    /// Whether the last write succeeded; the current one does not count.
    pub(crate) fn is_writing(&self) -> bool {
        self.state.load(Relaxed) == YES
    }

    pub(crate) fn now(&self) -> Writing {
        match self.state.load(Relaxed) {
            BROKEN => return Writing::Broken,
            REFUSING => return Writing::Refusing,
            _ => {}
        }
        let Some(began) = self.began.load(Relaxed).checked_sub(1) else { return Writing::Yes };
        let took = Duration::from_millis(self.elapsed().saturating_sub(began));
        if took > self.stalled_after { Writing::Stalled(took) } else { Writing::Yes }
    }

    fn elapsed(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_success_clears_refusing_but_not_broken() {
        let state = WriteState::new(Duration::from_secs(3_600));
        assert_eq!(state.now(), Writing::Yes);
        state.set_writing(false);
        state.begin();
        state.end();
        assert_eq!((state.now(), state.is_writing()), (Writing::Refusing, false));
        state.set_writing(true);
        assert_eq!(state.now(), Writing::Yes);
        state.set_broken();
        state.set_writing(true);
        assert_eq!(state.now(), Writing::Broken);
    }

    #[test]
    fn long_write_is_stalled_until_it_ends() {
        let state = WriteState::new(Duration::ZERO);
        state.begin();
        while state.now() == Writing::Yes {
            std::hint::spin_loop();
        }
        assert!(matches!(state.now(), Writing::Stalled(_)));
        state.end();
        assert_eq!(state.now(), Writing::Yes);
    }
}
