//! What time brings: work that takes too long, tasks that are too old.

use std::time::Duration;

use a2a_policy::tasks::is_given_up;
use a2a_protocol::TaskId;
use a2a_protocol::task::{Moment, TaskState};
use a2a_taskdb::{Write, Written};
use actix::prelude::*;

use super::{PendingWrite, Service};
use crate::tasks::service::live_task::LiveTask;
use crate::tasks::{LiveTaskSettings, TaskSettings};

/// How many old tasks go at once.
const EXPIRED_AT_ONCE: usize = 1_000;

impl Service {
    /// Looks again and again, as often as the settings make sense of.
    pub(super) fn arm_timers(&mut self, ctx: &mut Context<Self>) {
        let (shortest, second) = (Duration::from_millis(10), Duration::from_secs(1));
        let look = (self.settings.timeout / 10).clamp(shortest, second);
        let look = ctx.run_interval(look, |service, _| service.fail_overdue());
        let sweep = (self.settings.ttl / 10).clamp(shortest, 60 * second);
        let sweep = ctx.run_interval(sweep, |service, _| service.expire());
        for before in self.timers.replace([look, sweep]).into_iter().flatten() {
            ctx.cancel_future(before);
        }
    }

    /// When each task that is worked on has been at it for too long, by the time there is now.
    fn set_deadlines(&mut self) {
        let now = self.clock.now();
        self.deadlines.clear();
        for (id, live) in &mut self.live {
            if live.deadline.is_some() {
                let at =
                    now.uptime + self.settings.timeout.saturating_sub(worked_time(live, now.utc));
                live.deadline = Some(at);
                self.deadlines.insert((at, *id));
            }
        }
    }

    fn fail_overdue(&mut self) {
        let now = self.clock.now();
        while let Some((at, id)) =
            self.deadlines.first().copied().filter(|(at, _)| *at <= now.uptime)
        {
            self.deadlines.remove(&(at, id));
            let Some(live) = self.live.get_mut(&id) else { continue };
            live.deadline = None;
            if live.state() != TaskState::Working {
                continue;
            }
            // It may have rested and begun anew since the deadline was set.
            let left = self.settings.timeout.saturating_sub(worked_time(live, now.utc));
            if !left.is_zero() {
                live.deadline = Some(now.uptime + left);
                self.deadlines.insert((now.uptime + left, id));
                continue;
            }
            let minutes = self.settings.timeout.as_secs_f64() / 60.0;
            let why = format!("timed out: it was worked on for more than {minutes} minutes");
            self.fail(id, &why, true);
        }
    }

    /// Ends what has waited for its caller for too long. It goes to the disk before what is old
    /// is removed there.
    fn expire_interrupted(&mut self) {
        let (now, ttl) = (self.clock.now().utc, self.settings.ttl);
        let is_given_up =
            |live: &LiveTask| is_given_up(live.state(), live.stored.updated, now, ttl);
        let given_up: Vec<TaskId> =
            self.live.iter().filter(|(_, live)| is_given_up(live)).map(|(id, _)| *id).collect();
        for id in given_up {
            let why = "expired: it waited for an answer for as long as tasks are kept";
            self.fail(id, why, true);
        }
    }

    fn expire(&mut self) {
        self.expire_interrupted();
        let now = self.clock.now().utc;
        let ttl = chrono::TimeDelta::from_std(self.settings.ttl).unwrap_or(chrono::TimeDelta::MAX);
        let Some(older_than) = now.checked_sub_signed(ttl) else { return };
        let older_than = Moment::from(older_than);
        self.write(Write::Expire { older_than, limit: EXPIRED_AT_ONCE }, PendingWrite::Expire);
    }

    pub(super) fn on_expired(&mut self, written: Option<Written>) {
        match written {
            Some(Written::Expired(0)) | None => {}
            Some(Written::Expired(count)) => {
                tracing::info!(count, "old tasks were removed");
                if count >= EXPIRED_AT_ONCE {
                    self.expire();
                }
            }
            Some(other) => tracing::error!(?other, "old tasks could not be removed"),
        }
    }
}

/// These settings count from now on.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct Reload(pub(in crate::tasks) LiveTaskSettings);

impl Handler<Reload> for Service {
    type Result = ();

    fn handle(&mut self, Reload(settings): Reload, ctx: &mut Self::Context) {
        if settings == self.settings.live() {
            return;
        }
        let LiveTaskSettings { ttl, timeout, queue_per_context } = settings;
        let before = &self.settings;
        self.settings = TaskSettings { ttl, timeout, queue_per_context, ..before.clone() };
        self.queues.set_limit(queue_per_context);
        self.set_deadlines();
        self.arm_timers(ctx);
    }
}

/// How long a task has been worked on.
fn worked_time(live: &LiveTask, now: chrono::DateTime<chrono::Utc>) -> Duration {
    let since = live.stored.working_since.map_or(now, Moment::to_utc);
    let stretch = (now - since).to_std().unwrap_or_default();
    Duration::from_millis(live.stored.worked_ms) + stretch
}
