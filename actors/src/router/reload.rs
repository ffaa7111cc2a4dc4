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
        let LiveSettings { agents, open, access, max_recipients, rates, breaker, inbox_limit } =
            settings;
        self.limits.reconfigure(rates, self.shared.clock.now());
        self.breaker.reconfigure(breaker);
        self.access = access;
        self.max_recipients = max_recipients;
        self.inbox_limit = inbox_limit;
        self.shared.desks.set_limit(inbox_limit);
        let mut listed = agents;
        for (agent, profile) in &self.shared.settings.built_in {
            if !listed.iter().any(|(name, _)| name == agent) {
                listed.push((agent.clone(), profile.clone()));
            }
        }
        for (agent, profile) in self.roster.reconfigure(open, listed) {
            self.know(agent, profile, true, ctx);
        }
    }
}
