//! Bus context: the state that router, sessions and commit effects share on their one thread.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use a2a_journal::{EventRecord, JournalReader, Liveness, Record};
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

/// Interval between checks for a new day.
const DAY_CHECK_INTERVAL: Duration = Duration::from_secs(15 * 60);

/// Sequence numbers left free before the day's `removed` record, for a journal that writes more
/// than one.
const RESERVED_SEQS: u64 = 31;

/// State that router, sessions and commit effects share on their one thread.
pub(crate) struct BusContext {
    pub(crate) clock: Clock,
    /// Settings at the start; the router owns those that can change at run time.
    pub(crate) settings: BusSettings,
    /// Runtime of the handler threads.
    pub(crate) handlers: tokio::runtime::Handle,
    pub(crate) journal_status: Rc<JournalStatus>,
    /// Set while the bus stops: messages are refused and no attempt starts.
    pub(crate) stopping: Cell<bool>,
    /// Handlers at work; `idle` is notified as each ends.
    pub(crate) running: Cell<usize>,
    pub(crate) idle: Notify,
    pub(crate) seq: Cell<u64>,
    pub(crate) mailboxes: Rc<Mailboxes>,
    pub(crate) held: HeldBytes,
    /// Records that are not yet handed to the journal thread.
    pub(crate) commit_buffer: Rc<CommitBuffer>,
    pub(crate) stats: Arc<Stats>,
    /// The journal for reading; its calls block.
    pub(crate) reader: Arc<dyn JournalReader>,
    /// Components of the program whose end stops the server.
    pub(crate) liveness: Liveness,
}

impl BusContext {
    /// Allocates the next sequence number.
    pub(crate) fn next_seq(&self) -> u64 {
        let seq = self.seq.get();
        self.seq.set(seq + 1);
        seq
    }

    /// An event that happens now, with the next sequence number and no other field set.
    pub(crate) fn event(&self, event: Event) -> EventRecord {
        EventRecord::new(self.next_seq(), self.clock.now().utc, event)
    }

    pub(crate) fn append(&self, append: Append) {
        let awaited = append.on_commit.is_awaited();
        if !self.commit_buffer.push(append) {
            // Only during shutdown; the dropped sender notifies those who wait.
            tracing::error!("record arrived after the journal closed");
        } else if awaited {
            self.journal_status.uncommitted.set(self.journal_status.uncommitted.get() + 1);
        }
    }
}

/// Offers the journal a `removed` record each day, to be filled with what retention deletes. The
/// journal skips it when there is nothing to report.
pub(crate) async fn run_day_clock(bus: Rc<BusContext>) {
    let mut day = bus.clock.now().utc.date_naive();
    loop {
        tokio::time::sleep(DAY_CHECK_INTERVAL).await;
        let today = bus.clock.now().utc.date_naive();
        if today != day && !bus.stopping.get() {
            day = today;
            bus.seq.set(bus.seq.get() + RESERVED_SEQS);
            let record = Record::Event(bus.event(Event::Removed));
            bus.append(Append { record, on_commit: OnCommit::Nothing });
        }
    }
}

/// The wall clock and the monotonic clock, read together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    started: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now() }
    }

    /// Receive time of messages that the bus itself sends.
    pub(crate) fn instant() -> Instant {
        Instant::now()
    }

    /// Time elapsed since `earlier`.
    pub(crate) fn since(earlier: Instant) -> Duration {
        earlier.elapsed()
    }

    pub(crate) fn now(&self) -> Now {
        // Log and receipts show milliseconds; a finer time would make them differ.
        Now { utc: Utc::now().trunc_subsecs(3), uptime: self.started.elapsed() }
    }
}
