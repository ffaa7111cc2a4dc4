//! Other settings while the bus runs: each piece of the policy takes its own, and keeps what it
//! knows. One message, so nobody is judged by half of the old and half of the new.

use actix::prelude::*;

use super::Router;
use crate::LiveSettings;

/// These settings count from now on.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Reload(pub(crate) LiveSettings);

impl Handler<Reload> for Router {
    type Result = ();

    fn handle(&mut self, Reload(settings): Reload, ctx: &mut Self::Context) {
        let inbox_limits = settings.inbox_limits();
        let LiveSettings { agents, open, access, max_recipients, rates, breaker, .. } = settings;
        self.limits.reconfigure(rates, self.bus.clock.now());
        self.breaker.reconfigure(breaker);
        self.access = access;
        self.max_recipients = max_recipients;
        self.inbox_limits = inbox_limits;
        self.bus.mailboxes.set_limits(inbox_limits);
        self.pending_bytes = settings.pending_bytes;
        self.dead_letter_bytes = settings.max_dead_letter_bytes;
        let mut listed = agents;
        for (agent, profile) in &self.bus.settings.built_in {
            if !listed.iter().any(|(name, _)| name == agent) {
                listed.push((agent.clone(), profile.clone()));
            }
        }
        for (agent, profile) in self.roster.reconfigure(open, listed) {
            self.ensure_agent(agent, profile, true, ctx);
        }
    }
}
