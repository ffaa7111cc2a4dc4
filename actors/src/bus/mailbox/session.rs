//! Session actor: works off one mailbox with the agent code that is attached to it.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use a2a_journal::Alive;
use a2a_policy::QueueEntry;
use actix::prelude::*;

use crate::bus::commit::effects::JournalHealth;
use crate::bus::context::BusContext;
use crate::bus::message::StoredMessage;
use crate::bus::router::{MoveWaiting, Router};
use crate::{AgentRuntime, Delivery};

use super::Mailbox;
use super::attempts::RunningAttempt;
use super::pull::WaitingPull;

/// How long to wait before looking again whether the journal can be written.
const RETRY_WHEN_REFUSED: Duration = Duration::from_millis(500);

pub(crate) struct Session {
    pub(super) mailbox: Rc<Mailbox>,
    pub(super) runtime: Option<Arc<dyn AgentRuntime>>,
    /// What the agent's code has in its hands, by the number of its record.
    pub(super) running: HashMap<u64, RunningAttempt>,
    /// Those of them that may not begin before the attempt is on record.
    pub(super) awaiting_record: HashSet<u64>,
    /// Polls that wait, the newest last.
    pub(super) pulls: Vec<WaitingPull>,
    /// Messages that are being handled though nobody wants that any more.
    pub(super) cancelled: HashSet<u64>,
    /// The timer that is set, and when it goes off.
    pub(super) timer: Option<(SpawnHandle, Duration)>,
    /// The journal refused, and a look whether it writes again is set.
    pub(super) recheck_scheduled: bool,
    pub(super) router: Addr<Router>,
    /// Its own address, which costs more to make than to share.
    pub(super) address: Option<Arc<Addr<Self>>>,
    pub(super) bus: Rc<BusContext>,
    _alive: Alive,
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
            _alive: bus.parts.returning("session"),
            bus,
        }
    }

    /// Does whatever can be done now: answer those who wait, run what comes next, set the timer.
    pub(super) fn pump(&mut self, ctx: &mut Context<Self>) {
        if self.bus.journal_status.health.get() != JournalHealth::Writing {
            // What is begun now could not be acknowledged; look again when the disk may be back.
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

    /// Nobody is here to handle what waits; perhaps somebody is elsewhere.
    pub(super) fn offer_waiting(&self) {
        if !self.mailbox.slots.is_live() {
            self.router.do_send(MoveWaiting(self.mailbox.agent.clone()));
        }
    }

    /// Wakes up when a pause or a lease ends.
    pub(super) fn set_timer(&mut self, ctx: &mut Context<Self>) {
        let Some(due) = self.mailbox.inbox.borrow().next_due() else { return };
        match self.timer {
            // It goes off early enough; what is due then is looked up then.
            Some((_, at)) if at <= due => return,
            Some((timer, _)) => drop(ctx.cancel_future(timer)),
            None => {}
        }
        let wait = due.saturating_sub(self.bus.clock.now().uptime) + Duration::from_millis(1);
        let timer = ctx.run_later(wait, |session, ctx| {
            session.timer = None;
            session.expire_overdue();
            session.pump(ctx);
        });
        self.timer = Some((timer, due));
    }
}

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
        // Messages wait on the desk, not here: this holds wake-ups, answers and requests.
        ctx.set_mailbox_capacity(1_024);
    }
}

/// Something arrived while the session waited, or its agent's code takes more than before.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Wake;

impl Handler<Wake> for Session {
    type Result = ();

    fn handle(&mut self, _: Wake, ctx: &mut Self::Context) {
        self.pump(ctx);
    }
}

/// The agent's code is here.
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

/// How an agent's code goes away, and what that means for the messages in its hands.
#[derive(Debug, Clone)]
pub(crate) enum Departure {
    /// It finishes them, where it can.
    Left,
    /// It gives them back: as if they had not been handed out.
    GaveBack,
    /// It was lost: the attempts have failed, and this is why.
    Lost(String),
}

/// The agent's code goes away; the session stays for what arrives.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Leave(pub(crate) Departure);

impl Handler<Leave> for Session {
    type Result = ();

    fn handle(&mut self, Leave(departure): Leave, ctx: &mut Self::Context) {
        self.mailbox.last_seen.set(Some(self.bus.clock.now().uptime));
        self.mailbox.set_runtime(None);
        self.runtime = None;
        match departure {
            Departure::Left => {}
            Departure::GaveBack => self.give_back_all(),
            Departure::Lost(reason) => self.lose_all(&reason),
        }
        self.offer_waiting();
        self.pump(ctx);
    }
}

/// The session ends: whatever it holds goes to another one.
#[derive(Message)]
#[rtype(result = "Vec<QueueEntry<Arc<StoredMessage>>>")]
pub(crate) struct HandOver(pub(crate) Departure);

impl Handler<HandOver> for Session {
    type Result = MessageResult<HandOver>;

    fn handle(&mut self, HandOver(departure): HandOver, ctx: &mut Self::Context) -> Self::Result {
        match departure {
            // There is nobody any more whom the agent's code could tell that it has finished.
            Departure::Left => drop(self.stop_unfinished()),
            Departure::GaveBack => self.give_back_all(),
            Departure::Lost(reason) => self.lose_all(&reason),
        }
        ctx.stop();
        MessageResult(self.mailbox.inbox.borrow_mut().drain())
    }
}
