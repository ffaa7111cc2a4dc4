//! The sessions of one agent, and which of them a message goes to.

use std::collections::HashMap;

use a2a_protocol::{AgentId, CorrelationId, Envelope};

use crate::bus::mailbox::{MailboxId, Mailboxes};

/// How many conversations with an agent of several sessions are remembered.
const STICKY: usize = 10_000;

/// The sessions of one agent; the first stays as long as the agent is known.
pub(super) struct AgentSessions {
    pub(super) first: MailboxId,
    pub(super) others: Vec<MailboxId>,
    /// Whoever takes certain messages beside the sessions.
    pub(super) interceptor: Option<MailboxId>,
    pub(super) sticky: HashMap<CorrelationId, MailboxId>,
}

impl AgentSessions {
    /// Whether somebody beside the sessions takes this message.
    pub(super) fn is_intercepted(
        &self,
        by: &AgentId,
        message: &Envelope,
        mailboxes: &Mailboxes,
    ) -> bool {
        let interceptor = self.interceptor.and_then(|number| mailboxes.get(number));
        interceptor.is_some_and(|mailbox| mailbox.is_out_of_band(by, message))
    }

    /// Whoever waits for just this; else sticky by conversation, else the least loaded.
    pub(super) fn choose(
        &mut self,
        by: &AgentId,
        message: &Envelope,
        mailboxes: &Mailboxes,
    ) -> MailboxId {
        if let Some(interceptor) = self.interceptor
            && self.is_intercepted(by, message, mailboxes)
        {
            return interceptor;
        }
        let conversation = message.correlation_id;
        if self.others.is_empty() {
            return self.first;
        }
        let is_live = |number: &MailboxId| {
            mailboxes.get(*number).is_some_and(|mailbox| mailbox.slots.is_live())
        };
        if let Some(stuck) = self.sticky.get(&conversation)
            && (is_live(stuck) || !self.all().any(|number| is_live(&number)))
        {
            return *stuck;
        }
        let load = |number: &MailboxId| {
            mailboxes.get(*number).map(|mailbox| (!mailbox.slots.is_live(), mailbox.slots.taken()))
        };
        let free = self.all().min_by_key(load).unwrap_or(self.first);
        if self.sticky.len() >= STICKY {
            self.sticky.clear();
        }
        self.sticky.insert(conversation, free);
        free
    }

    pub(super) fn all(&self) -> impl Iterator<Item = MailboxId> {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }
}
