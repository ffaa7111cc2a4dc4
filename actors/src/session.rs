//! A session: one agent's mailbox, and one message at a time out of it.
//!
//! A message that is durable lies on the session's desk, and [`Wake`] says so. If the agent's code is here
//! ([`Runtime`]), the session runs it, one message after the other, on the threads for
//! agents' code; otherwise the messages wait, or somebody takes them with [`Pull`] and
//! answers with [`Settle`]. What becomes of each goes to the audit; what is given up goes
//! to the router, which tells the sender.

use std::collections::{HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use a2a_policy::{AfterFailure, Delivery};
use a2a_protocol::{Event, MessageId};
use a2a_store::{EventLine, Line};
use actix::prelude::*;
use futures_util::FutureExt;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::audit::{Health, Then};
use crate::desk::Desk;
use crate::letter::{Call, Content};
use crate::router::{GaveUp, InboxError, Router};
use crate::shared::Shared;
use crate::writer::Append;
use crate::{Handled, Letter, Runtime};

/// How long to wait before looking again whether the journal can be written.
const RETRY_WHEN_REFUSED: Duration = Duration::from_millis(500);

pub(crate) struct Session {
    desk: Rc<Desk>,
    runtime: Option<Arc<dyn Runtime>>,
    running: Option<Running>,
    pulls: VecDeque<WaitingPull>,
    /// Messages that are being handled though nobody wants that any more.
    called_off: HashSet<u64>,
    /// The timer that is set, and when it goes off.
    timer: Option<(SpawnHandle, Duration)>,
    /// The journal refused, and a look whether it writes again is set.
    looks_again: bool,
    router: Addr<Router>,
    shared: Rc<Shared>,
}

/// The one message that is being handled.
struct Running {
    seq: u64,
    /// Tells a late answer of an aborted run from the answer of the present one.
    attempt: u32,
    /// Shared with the agent's code.
    call: Arc<Call>,
    /// `None` until the attempt is on record and may begin.
    abort: Option<AbortHandle>,
}

struct WaitingPull {
    limit: usize,
    reply: oneshot::Sender<Vec<Letter>>,
}

impl Session {
    pub(crate) fn new(desk: Rc<Desk>, router: Addr<Router>, shared: Rc<Shared>) -> Self {
        Self {
            desk,
            runtime: None,
            running: None,
            pulls: VecDeque::new(),
            called_off: HashSet::new(),
            timer: None,
            looks_again: false,
            router,
            shared,
        }
    }

    /// Does whatever can be done now: answer those who wait, run the next message, set the timer.
    fn pump(&mut self, ctx: &mut Context<Self>) {
        if self.shared.gauge.health.get() != Health::Writing {
            // What is begun now could not be acknowledged; look again when the disk may be back.
            if !self.looks_again {
                self.looks_again = true;
                ctx.run_later(RETRY_WHEN_REFUSED, |session, ctx| {
                    session.looks_again = false;
                    session.pump(ctx);
                });
            }
            return;
        }
        if !self.shared.stopping.get() {
            self.answer_pulls();
            self.run_next(ctx);
            self.take_at_once();
        }
        let wants_work = self.runtime.is_some() && self.running.is_none();
        self.desk.set_waiting(wants_work || !self.pulls.is_empty());
        self.set_timer(ctx);
    }

    fn answer_pulls(&mut self) {
        while let Some(pull) = self.pulls.front() {
            if pull.reply.is_closed() {
                self.pulls.pop_front();
                continue;
            }
            let letters = self.take(pull.limit);
            if letters.is_empty() {
                return;
            }
            let Some(pull) = self.pulls.pop_front() else { return };
            self.desk.last_seen.set(Some(self.shared.clock.now().uptime));
            self.hand_over(letters, pull.reply);
        }
    }

    /// Gives the letters to the one who asked, or takes them back when nobody is there.
    fn hand_over(&mut self, letters: Vec<Letter>, reply: oneshot::Sender<Vec<Letter>>) {
        if let Err(letters) = reply.send(letters) {
            letters.iter().for_each(|letter| self.desk.inbox.borrow_mut().put_back(letter.seq));
        }
    }

    /// Leases up to `limit` messages to somebody outside.
    fn take(&mut self, limit: usize) -> Vec<Letter> {
        let now = self.shared.clock.now().uptime;
        let until = now + self.shared.settings.lease;
        let mut letters = Vec::new();
        {
            let mut inbox = self.desk.inbox.borrow_mut();
            while letters.len() < limit
                && let Some(delivery) = inbox.lease(now, until)
            {
                letters.push(letter(delivery));
            }
        }
        for letter in &letters {
            self.record(
                Event::Delivered,
                letter.seq,
                letter.message.message_id,
                Some(letter.attempt),
                None,
                Then::Nothing,
            );
        }
        letters
    }

    fn run_next(&mut self, ctx: &mut Context<Self>) {
        if self.runtime.is_none() || self.running.is_some() {
            return;
        }
        let now = self.shared.clock.now().uptime;
        let until = now + self.shared.settings.handler_deadline;
        let mut inbox = self.desk.inbox.borrow_mut();
        let Some(delivery) = inbox.lease(now, until) else { return };
        let on_record_first = delivery.item.recovered;
        let letter = letter(delivery);
        drop(inbox);
        let (seq, attempt, id) = (letter.seq, letter.attempt, letter.message.message_id);
        self.shared.running.set(self.shared.running.get() + 1);
        self.running = Some(Running { seq, attempt, call: Arc::default(), abort: None });
        if on_record_first {
            // An earlier attempt may have killed the process: count this one before it can.
            let then = Then::Begin { session: ctx.address(), seq };
            self.record(Event::Delivered, seq, id, Some(attempt), None, then);
            return;
        }
        if attempt > 1 {
            self.record(Event::Delivered, seq, id, Some(attempt), None, Then::Nothing);
        }
        self.begin(letter, ctx);
    }

    /// While a message is being handled, hands over what the agent's code waits for: an answer to
    /// a task it asked for must not stand in line behind the work that needs it.
    fn take_at_once(&mut self) {
        let Some(runtime) = self.runtime.clone().filter(|runtime| runtime.watches()) else {
            return;
        };
        if self.running.is_none() {
            return;
        }
        let now = self.shared.clock.now().uptime;
        let until = now + self.shared.settings.handler_deadline;
        loop {
            let wants =
                |content: &Arc<Content>| runtime.wants_at_once(&content.by, &content.message);
            let mut inbox = self.desk.inbox.borrow_mut();
            let Some(letter) = inbox.lease_if(now, until, wants).map(letter) else { return };
            drop(inbox);
            if !runtime.take_at_once(&letter) {
                // Nobody waits for it any more; it has its turn like any other.
                self.desk.inbox.borrow_mut().put_back(letter.seq);
                return;
            }
            self.acknowledged(letter.seq, None, Then::Nothing);
        }
    }

    /// Runs the agent's code where a panic or a blocked thread harms nobody else.
    fn begin(&mut self, mut letter: Letter, ctx: &mut Context<Self>) {
        let (Some(runtime), Some(running)) = (self.runtime.clone(), self.running.as_mut()) else {
            return;
        };
        let session = ctx.address();
        let (seq, attempt) = (running.seq, running.attempt);
        letter.call = Some(Arc::clone(&running.call));
        let call = Arc::clone(&running.call);
        let work = async move {
            call.taken_up.store(true, Relaxed);
            runtime.handle(letter).await
        };
        let task = self.shared.handlers.spawn(async move {
            let result = AssertUnwindSafe(work).catch_unwind().await;
            let result =
                result.map_err(|panic| format!("the handler panicked: {}", panic_text(&*panic)));
            session.do_send(Finished { seq, attempt, result });
        });
        running.abort = Some(task.abort_handle());
    }

    fn stop_running(&mut self) {
        if self.running.take().is_some() {
            self.shared.running.set(self.shared.running.get().saturating_sub(1));
            self.shared.idle.notify_waiters();
        }
    }

    fn acknowledged(&mut self, seq: u64, note: Option<String>, then: Then) -> bool {
        let Some(delivery) = self.desk.inbox.borrow_mut().acknowledge(seq) else { return false };
        self.called_off.remove(&seq);
        self.desk.slots.free();
        self.shared.stats.acknowledged.add(1);
        self.record(Event::Acknowledged, seq, delivery.item.message.message_id, None, note, then);
        true
    }

    fn failed(&mut self, seq: u64, reason: String, then: Then) -> bool {
        if self.called_off.remove(&seq) {
            // Nobody wants another attempt.
            let Some(delivery) = self.desk.inbox.borrow_mut().acknowledge(seq) else {
                return false;
            };
            self.desk.slots.free();
            let id = delivery.item.message.message_id;
            self.record(Event::Cancelled, seq, id, None, Some(reason), then);
            return true;
        }
        let now = self.shared.clock.now().uptime;
        let failed = self.desk.inbox.borrow_mut().fail(seq, now, &self.shared.settings.retry);
        match failed {
            None => return false,
            Some(AfterFailure::Retry { attempt, .. }) => {
                tracing::warn!(agent = %self.desk.agent, seq, attempt, reason, "an attempt failed");
                self.shared.stats.failed_attempts.add(1);
                let id = None;
                self.record_optional(
                    Event::AttemptFailed,
                    seq,
                    id,
                    Some(attempt),
                    Some(reason),
                    then,
                );
            }
            Some(AfterFailure::GiveUp(delivery)) => {
                self.desk.slots.free();
                self.shared.stats.dead_letters.add(1);
                let agent = self.desk.agent.clone();
                self.router.do_send(GaveUp { agent, delivery, reason, then });
            }
        }
        true
    }

    fn record(
        &self,
        event: Event,
        of: u64,
        id: MessageId,
        attempt: Option<u32>,
        reason: Option<String>,
        then: Then,
    ) {
        self.record_optional(event, of, Some(id), attempt, reason, then);
    }

    fn record_optional(
        &self,
        event: Event,
        of: u64,
        message_id: Option<MessageId>,
        attempt: Option<u32>,
        reason: Option<String>,
        then: Then,
    ) {
        let line = Line::Event(EventLine {
            of: Some(of),
            message_id,
            agent_id: Some(self.desk.agent.clone()),
            attempt,
            reason,
            ..self.shared.event(event)
        });
        self.shared.append(Append { line, then });
    }

    /// Wakes up when a pause or a lease ends.
    fn set_timer(&mut self, ctx: &mut Context<Self>) {
        let Some(due) = self.desk.inbox.borrow().next_due() else { return };
        match self.timer {
            // It goes off early enough; what is due then is looked up then.
            Some((_, at)) if at <= due => return,
            Some((timer, _)) => drop(ctx.cancel_future(timer)),
            None => {}
        }
        let wait = due.saturating_sub(self.shared.clock.now().uptime) + Duration::from_millis(1);
        let timer = ctx.run_later(wait, |session, ctx| {
            session.timer = None;
            session.end_overdue();
            session.pump(ctx);
        });
        self.timer = Some((timer, due));
    }

    fn end_overdue(&mut self) {
        let now = self.shared.clock.now().uptime;
        let overdue = self.desk.inbox.borrow().overdue(now);
        for seq in overdue {
            let reason = match &self.running {
                Some(running) if running.seq == seq && !running.call.taken_up.load(Relaxed) => {
                    let until = now + self.shared.settings.handler_deadline;
                    self.desk.inbox.borrow_mut().extend(seq, until);
                    continue;
                }
                Some(running) if running.seq == seq => {
                    if let Some(abort) = &running.abort {
                        abort.abort();
                    }
                    self.stop_running();
                    format!(
                        "the handler did not answer within {} s",
                        self.shared.settings.handler_deadline.as_secs_f32()
                    )
                }
                _ => "the lease ran out without an acknowledgement".to_owned(),
            };
            self.failed(seq, reason, Then::Nothing);
        }
    }
}

fn letter(delivery: &Delivery<Arc<Content>>) -> Letter {
    Letter {
        seq: delivery.seq,
        sender: delivery.by.clone(),
        attempt: delivery.attempts,
        message: Arc::clone(&delivery.item.message),
        bytes: Arc::clone(&delivery.item.bytes),
        call: None,
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no reason given".into())
}

impl Actor for Session {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        // Messages wait on the desk, not here: this holds wake-ups, answers and requests.
        ctx.set_mailbox_capacity(1_024);
    }
}

/// Something arrived while the session waited.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Wake;

impl Handler<Wake> for Session {
    type Result = ();

    fn handle(&mut self, _: Wake, ctx: &mut Self::Context) {
        self.pump(ctx);
    }
}

/// The attempt on a recovered message is on record and may begin.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Begin(pub(crate) u64);

impl Handler<Begin> for Session {
    type Result = ();

    fn handle(&mut self, Begin(seq): Begin, ctx: &mut Self::Context) {
        let expected = |running: &Running| running.seq == seq && running.abort.is_none();
        if !self.running.as_ref().is_some_and(expected) {
            return;
        }
        let letter = self.desk.inbox.borrow().get_out(seq).map(letter);
        match letter {
            Some(letter) if self.runtime.is_some() => self.begin(letter, ctx),
            _ => {
                // The agent left, or somebody settled the message from outside meanwhile.
                self.desk.inbox.borrow_mut().put_back(seq);
                self.stop_running();
                self.pump(ctx);
            }
        }
    }
}

/// The agent's code came back, or blew up.
#[derive(Message)]
#[rtype(result = "()")]
struct Finished {
    seq: u64,
    attempt: u32,
    result: Result<Handled, String>,
}

impl Handler<Finished> for Session {
    type Result = ();

    fn handle(&mut self, Finished { seq, attempt, result }: Finished, ctx: &mut Self::Context) {
        let current = self.running.as_ref().is_some_and(|r| (r.seq, r.attempt) == (seq, attempt));
        if !current {
            return; // it was given up on before it answered
        }
        self.stop_running();
        match result {
            Ok(handled) => drop(self.acknowledged(seq, handled.note, Then::Nothing)),
            Err(reason) => drop(self.failed(seq, reason, Then::Nothing)),
        }
        self.pump(ctx);
    }
}

/// The agent's code is here, or goes away.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct SetRuntime(pub(crate) Option<Arc<dyn Runtime>>);

impl Handler<SetRuntime> for Session {
    type Result = ();

    fn handle(&mut self, SetRuntime(runtime): SetRuntime, ctx: &mut Self::Context) {
        self.desk.slots.set_live(runtime.is_some());
        self.desk.last_seen.set(Some(self.shared.clock.now().uptime));
        self.desk.set_runtime(runtime.clone());
        self.runtime = runtime;
        self.pump(ctx);
    }
}

/// Somebody outside takes messages. If there are none, one who is patient waits until there
/// are or the reply is dropped; anyone else is told so at once.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Pull {
    pub(crate) limit: usize,
    pub(crate) patient: bool,
    pub(crate) reply: oneshot::Sender<Vec<Letter>>,
}

impl Handler<Pull> for Session {
    type Result = ();

    fn handle(&mut self, Pull { limit, patient, reply }: Pull, ctx: &mut Self::Context) {
        self.desk.last_seen.set(Some(self.shared.clock.now().uptime));
        self.end_overdue();
        if patient {
            self.pulls.push_back(WaitingPull { limit, reply });
            self.pump(ctx);
            return;
        }
        self.pump(ctx); // who waited longer goes first
        let closed =
            self.shared.stopping.get() || self.shared.gauge.health.get() != Health::Writing;
        let letters = if closed { Vec::new() } else { self.take(limit) };
        self.hand_over(letters, reply);
        self.set_timer(ctx);
    }
}

/// What somebody outside says of a message it took.
pub(crate) enum Settlement {
    Acknowledge,
    Fail(String),
}

/// Settles a message that was pulled; the reply comes when that is durable.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Settle {
    pub(crate) id: MessageId,
    pub(crate) settlement: Settlement,
    pub(crate) reply: oneshot::Sender<Result<oneshot::Receiver<()>, InboxError>>,
}

impl Handler<Settle> for Session {
    type Result = ();

    fn handle(&mut self, Settle { id, settlement, reply }: Settle, ctx: &mut Self::Context) {
        let found = self.desk.inbox.borrow().find(|content| content.message.message_id == id);
        if let Some(running) = self.running.as_ref().filter(|running| Some(running.seq) == found) {
            if let Some(abort) = &running.abort {
                abort.abort();
            }
            self.stop_running();
        }
        let (durable, answer) = oneshot::channel();
        let settled = found.is_some_and(|seq| match settlement {
            Settlement::Acknowledge => self.acknowledged(seq, None, Then::Answer(durable)),
            Settlement::Fail(reason) => self.failed(seq, reason, Then::Answer(durable)),
        });
        let _ = reply.send(if settled { Ok(answer) } else { Err(InboxError::NotTaken) });
        self.pump(ctx);
    }
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
        if let Some(running) = self.running.as_ref().filter(|running| running.seq == seq) {
            running.call.cancel();
        }
    }
}

/// The session ends: whatever it holds goes to another one.
#[derive(Message)]
#[rtype(result = "Vec<Delivery<Arc<Content>>>")]
pub(crate) struct HandOver;

impl Handler<HandOver> for Session {
    type Result = MessageResult<HandOver>;

    fn handle(&mut self, _: HandOver, ctx: &mut Self::Context) -> Self::Result {
        if let Some(Running { abort: Some(abort), .. }) = &self.running {
            abort.abort();
        }
        self.stop_running();
        ctx.stop();
        MessageResult(self.desk.inbox.borrow_mut().drain())
    }
}
