//! What router, sessions and audit share on their one thread.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use a2a_journal::{EventLine, Line, Parts, Read};
use a2a_policy::Now;
use a2a_protocol::Event;
use chrono::{SubsecRound, Utc};
use tokio::sync::Notify;

use crate::bus::commit::buffer::CommitBuffer;
use crate::bus::commit::effects::{JournalStatus, OnCommit};
use crate::bus::commit::writer::Append;
use crate::bus::mailbox::Mailboxes;
use crate::bus::message::HeldBytes;
use crate::{BusSettings, Stats};

/// How often to look whether a day has ended.
const DAY_CHECK_INTERVAL: Duration = Duration::from_secs(15 * 60);

/// Numbers left out before that offer, for a journal that has more to say than fits a line.
const RESERVED_SEQS: u64 = 31;

/// What router, sessions and audit share on their one thread.
pub(crate) struct BusContext {
    pub(crate) clock: Clock,
    /// As they were at the start; what can change meanwhile is the router's.
    pub(crate) settings: BusSettings,
    /// Where agents' code runs.
    pub(crate) handlers: tokio::runtime::Handle,
    pub(crate) journal_status: Rc<JournalStatus>,
    /// No new work: messages are refused and no attempt begins.
    pub(crate) stopping: Cell<bool>,
    /// Handlers at work, and who wants to know when they are done.
    pub(crate) running: Cell<usize>,
    pub(crate) idle: Notify,
    pub(crate) seq: Cell<u64>,
    pub(crate) mailboxes: Rc<Mailboxes>,
    pub(crate) held: HeldBytes,
    /// What is on its way to the journal's thread.
    pub(crate) commit_buffer: Rc<CommitBuffer>,
    pub(crate) stats: Arc<Stats>,
    /// What was written, for reading; its calls block.
    pub(crate) reader: Arc<dyn Read>,
    /// Those the bus cannot do without.
    pub(crate) parts: Parts,
}

impl BusContext {
    /// The number of the next line.
    pub(crate) fn next_seq(&self) -> u64 {
        let seq = self.seq.get();
        self.seq.set(seq + 1);
        seq
    }

    /// An event that happens now, with the next number and nothing else said yet.
    pub(crate) fn event(&self, event: Event) -> EventLine {
        EventLine::new(self.next_seq(), self.clock.now().utc, event)
    }

    pub(crate) fn append(&self, append: Append) {
        let awaited = append.on_commit.is_awaited();
        if !self.commit_buffer.push(append) {
            // Only while the system goes down: whoever waits hears that by the dropped answer.
            tracing::error!("a line came too late to be written");
        } else if awaited {
            self.journal_status.uncommitted.set(self.journal_status.uncommitted.get() + 1);
        }
    }
}

/// Offers the journal a line, day after day, to say what it removes for its age; what it has
/// nothing to say about is not written.
pub(crate) async fn run_day_clock(bus: Rc<BusContext>) {
    let mut day = bus.clock.now().utc.date_naive();
    loop {
        tokio::time::sleep(DAY_CHECK_INTERVAL).await;
        let today = bus.clock.now().utc.date_naive();
        if today != day && !bus.stopping.get() {
            day = today;
            bus.seq.set(bus.seq.get() + RESERVED_SEQS);
            let line = Line::Event(bus.event(Event::Removed));
            bus.append(Append { line, on_commit: OnCommit::Nothing });
        }
    }
}

/// Both clocks of the machine, read together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    started: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now() }
    }

    /// For what the bus itself sends: it has the bytes in hand from the start.
    pub(crate) fn instant() -> Instant {
        Instant::now()
    }

    /// How long ago something was.
    pub(crate) fn since(earlier: Instant) -> Duration {
        earlier.elapsed()
    }

    pub(crate) fn now(&self) -> Now {
        // Milliseconds are what the log and the receipts show; more would make them differ.
        Now { utc: Utc::now().trunc_subsecs(3), uptime: self.started.elapsed() }
    }
}
