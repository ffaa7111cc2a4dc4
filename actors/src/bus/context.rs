//! What router, sessions and audit share on their one thread.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use a2a_journal::{EventLine, Line, Parts, Read};
use a2a_protocol::Event;
use tokio::sync::Notify;

use crate::bus::clock::Clock;
use crate::bus::commit::buffer::Tray;
use crate::bus::commit::effects::{Gauge, Then};
use crate::bus::commit::writer::Append;
use crate::bus::mailbox::Desks;
use crate::bus::message::HeldBytes;
use crate::{BusSettings, Stats};

/// How often to look whether a day has ended.
const LOOK_FOR_A_NEW_DAY: Duration = Duration::from_secs(15 * 60);

/// Numbers left out before that offer, for a journal that has more to say than fits a line.
const ROOM_TO_SAY_MORE: u64 = 31;

/// What router, sessions and audit share on their one thread.
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    /// As they were at the start; what can change meanwhile is the router's.
    pub(crate) settings: BusSettings,
    /// Where agents' code runs.
    pub(crate) handlers: tokio::runtime::Handle,
    pub(crate) gauge: Rc<Gauge>,
    /// No new work: messages are refused and no attempt begins.
    pub(crate) stopping: Cell<bool>,
    /// Handlers at work, and who wants to know when they are done.
    pub(crate) running: Cell<usize>,
    pub(crate) idle: Notify,
    pub(crate) seq: Cell<u64>,
    pub(crate) desks: Rc<Desks>,
    pub(crate) held: HeldBytes,
    /// What is on its way to the journal's thread.
    pub(crate) tray: Rc<Tray>,
    pub(crate) stats: Arc<Stats>,
    /// What was written, for reading; its calls block.
    pub(crate) reader: Arc<dyn Read>,
    /// Those the bus cannot do without.
    pub(crate) parts: Parts,
}

impl Shared {
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
        let awaited = append.then.is_awaited();
        if !self.tray.lay(append) {
            // Only while the system goes down: whoever waits hears that by the dropped answer.
            tracing::error!("a line came too late to be written");
        } else if awaited {
            self.gauge.waiting.set(self.gauge.waiting.get() + 1);
        }
    }
}

/// Offers the journal a line, day after day, to say what it removes for its age; what it has
/// nothing to say about is not written.
pub(crate) async fn offer_every_day(shared: Rc<Shared>) {
    let mut day = shared.clock.now().utc.date_naive();
    loop {
        tokio::time::sleep(LOOK_FOR_A_NEW_DAY).await;
        let today = shared.clock.now().utc.date_naive();
        if today != day && !shared.stopping.get() {
            day = today;
            shared.seq.set(shared.seq.get() + ROOM_TO_SAY_MORE);
            let line = Line::Event(shared.event(Event::Removed));
            shared.append(Append { line, then: Then::Nothing });
        }
    }
}
