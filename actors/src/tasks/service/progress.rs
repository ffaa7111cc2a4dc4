//! An agent says how far it is, and nothing else.

use a2a_policy::tasks::{Pace, Said, Step};
use a2a_protocol::TaskId;
use a2a_protocol::task::TaskState;
use actix::prelude::*;

use super::{Followup, Service};
use crate::tasks::service::progress_coalescer::PendingProgress;

impl Service {
    /// Shows a snapshot at once, or holds it until its time has come. The message is acknowledged
    /// when its snapshot is durable, or when a newer one has taken its place.
    pub(super) fn on_progress(
        &mut self,
        id: TaskId,
        said: Said,
        held: PendingProgress,
        ctx: &mut Context<Self>,
    ) {
        let (now, interval) = (self.clock.now(), self.settings.progress_interval);
        let Some(live) = self.live.get_mut(&id) else { return };
        // After a crash what was superseded may come again, when its successor is in the task.
        let stale =
            live.progress.last.is_none() && live.stored.heard.iter().any(|seq| *seq > held.seq);
        // After a question the work goes on with the answer, not by itself.
        if stale || live.state() != TaskState::Working {
            if let Some(done) = held.done {
                done.handled();
            }
            return;
        }
        let waits = live.progress.is_holding();
        let too_much = live.reply_bytes + held.bytes > self.settings.task_bytes / 2;
        live.progress.hold(said.progress, held);
        if too_much {
            // Bars leave room for the work itself. From here on they come with whatever else
            // happens, the end at the latest.
            live.progress.settle();
            return;
        }
        match Pace::of(live.progress.last, now.uptime, interval) {
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
        let Some(live) = self.live.get(&id) else { return };
        if Pace::of(live.progress.last, now.uptime, interval) == Pace::Now {
            self.show_held(id);
        }
    }

    fn show_held(&mut self, id: TaskId) {
        let now = self.clock.now();
        let Some(live) = self.live.get_mut(&id) else { return };
        if !live.progress.is_holding() || live.state() != TaskState::Working {
            return;
        }
        live.progress.show_held();
        if let Some(event) = live.advance(Step::TaskHandle, Said::default(), now) {
            self.change(id, vec![event], Followup::default());
        }
    }
}
