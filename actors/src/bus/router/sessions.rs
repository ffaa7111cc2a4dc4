//! The sessions of one agent, and which of them a message goes to.

use std::collections::HashMap;

use a2a_protocol::{AgentId, CorrelationId, Envelope};

use crate::bus::mailbox::{DeskNo, Desks};

/// How many conversations with an agent of several sessions are remembered.
const STICKY: usize = 10_000;

/// The sessions of one agent; the first stays as long as the agent is known.
pub(super) struct Sessions {
    pub(super) first: DeskNo,
    pub(super) others: Vec<DeskNo>,
    /// Whoever takes certain messages beside the sessions.
    pub(super) aside: Option<DeskNo>,
    pub(super) sticky: HashMap<CorrelationId, DeskNo>,
}

impl Sessions {
    /// Whether somebody beside the sessions takes this message.
    pub(super) fn is_for_aside(&self, by: &AgentId, message: &Envelope, desks: &Desks) -> bool {
        let aside = self.aside.and_then(|number| desks.get(number));
        aside.is_some_and(|desk| desk.wants(by, message))
    }

    /// Whoever waits for just this; else sticky by conversation, else the least loaded.
    pub(super) fn choose(&mut self, by: &AgentId, message: &Envelope, desks: &Desks) -> DeskNo {
        if let Some(aside) = self.aside
            && self.is_for_aside(by, message, desks)
        {
            return aside;
        }
        let conversation = message.correlation_id;
        if self.others.is_empty() {
            return self.first;
        }
        let is_live = |number: &DeskNo| desks.get(*number).is_some_and(|desk| desk.slots.is_live());
        if let Some(stuck) = self.sticky.get(&conversation)
            && (is_live(stuck) || !self.all().any(|number| is_live(&number)))
        {
            return *stuck;
        }
        let load = |number: &DeskNo| {
            desks.get(*number).map(|desk| (!desk.slots.is_live(), desk.slots.taken()))
        };
        let free = self.all().min_by_key(load).unwrap_or(self.first);
        if self.sticky.len() >= STICKY {
            self.sticky.clear();
        }
        self.sticky.insert(conversation, free);
        free
    }

    pub(super) fn all(&self) -> impl Iterator<Item = DeskNo> {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }
}
