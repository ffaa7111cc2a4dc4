//! The agent's code at work: begun in the order of the messages, as many at once as it takes,
//! each ended by its answer, its deadline or the loss of whoever had it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use a2a_policy::Caller;
use a2a_protocol::{Event, Outcome};
use actix::prelude::*;
use futures_util::FutureExt;
use tokio::task::AbortHandle;
use tracing::Instrument;

use super::{Session, delivery};
use crate::bus::commit::effects::Then;
use crate::bus::message::{Call, Content};
use crate::bus::router::Reply;
use crate::bus::router::Route;
use crate::{Delivery, Failed, Handled, HandlerFuture, Runtime, Submission};

/// One message that is being handled.
pub(super) struct Running {
    /// Tells a late answer of an aborted run from the answer of the present one.
    attempt: u32,
    /// Shared with the agent's code.
    call: Arc<Call>,
    /// `None` until the attempt is on record and may begin.
    abort: Option<AbortHandle>,
    /// The bus did not take the answer that was worked out on the spot.
    insists: bool,
}

/// What became of a message on the thread of the bus.
enum Taken {
    /// It is answered.
    Answered(Submission),
    /// Whoever took it says when it has been dealt with.
    Over,
    /// There is work to run.
    Not,
}

impl Session {
    /// Hands the agent's code the message that comes next; `false` when there is none, or no room.
    pub(super) fn run_next(&mut self, ctx: &mut Context<Self>) -> bool {
        // Asked after every message: nothing but what is out costs no look at the clock.
        if !self.has_room() || self.desk.inbox.borrow().is_all_out() {
            return false;
        }
        let now = self.shared.clock.now().uptime;
        let until = now + self.shared.settings.handler_deadline;
        let mut inbox = self.desk.inbox.borrow_mut();
        let Some(entry) = inbox.lease(now, until) else { return false };
        // An earlier attempt may have killed the process: count this one before it can. And
        // nobody overtakes a message that waits for that.
        let on_record_first = entry.item.recovered || !self.unbegun.is_empty();
        let delivery = delivery(entry);
        drop(inbox);
        let (seq, attempt, id) = (delivery.seq, delivery.attempt, delivery.message.message_id);
        self.shared.running.set(self.shared.running.get() + 1);
        self.running
            .insert(seq, Running { attempt, call: Arc::default(), abort: None, insists: false });
        if on_record_first {
            self.unbegun.insert(seq);
            let then = Then::Begin { session: ctx.address(), seq };
            self.record(Event::Delivered, seq, id, Some(attempt), None, then);
            return true;
        }
        if attempt > 1 {
            self.record(Event::Delivered, seq, id, Some(attempt), None, Then::Nothing);
        }
        self.begin(delivery, ctx);
        true
    }

    /// While a message is being handled, hands over what the agent's code waits for: an answer to
    /// a task it asked for must not stand in line behind the work that needs it.
    pub(super) fn take_at_once(&mut self) {
        let Some(runtime) = self.runtime.clone().filter(|runtime| runtime.watches()) else {
            return;
        };
        if self.running.is_empty() {
            return;
        }
        let now = self.shared.clock.now().uptime;
        let until = now + self.shared.settings.handler_deadline;
        loop {
            let wants =
                |content: &Arc<Content>| runtime.wants_at_once(&content.by, &content.message);
            let mut inbox = self.desk.inbox.borrow_mut();
            let Some(delivery) = inbox.lease_if(now, until, wants).map(delivery) else { return };
            drop(inbox);
            if !runtime.take_at_once(&delivery) {
                // Nobody waits for it any more; it has its turn like any other.
                self.desk.inbox.borrow_mut().put_back(delivery.seq);
                return;
            }
            self.acknowledged(delivery.seq, None, Then::Nothing);
        }
    }

    /// Runs the agent's code where a panic or a blocked thread harms nobody else.
    fn begin(&mut self, mut delivery: Delivery, ctx: &mut Context<Self>) {
        let (seq, session) = (delivery.seq, self.address(ctx));
        let (Some(runtime), Some(running)) = (self.runtime.clone(), self.running.get_mut(&seq))
        else {
            return;
        };
        let attempt = running.attempt;
        delivery.call = Some(Arc::clone(&running.call));
        let ticket = Ticket { session: Arc::clone(&session), seq, attempt };
        // What the agent's code says in its log is known by the trace it belongs to.
        let span = tracing::debug_span!(
            "handle",
            trace = %delivery.trace().id(),
            agent = %self.desk.agent,
            message_id = %delivery.message.message_id,
            attempt,
        );
        let taken = AssertUnwindSafe(|| {
            let _span = span.enter();
            match (!running.insists).then(|| runtime.answer_at_once(&delivery)).flatten() {
                Some(answer) => Taken::Answered(answer),
                None => runtime.take_over(&delivery, ticket).map_or(Taken::Over, |_| Taken::Not),
            }
        });
        match catch_unwind(taken) {
            Ok(Taken::Not) => {}
            Ok(taken) => {
                running.call.taken_up.store(true, Relaxed);
                self.unbegun.remove(&seq);
                if let Taken::Answered(answer) = taken {
                    self.send_answer(answer, seq, attempt, session);
                }
                return;
            }
            Err(panic) => {
                let result = Err(panicked(&*panic));
                self.unbegun.remove(&seq);
                return session.do_send(Finished { seq, attempt, result });
            }
        }
        let call = Arc::clone(&running.call);
        // Several at once are handed over here, one after the other: on threads of their own
        // they would overtake each other.
        let mut begun = (runtime.window() != 1).then(|| begin_now(&*runtime, delivery.clone()));
        // What somebody waits for is taken here as well: what comes after it is taken at once,
        // and the end of a task must not overtake the reports before it.
        let is_awaited = begun.is_none()
            && runtime.watches()
            && runtime.wants_at_once(&delivery.sender, &delivery.message);
        if is_awaited && runtime.take_at_once(&delivery) {
            begun = Some(Ok(Box::pin(async { Ok(Handled::default()) })));
        }
        let only_waits = runtime.only_waits();
        let work = async move {
            call.taken_up.store(true, Relaxed);
            match begun {
                Some(work) => work?.await,
                None => runtime.handle(delivery).await,
            }
        };
        let work = work.instrument(span);
        let work = async move {
            let result = AssertUnwindSafe(work).catch_unwind().await;
            let result = result.unwrap_or_else(|panic| Err(panicked(&*panic)));
            session.do_send(Finished { seq, attempt, result });
        };
        let task = if only_waits {
            tokio::task::spawn_local(work)
        } else {
            self.shared.handlers.spawn(work)
        };
        running.abort = Some(task.abort_handle());
        self.unbegun.remove(&seq);
    }

    /// Sends an answer that was worked out on the spot.
    fn send_answer(&self, answer: Submission, seq: u64, attempt: u32, session: Arc<Addr<Self>>) {
        let caller = Caller::Agent(self.desk.agent.clone());
        let reply = Reply::Then(Box::new(move |receipt| {
            let outcome = receipt.outcome;
            if outcome.is_accepted() || outcome == Outcome::Duplicate {
                session.do_send(Finished { seq, attempt, result: Ok(Handled::default()) });
            } else {
                session.do_send(Insist { seq, attempt });
            }
        }));
        // However many there are: a message whose answer went nowhere would wait for its deadline.
        self.router.do_send(Route { caller, submission: answer, reply });
    }

    /// The agent's code has this message no more, whatever it still does.
    pub(super) fn stop_running(&mut self, seq: u64) {
        let Some(running) = self.running.remove(&seq) else { return };
        self.unbegun.remove(&seq);
        if let Some(abort) = running.abort {
            // It does nothing to work that has ended.
            abort.abort();
        }
        self.shared.running.set(self.shared.running.get().saturating_sub(1));
        self.shared.idle.notify_waiters();
    }

    /// The agent's code has nothing any more.
    fn stop_all(&mut self) -> Vec<u64> {
        let mut all: Vec<u64> = self.running.keys().copied().collect();
        all.sort_unstable();
        all.iter().for_each(|seq| self.stop_running(*seq));
        all
    }

    /// The same, for no fault of anybody; what was called off is over, the rest is returned.
    pub(super) fn stop_unfinished(&mut self) -> Vec<u64> {
        let mut rest = self.stop_all();
        rest.retain(|seq| {
            let over = self.called_off.contains(seq);
            !(over && self.failed(*seq, "the agent left".to_owned(), Then::Nothing))
        });
        rest
    }

    /// The same, and nobody has had the rest.
    pub(super) fn give_back_all(&mut self) {
        for seq in self.stop_unfinished() {
            self.desk.inbox.borrow_mut().put_back(seq);
        }
    }

    /// The same, and each attempt has failed.
    pub(super) fn lose_all(&mut self, reason: &str) {
        for seq in self.stop_all() {
            self.failed(seq, reason.to_owned(), Then::Nothing);
        }
    }

    pub(super) fn end_overdue(&mut self) {
        let now = self.shared.clock.now().uptime;
        let overdue = self.desk.inbox.borrow_mut().overdue(now);
        let takes_its_time = self.runtime.as_ref().is_some_and(|runtime| runtime.takes_its_time());
        for seq in overdue {
            let reason = match self.running.get(&seq) {
                Some(running) if takes_its_time || !running.call.taken_up.load(Relaxed) => {
                    let until = now + self.shared.settings.handler_deadline;
                    self.desk.inbox.borrow_mut().extend(seq, until);
                    continue;
                }
                Some(_) => {
                    self.stop_running(seq);
                    format!(
                        "the handler did not answer within {} s",
                        self.shared.settings.handler_deadline.as_secs_f32()
                    )
                }
                None => "the lease ran out without an acknowledgement".to_owned(),
            };
            self.failed(seq, reason, Then::Nothing);
        }
    }
}

/// Says when a message that was taken over has been dealt with.
pub struct Ticket {
    session: Arc<Addr<Session>>,
    seq: u64,
    attempt: u32,
}

impl Ticket {
    /// The message is acknowledged.
    pub fn handled(self) {
        let Self { session, seq, attempt } = self;
        session.do_send(Finished { seq, attempt, result: Ok(Handled::default()) });
    }
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").field("seq", &self.seq).finish_non_exhaustive()
    }
}

/// Lets the agent's code begin on the thread of the bus, which a panic must not end.
fn begin_now(runtime: &dyn Runtime, delivery: Delivery) -> Result<HandlerFuture, Failed> {
    catch_unwind(AssertUnwindSafe(|| runtime.handle(delivery))).map_err(|panic| panicked(&*panic))
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Failed {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no reason given".into());
    Failed::new(format!("the handler panicked: {text}"))
}

/// The attempt on a recovered message is on record and may begin.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Begin(pub(crate) u64);

impl Handler<Begin> for Session {
    type Result = ();

    fn handle(&mut self, Begin(seq): Begin, ctx: &mut Self::Context) {
        if self.running.get(&seq).is_none_or(|running| running.abort.is_some()) {
            return;
        }
        let delivery = self.desk.inbox.borrow().get_out(seq).map(delivery);
        match delivery {
            Some(delivery) if self.runtime.is_some() => self.begin(delivery, ctx),
            _ => {
                // The agent left, or somebody settled the message from outside meanwhile.
                self.desk.inbox.borrow_mut().put_back(seq);
                self.stop_running(seq);
                self.pump(ctx);
            }
        }
    }
}

/// The bus did not take an answer that was worked out on the spot: the agent's code is to see to it.
#[derive(Message)]
#[rtype(result = "()")]
struct Insist {
    seq: u64,
    attempt: u32,
}

impl Handler<Insist> for Session {
    type Result = ();

    fn handle(&mut self, Insist { seq, attempt }: Insist, ctx: &mut Self::Context) {
        let Some(running) = self.running.get_mut(&seq) else { return };
        if running.attempt != attempt {
            return; // it was given up on before it answered
        }
        running.insists = true;
        ctx.notify(Begin(seq));
    }
}

/// A message that is being handled, or was to be, never became durable: it never was.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct TakenBack(pub(crate) u64);

impl Handler<TakenBack> for Session {
    type Result = ();

    fn handle(&mut self, TakenBack(seq): TakenBack, ctx: &mut Self::Context) {
        self.stop_running(seq);
        self.called_off.remove(&seq);
        self.pump(ctx);
    }
}

/// The agent's code came back, or blew up.
#[derive(Message)]
#[rtype(result = "()")]
struct Finished {
    seq: u64,
    attempt: u32,
    result: Result<Handled, Failed>,
}

impl Handler<Finished> for Session {
    type Result = ();

    fn handle(&mut self, Finished { seq, attempt, result }: Finished, ctx: &mut Self::Context) {
        if self.running.get(&seq).is_none_or(|running| running.attempt != attempt) {
            return; // it was given up on before it answered
        }
        self.stop_running(seq);
        match result {
            Ok(Handled { note, durable }) => {
                self.acknowledged(seq, note, then_tell(durable));
            }
            Err(Failed { reason, durable }) => {
                self.failed(seq, reason, then_tell(durable));
            }
        }
        self.pump(ctx);
    }
}

fn then_tell(durable: Option<tokio::sync::oneshot::Sender<()>>) -> Then {
    durable.map_or(Then::Nothing, Then::Answer)
}

/// The task that this message asked for was called off: the agent's code is told.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct CancelRunning(pub(crate) u64);

impl Handler<CancelRunning> for Session {
    type Result = ();

    fn handle(&mut self, CancelRunning(seq): CancelRunning, _: &mut Self::Context) {
        if self.desk.inbox.borrow().get_out(seq).is_some() {
            self.called_off.insert(seq);
        }
        if let Some(running) = self.running.get(&seq) {
            running.call.cancel();
        }
    }
}
