//! An agent says how far it is, and nothing else.

use a2a_policy::tasks::{Pace, Said, Step};
use a2a_protocol::TaskId;
use a2a_protocol::task::TaskState;
use actix::prelude::*;

use super::{Service, Wake};
use crate::tasks::service::gauge::Held;

impl Service {
    /// Shows a snapshot at once, or holds it until its time has come. The message is acknowledged
    /// when its snapshot is durable, or when a newer one has taken its place.
    pub(super) fn progressed(
        &mut self,
        id: TaskId,
        said: Said,
        held: Held,
        ctx: &mut Context<Self>,
    ) {
        let (now, interval) = (self.clock.now(), self.settings.progress_interval);
        let Some(entry) = self.entries.get_mut(&id) else { return };
        // After a crash what was superseded may come again, when its successor is in the task.
        let stale =
            entry.gauge.last.is_none() && entry.stored.heard.iter().any(|seq| *seq > held.seq);
        // After a question the work goes on with the answer, not by itself.
        if stale || entry.state() != TaskState::Working {
            if let Some(done) = held.done {
                done.handled();
            }
            return;
        }
        let waits = entry.gauge.is_holding();
        let too_much = entry.heard_bytes + held.bytes > self.settings.task_bytes / 2;
        entry.gauge.hold(said.progress, held);
        if too_much {
            // Bars leave room for the work itself. From here on they come with whatever else
            // happens, the end at the latest.
            entry.gauge.settle();
            return;
        }
        match Pace::of(entry.gauge.last, now.uptime, interval) {
            Pace::Now => self.show_held(id),
            // Whoever waits already has somebody who looks after it.
            Pace::Until(_) if waits => {}
            Pace::Until(at) => {
                ctx.run_later(at.saturating_sub(now.uptime), move |service, _| service.look(id));
            }
        }
    }

    /// Shows what is held if its time has come. If not, it was held after this was asked for, and
    /// somebody else looks later.
    fn look(&mut self, id: TaskId) {
        let (now, interval) = (self.clock.now(), self.settings.progress_interval);
        let Some(entry) = self.entries.get(&id) else { return };
        if Pace::of(entry.gauge.last, now.uptime, interval) == Pace::Now {
            self.show_held(id);
        }
    }

    fn show_held(&mut self, id: TaskId) {
        let now = self.clock.now();
        let Some(entry) = self.entries.get_mut(&id) else { return };
        if !entry.gauge.is_holding() || entry.state() != TaskState::Working {
            return;
        }
        entry.gauge.show_held();
        if let Some(event) = entry.advance(Step::TaskHandle, Said::default(), now) {
            self.change(id, vec![event], Wake::default());
        }
    }
}
