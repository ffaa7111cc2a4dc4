//! Whether a store takes writes: what its thread found last, and how long it has been at the write
//! under way. Read by the edges, which say by it whether the program is ready.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A write that takes longer is as good as none: a message sent now would wait at least as long.
/// A disk under load takes a fraction of a second, one that hangs has no end.
pub const STALLED: Duration = Duration::from_secs(5);

/// Whether a store takes writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    /// The last write succeeded, and none takes long.
    Yes,
    /// The last write failed. It is tried again, and until one succeeds nothing is accepted.
    Refusing,
    /// The write under way has taken so long.
    Stalled(Duration),
    /// A failed fsync left the store in doubt: nothing is accepted until the program is restarted.
    Broken,
}

impl Writing {
    /// In one word.
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

/// What the edges read.
#[derive(Debug)]
pub(crate) struct WriteState {
    state: AtomicU8,
    /// When the write under way began, in milliseconds after `epoch` and one more; 0 without one.
    began: AtomicU64,
    epoch: Instant,
    stalled_after: Duration,
}

impl WriteState {
    pub(crate) fn new(stalled_after: Duration) -> Self {
        let (state, began) = (AtomicU8::new(YES), AtomicU64::new(0));
        Self { state, began, epoch: Instant::now(), stalled_after }
    }

    /// A write begins.
    pub(crate) fn begin(&self) {
        self.began.store(self.elapsed() + 1, Relaxed);
    }

    /// It ended, however that was.
    pub(crate) fn end(&self) {
        self.began.store(0, Relaxed);
    }

    pub(crate) fn set_writing(&self, writing: bool) {
        let to = if writing { YES } else { REFUSING };
        let change = |now| (now != BROKEN).then_some(to);
        // A store that is broken stays so.
        let _ = self.state.fetch_update(Relaxed, Relaxed, change);
    }

    pub(crate) fn set_broken(&self) {
        self.state.store(BROKEN, Relaxed);
    }

    /// What the last write said; one under way is not looked at.
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
    fn a_store_is_ready_again_when_a_write_succeeded_and_never_once_it_is_broken() {
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
    fn a_write_under_way_counts_until_it_ends() {
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
