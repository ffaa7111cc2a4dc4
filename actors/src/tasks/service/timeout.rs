//! Task timers: fail tasks that exceed the working timeout, and expire tasks older than their time
//! to live.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use a2a_policy::tasks::is_expired;
use a2a_protocol::TaskId;
use a2a_protocol::task::{TaskState, UtcMillis};
use a2a_taskdb::{Write, WriteOutcome};
use actix::prelude::*;

use super::Service;
use super::live_task::LiveTask;
use super::store_queue::PendingWrite;
use crate::tasks::{LiveTaskSettings, TaskSettings};

/// Tasks that one write expires at most.
const EXPIRE_BATCH: usize = 1_000;

/// When each working task times out, as uptime of the service.
#[derive(Default)]
pub(super) struct Deadlines {
    by_time: BTreeSet<(Duration, TaskId)>,
    by_task: HashMap<TaskId, Duration>,
}

impl Deadlines {
    fn set(&mut self, id: TaskId, at: Duration) {
        self.remove(id);
        self.by_task.insert(id, at);
        self.by_time.insert((at, id));
    }

    pub(super) fn remove(&mut self, id: TaskId) {
        if let Some(at) = self.by_task.remove(&id) {
            self.by_time.remove(&(at, id));
        }
    }

    fn pop_due(&mut self, now: Duration) -> Option<TaskId> {
        let (_, id) = self.by_time.first().copied().filter(|(at, _)| *at <= now)?;
        self.remove(id);
        Some(id)
    }
}

impl Service {
    /// Arms the timers anew: at a tenth of the times they watch, at most 1 s and 60 s.
    pub(super) fn arm_timers(&mut self, ctx: &mut Context<Self>) {
        let (shortest, second) = (Duration::from_millis(10), Duration::from_secs(1));
        let check = (self.settings.timeout / 10).clamp(shortest, second);
        let check = ctx.run_interval(check, |service, _| service.fail_overdue());
        let sweep = (self.settings.ttl / 10).clamp(shortest, 60 * second);
        let sweep = ctx.run_interval(sweep, |service, _| service.expire());
        for before in self.timers.replace([check, sweep]).into_iter().flatten() {
            ctx.cancel_future(before);
        }
    }

    /// Starts the timeout of a working task; `false` when the task is not working.
    pub(in crate::tasks) fn start_timeout(&mut self, id: TaskId) -> bool {
        let Some(live) = self.live.get(&id) else { return false };
        if live.state() != TaskState::Working || live.answer().is_some() {
            return false;
        }
        let worked = Duration::from_millis(live.stored.worked_ms);
        let at = self.clock.now().uptime + self.settings.timeout.saturating_sub(worked);
        self.deadlines.set(id, at);
        true
    }

    /// Applies a changed timeout to the tasks that have a deadline.
    fn reset_deadlines(&mut self) {
        let now = self.clock.now();
        let timed: Vec<TaskId> = self.deadlines.by_task.keys().copied().collect();
        for id in timed {
            let Some(live) = self.live.get(&id) else { continue };
            let left = self.settings.timeout.saturating_sub(worked_time(live, now.utc));
            self.deadlines.set(id, now.uptime + left);
        }
    }

    fn fail_overdue(&mut self) {
        let now = self.clock.now();
        while let Some(id) = self.deadlines.pop_due(now.uptime) {
            let Some(live) = self.live.get(&id) else { continue };
            if live.state() != TaskState::Working {
                continue;
            }
            // An interruption since the deadline was set does not count as work.
            let left = self.settings.timeout.saturating_sub(worked_time(live, now.utc));
            if !left.is_zero() {
                self.deadlines.set(id, now.uptime + left);
                continue;
            }
            let minutes = self.settings.timeout.as_secs_f64() / 60.0;
            let why = format!("timed out: it was worked on for more than {minutes} minutes");
            self.fail(id, &why, true);
        }
    }

    /// Fails interrupted tasks whose client has not answered for `ttl`. Their writes precede the
    /// removal of expired rows.
    fn fail_abandoned(&mut self) {
        let (now, ttl) = (self.clock.now().utc, self.settings.ttl);
        let is_abandoned =
            |live: &LiveTask| is_expired(live.state(), live.stored.updated, now, ttl);
        let abandoned: Vec<TaskId> =
            self.live.iter().filter(|(_, live)| is_abandoned(live)).map(|(id, _)| *id).collect();
        for id in abandoned {
            let why = "expired: it waited for an answer for as long as tasks are kept";
            self.fail(id, why, true);
        }
    }

    fn expire(&mut self) {
        self.fail_abandoned();
        let now = self.clock.now().utc;
        let ttl = chrono::TimeDelta::from_std(self.settings.ttl).unwrap_or(chrono::TimeDelta::MAX);
        let Some(older_than) = now.checked_sub_signed(ttl) else { return };
        let older_than = UtcMillis::from(older_than);
        self.write(Write::Expire { older_than, limit: EXPIRE_BATCH }, PendingWrite::Expire);
    }

    pub(super) fn on_expired(&mut self, written: Option<WriteOutcome>) {
        match written {
            Some(WriteOutcome::Expired(0)) | None => {}
            Some(WriteOutcome::Expired(count)) => {
                tracing::info!(count, "old tasks were removed");
                if count >= EXPIRE_BATCH {
                    self.expire();
                }
            }
            Some(other) => tracing::error!(?other, "old tasks could not be removed"),
        }
    }
}

/// Replaces the settings that can change at run time.
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
        self.scheduler.queues.set_limit(queue_per_context);
        self.reset_deadlines();
        self.arm_timers(ctx);
    }
}

/// Time the task has spent in state working.
fn worked_time(live: &LiveTask, now: chrono::DateTime<chrono::Utc>) -> Duration {
    let since = live.stored.working_since.map_or(now, UtcMillis::to_utc);
    let stretch = (now - since).to_std().unwrap_or_default();
    Duration::from_millis(live.stored.worked_ms) + stretch
}
