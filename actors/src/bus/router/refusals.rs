//! A flood of refusals is written as its beginning, a sample, and a number.

use std::time::Duration;

use a2a_journal::{EventLine, Line};
use a2a_protocol::{Event, Outcome};
use actix::prelude::*;

use super::Router;
use crate::bus::commit::effects::OnCommit;
use crate::bus::commit::writer::Append;

/// How long refusals are counted before the number is written.
const COUNT_FOR: Duration = Duration::from_secs(1);

impl Router {
    /// Sees to it that what was counted is written.
    pub(super) fn count_refusals(&mut self, ctx: &mut Context<Self>) {
        if !std::mem::replace(&mut self.refusal_timer_set, true) {
            ctx.run_later(COUNT_FOR, |router, _| router.write_counted_refusals());
        }
    }

    /// Writes what was counted; also when the bus stops, so that no refusal goes unseen.
    pub(super) fn write_counted_refusals(&mut self) {
        self.refusal_timer_set = false;
        for suppressed in self.refusals.take_counted() {
            let line = Line::Event(EventLine {
                agent_id: suppressed.sender,
                count: Some(suppressed.count),
                reason: Some(format!(
                    "more refusals `{}`, not written one by one",
                    suppressed.outcome
                )),
                ..self.bus.event(Event::Suppressed)
            });
            self.bus.append(Append { line, on_commit: OnCommit::Nothing });
        }
    }
}

/// Somebody came without a good token, in a sentence that does not hold what was shown.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Deny(pub(crate) String);

impl Handler<Deny> for Router {
    type Result = ();

    fn handle(&mut self, Deny(reason): Deny, ctx: &mut Self::Context) {
        let now = self.bus.clock.now();
        if !self.refusals.is_written(None, Outcome::Unauthorized, reason.len(), now) {
            return self.count_refusals(ctx);
        }
        let event = self.bus.event(Event::Denied);
        let line = Line::Event(EventLine { reason: Some(reason), ..event });
        self.bus.append(Append { line, on_commit: OnCommit::Nothing });
    }
}

/// Writes what was only counted so far; answered when it is on its way to the journal.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct WriteCounted;

impl Handler<WriteCounted> for Router {
    type Result = ();

    fn handle(&mut self, _: WriteCounted, _: &mut Self::Context) {
        self.write_counted_refusals();
    }
}
