//! Session actor: dispatches one mailbox to attached agent code and polls, and runs the timer for
//! leases and backoffs.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use a2a_journal::LivenessGuard;
use a2a_policy::QueueEntry;
use actix::prelude::*;

use super::Mailbox;
use super::attempts::RunningAttempt;
use super::pull::WaitingPull;
use crate::bus::commit::effects::JournalHealth;
use crate::bus::context::BusContext;
use crate::bus::message::StoredMessage;
use crate::bus::router::{MoveWaiting, Router};
use crate::{AgentRuntime, Delivery};

/// Interval between checks whether the journal can be written again.
const RETRY_WHEN_REFUSED: Duration = Duration::from_millis(500);

pub(crate) struct Session {
    pub(super) mailbox: Rc<Mailbox>,
    pub(super) runtime: Option<Arc<dyn AgentRuntime>>,
    /// Attempts at work, by sequence number of the message.
    pub(super) running: HashMap<u64, RunningAttempt>,
    /// Attempts that may not start before they are recorded.
    pub(super) awaiting_record: HashSet<u64>,
    /// Waiting polls, the newest last.
    pub(super) pulls: Vec<WaitingPull>,
    /// Messages in flight whose task was cancelled.
    pub(super) cancelled: HashSet<u64>,
    /// Timer for the next due time, with that time.
    pub(super) timer: Option<(SpawnHandle, Duration)>,
    /// A check whether the journal writes again is scheduled.
    pub(super) recheck_scheduled: bool,
    pub(super) router: Addr<Router>,
    /// Its own address; sharing it is cheaper than creating one.
    pub(super) address: Option<Arc<Addr<Self>>>,
    pub(super) bus: Rc<BusContext>,
    _alive: LivenessGuard,
}

impl Session {
    pub(crate) fn new(mailbox: Rc<Mailbox>, router: Addr<Router>, bus: Rc<BusContext>) -> Self {
        Self {
            mailbox,
            runtime: None,
            running: HashMap::new(),
            awaiting_record: HashSet::new(),
            pulls: Vec::new(),
            cancelled: HashSet::new(),
            timer: None,
            recheck_scheduled: false,
            router,
            address: None,
            _alive: bus.liveness.returning("session"),
            bus,
        }
    }

    /// Does all that is possible now: serves polls, starts attempts, sets the timer.
    pub(super) fn pump(&mut self, ctx: &mut Context<Self>) {
        if self.bus.journal_status.health.get() != JournalHealth::Writing {
            // An attempt could not be acknowledged now; check again later.
            if !self.recheck_scheduled {
                self.recheck_scheduled = true;
                ctx.run_later(RETRY_WHEN_REFUSED, |session, ctx| {
                    session.recheck_scheduled = false;
                    session.pump(ctx);
                });
            }
            return;
        }
        if !self.bus.stopping.get() {
            self.answer_pulls(ctx);
            while self.run_next(ctx) {}
            self.take_out_of_band();
        }
        self.mailbox.set_waiting(self.has_capacity() || !self.pulls.is_empty());
        self.set_timer(ctx);
    }

    pub(super) fn address(&mut self, ctx: &Context<Self>) -> Arc<Addr<Self>> {
        Arc::clone(self.address.get_or_insert_with(|| Arc::new(ctx.address())))
    }

    /// Whether the agent's code takes another message now.
    pub(super) fn has_capacity(&self) -> bool {
        self.runtime.as_ref().is_some_and(|runtime| self.running.len() < runtime.max_in_flight())
    }

    /// Offers waiting messages to other sessions of the agent while no code is attached here.
    pub(super) fn offer_waiting(&self) {
        if !self.mailbox.capacity.is_live() {
            self.router.do_send(MoveWaiting(self.mailbox.agent.clone()));
        }
    }

    /// Sets the timer for the end of the next backoff or lease.
    pub(super) fn set_timer(&mut self, ctx: &mut Context<Self>) {
        let Some(due) = self.mailbox.inbox.borrow().next_due() else { return };
        match self.timer {
            // It fires early enough, and then looks for the next due time.
            Some((_, at)) if at <= due => return,
            Some((timer, _)) => drop(ctx.cancel_future(timer)),
            None => {}
        }
        let wait = due.saturating_sub(self.bus.clock.now().uptime) + Duration::from_millis(1);
        let timer = ctx.run_later(wait, |session, ctx| {
            session.timer = None;
            session.expire_leases();
            session.pump(ctx);
        });
        self.timer = Some((timer, due));
    }
}

/// A delivery of this queue entry, without the state of an attempt.
pub(crate) fn delivery(entry: &QueueEntry<Arc<StoredMessage>>) -> Delivery {
    Delivery {
        seq: entry.seq,
        sender: entry.by.clone(),
        attempt: entry.attempts,
        message: Arc::clone(&entry.item.message),
        bytes: Arc::clone(&entry.item.bytes),
        accepted: entry.item.accepted,
        attempt_state: None,
        sender_trace: entry.item.trace.clone(),
    }
}

impl Actor for Session {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        // Messages wait in the mailbox; this queue holds wake-ups, results and requests.
        ctx.set_mailbox_capacity(1_024);
    }
}

/// A message arrived while the session was idle, or its agent's code takes more than before.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Wake;

impl Handler<Wake> for Session {
    type Result = ();

    fn handle(&mut self, _: Wake, ctx: &mut Self::Context) {
        self.pump(ctx);
    }
}

/// Attaches agent code.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct SetRuntime(pub(crate) Arc<dyn AgentRuntime>);

impl Handler<SetRuntime> for Session {
    type Result = ();

    fn handle(&mut self, SetRuntime(runtime): SetRuntime, ctx: &mut Self::Context) {
        self.mailbox.last_seen.set(Some(self.bus.clock.now().uptime));
        self.mailbox.set_runtime(Some(Arc::clone(&runtime)));
        self.runtime = Some(runtime);
        self.pump(ctx);
    }
}

/// How agent code is detached, and what that means for its messages in flight.
#[derive(Debug, Clone)]
pub(crate) enum DetachMode {
    /// It finishes them where it can.
    Finish,
    /// It returns them; the attempts do not count.
    Release,
    /// It was lost: the attempts have failed for this reason.
    Fail(String),
}

/// Detaches agent code; the session continues for messages that arrive.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct DetachRuntime(pub(crate) DetachMode);

impl Handler<DetachRuntime> for Session {
    type Result = ();

    fn handle(&mut self, DetachRuntime(mode): DetachRuntime, ctx: &mut Self::Context) {
        self.mailbox.last_seen.set(Some(self.bus.clock.now().uptime));
        self.mailbox.set_runtime(None);
        self.runtime = None;
        match mode {
            DetachMode::Finish => {}
            DetachMode::Release => self.release_all(),
            DetachMode::Fail(reason) => self.fail_all(&reason),
        }
        self.offer_waiting();
        self.pump(ctx);
    }
}

/// Ends the session and returns its messages for another one.
#[derive(Message)]
#[rtype(result = "Vec<QueueEntry<Arc<StoredMessage>>>")]
pub(crate) struct HandOver(pub(crate) DetachMode);

impl Handler<HandOver> for Session {
    type Result = MessageResult<HandOver>;

    fn handle(&mut self, HandOver(mode): HandOver, ctx: &mut Self::Context) -> Self::Result {
        match mode {
            // Results of the agent's code can no longer reach this session.
            DetachMode::Finish => drop(self.stop_unfinished()),
            DetachMode::Release => self.release_all(),
            DetachMode::Fail(reason) => self.fail_all(&reason),
        }
        ctx.stop();
        MessageResult(self.mailbox.inbox.borrow_mut().drain())
    }
}
