//! Messages for somebody outside, who asks for them and settles each later. It must not know
//! how they travel.

use std::sync::Arc;

use a2a_protocol::Event;
use actix::prelude::*;
use tokio::sync::oneshot;

use super::{Session, letter};
use crate::Letter;
use crate::audit::{Health, Then};
use crate::desk::Poll;

/// Somebody who waits for messages.
pub(super) struct WaitingPull {
    limit: usize,
    reply: oneshot::Sender<Vec<Letter>>,
}

impl Session {
    pub(super) fn answer_pulls(&mut self) {
        while let Some(pull) = self.pulls.front() {
            if pull.reply.is_closed() {
                self.pulls.pop_front();
                continue;
            }
            let letters = self.take(pull.limit);
            if letters.is_empty() {
                return;
            }
            let Some(pull) = self.pulls.pop_front() else { return };
            self.desk.last_seen.set(Some(self.shared.clock.now().uptime));
            self.hand_over(letters, pull.reply);
        }
    }

    /// Gives the letters to the one who asked, or takes them back when nobody is there.
    fn hand_over(&mut self, letters: Vec<Letter>, reply: oneshot::Sender<Vec<Letter>>) {
        if let Err(letters) = reply.send(letters) {
            letters.iter().for_each(|letter| self.desk.inbox.borrow_mut().put_back(letter.seq));
        }
    }

    /// Leases up to `limit` messages to somebody outside.
    fn take(&mut self, limit: usize) -> Vec<Letter> {
        if self.desk.takes_ahead() {
            // What lies here may not be durable, and the agent's code has it in a moment.
            return Vec::new();
        }
        let now = self.shared.clock.now().uptime;
        let until = now + self.shared.settings.lease;
        let mut letters = Vec::new();
        {
            let mut inbox = self.desk.inbox.borrow_mut();
            while letters.len() < limit
                && let Some(delivery) = inbox.lease(now, until)
            {
                letters.push(letter(delivery));
            }
        }
        for letter in &letters {
            self.record(
                Event::Delivered,
                letter.seq,
                letter.message.message_id,
                Some(letter.attempt),
                None,
                Then::Nothing,
            );
        }
        letters
    }
}

/// Somebody outside takes messages. If there are none, one who is patient waits until there
/// are or the reply is dropped; anyone else is told so at once.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Pull {
    pub(crate) limit: usize,
    pub(crate) patient: bool,
    /// The call that waits, for presence.
    pub(crate) poll: Arc<Poll>,
    pub(crate) reply: oneshot::Sender<Vec<Letter>>,
}

impl Handler<Pull> for Session {
    type Result = ();

    fn handle(&mut self, request: Pull, ctx: &mut Self::Context) {
        let Pull { limit, patient, poll, reply } = request;
        let now = self.shared.clock.now().uptime;
        self.desk.last_seen.set(Some(now));
        if patient {
            self.desk.polled_by(poll, now);
        }
        self.end_overdue();
        if patient {
            self.pulls.push_back(WaitingPull { limit, reply });
            self.pump(ctx);
            return;
        }
        self.pump(ctx); // who waited longer goes first
        let closed =
            self.shared.stopping.get() || self.shared.gauge.health.get() != Health::Writing;
        let letters = if closed { Vec::new() } else { self.take(limit) };
        self.hand_over(letters, reply);
        self.set_timer(ctx);
    }
}
