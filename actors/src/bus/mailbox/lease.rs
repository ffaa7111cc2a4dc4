//! Lease expiry: fails the attempts whose lease or handler deadline has passed.
//!
//! A lease is set when a delivery is handed out: `lease` of the settings for a poll,
//! `handler_deadline` for attached code. The session's timer calls this at the next expiry.

use std::sync::atomic::Ordering::Relaxed;

use super::Session;
use crate::bus::commit::effects::OnCommit;

impl Session {
    /// Fails the attempts whose deadline or lease has passed.
    pub(super) fn expire_leases(&mut self) {
        let now = self.bus.clock.now().uptime;
        let overdue = self.mailbox.inbox.borrow_mut().expired_leases(now);
        let deadline_paused =
            self.runtime.as_ref().is_some_and(|runtime| runtime.deadline_paused());
        for seq in overdue {
            let reason = match self.running.get(&seq) {
                Some(running)
                    if deadline_paused || !running.attempt_state.started.load(Relaxed) =>
                {
                    let until = now + self.bus.settings.handler_deadline;
                    self.mailbox.inbox.borrow_mut().extend(seq, until);
                    continue;
                }
                Some(_) => {
                    self.stop_running(seq);
                    format!(
                        "the handler did not answer within {} s",
                        self.bus.settings.handler_deadline.as_secs_f32()
                    )
                }
                None => "the lease ran out without an acknowledgement".to_owned(),
            };
            self.fail_attempt(seq, reason, OnCommit::Nothing);
        }
    }
}
