//! Looking into an inbox: what waits for an agent, without taking any of it.

use std::time::Duration;

use a2a_policy::{Roster, Standing};
use a2a_protocol::AgentId;
use actix::prelude::*;

use super::Router;
use crate::Delivery;
use crate::bus::mailbox::delivery;

/// What lies in the inboxes of an agent's sessions.
#[derive(Clone, Default)]
pub struct InboxView {
    /// The first of them: what is in somebody's hands, what pauses, what waits.
    pub deliveries: Vec<DeliveryView>,
    /// How many there are.
    pub pending: usize,
}

/// One message of an inbox, as somebody sees who only looks.
#[derive(Clone)]
pub struct DeliveryView {
    /// The message; its attempts are those that were begun.
    pub delivery: Delivery,
    /// Whether it waits, pauses, or is in somebody's hands.
    pub state: &'static str,
    /// Until the pause or the time of whoever has it ends.
    pub due: Option<Duration>,
}

/// Looks at what lies in an agent's inboxes; `None` when there is no such agent. Nothing is
/// handed out, counted or noted as seen.
#[derive(Message)]
#[rtype(result = "Option<InboxView>")]
pub(crate) struct PeekInbox {
    pub(crate) agent: AgentId,
    pub(crate) limit: usize,
}

impl Handler<PeekInbox> for Router {
    type Result = MessageResult<PeekInbox>;

    fn handle(
        &mut self,
        PeekInbox { agent, limit }: PeekInbox,
        _: &mut Self::Context,
    ) -> Self::Result {
        let Some(key) = self.roster.key(&agent) else {
            // People are always there, even where nobody has spoken yet.
            return MessageResult(Roster::is_for_people(&agent).then(InboxView::default));
        };
        let now = self.bus.clock.now().uptime;
        let mut view = InboxView::default();
        for number in self.sessions[key.index()].all() {
            let Some(mailbox) = self.bus.mailboxes.get(number) else { continue };
            let inbox = mailbox.inbox.borrow();
            view.pending += inbox.len();
            let room = limit.saturating_sub(view.deliveries.len());
            view.deliveries.extend(inbox.look(room).into_iter().map(|(standing, entry)| {
                let (state, due) = match standing {
                    Standing::Out(until) => ("taken", Some(until.saturating_sub(now))),
                    Standing::Pausing(until) => ("pausing", Some(until.saturating_sub(now))),
                    Standing::Waiting => ("waiting", None),
                };
                DeliveryView { delivery: delivery(entry), state, due }
            }));
        }
        MessageResult(Some(view))
    }
}
