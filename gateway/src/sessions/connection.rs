//! One connection of an agent: frames in, frames out, until either end has enough.
//!
//! Everything waits in one permit, so a request to stop or to hand the session over is heard even
//! while the other end takes nothing. What goes out is bounded: no message is taken up before the
//! one before it is on its way, and nothing is read while too much waits to be written.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use a2a_actors::{BusSystem, Delivery, Submission};
use a2a_policy::Caller;
use a2a_protocol::limits::MESSAGE_BYTES;
use a2a_protocol::{AgentId, MessageId};
use actix_web::web::Bytes;
use actix_ws::{AggregatedMessage, AggregatedMessageStream, CloseCode, Message, ProtocolError};
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{Sink, StreamExt};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use super::end::End;
use super::frame::{self, ClientFrame, FrameError, Hello, Limits, ServerFrame};
use super::registry::{SessionPermit, SessionSettings};
use super::remote::{RemoteAgent, RemoteEvent};

/// What a frame may have around the largest message.
pub(super) const FRAME_BYTES: usize = MESSAGE_BYTES + 4_096;
/// Messages an agent takes at once when it does not say how many.
const DEFAULT_WINDOW: usize = 16;
/// The most it may say.
const LARGEST_WINDOW: usize = 256;
/// How long a client may take to say how it wants the session to be.
const HELLO_WAIT: Duration = Duration::from_secs(1);
/// Requests of one connection that may wait for their answer; beyond that nothing is read.
const MOST_PENDING: usize = 64;
/// Frames that may wait to be written; beyond that nothing is read.
const MOST_OUT: usize = 64;
/// Frames in a row that cannot be read before the connection is closed.
const MOST_FAULTS: u32 = 16;
/// How long a settlement may wait for the disk before its sender is told so.
const SETTLE_DEADLINE: Duration = Duration::from_secs(10);

/// What waits to be written; a message becomes text only when it is its turn.
enum Out {
    Frame(Message),
    Deliver(Delivery),
    Cancel(Delivery),
}

/// One connection of an agent.
pub(super) struct AgentConnection {
    pub(super) ws: actix_ws::Session,
    pub(super) incoming: AggregatedMessageStream,
    pub(super) permit: SessionPermit,
    pub(super) remote: RemoteAgent,
    pub(super) grace: Duration,
    pub(super) stops: watch::Receiver<bool>,
    bus: BusSystem,
    caller: Caller,
    agent: AgentId,
    settings: SessionSettings,
    out: VecDeque<Out>,
    pending: FuturesUnordered<LocalBoxFuture<'static, String>>,
    /// Whether the client has said, or had its time to say, how it wants the session to be.
    opened: bool,
    /// Frames in a row that could not be read.
    faults: u32,
    /// When the client was last heard of.
    heard: Instant,
    /// When something last was on its way to the client, or nothing had to be.
    moved: Instant,
}

/// What a connection is made of.
pub(super) struct ConnectionParts {
    pub(super) ws: actix_ws::Session,
    pub(super) incoming: AggregatedMessageStream,
    pub(super) permit: SessionPermit,
    pub(super) remote: RemoteAgent,
    pub(super) stops: watch::Receiver<bool>,
    pub(super) bus: BusSystem,
    pub(super) caller: Caller,
    pub(super) agent: AgentId,
    pub(super) settings: SessionSettings,
}

impl AgentConnection {
    pub(super) fn new(parts: ConnectionParts) -> Self {
        let ConnectionParts { ws, incoming, permit, remote, stops, bus, caller, agent, settings } =
            parts;
        Self {
            ws,
            incoming,
            permit,
            remote,
            grace: Duration::ZERO,
            stops,
            bus,
            caller,
            agent,
            settings,
            out: VecDeque::new(),
            pending: FuturesUnordered::new(),
            opened: false,
            faults: 0,
            heard: Instant::now(),
            moved: Instant::now(),
        }
    }

    /// Serves the connection to its end.
    pub(super) async fn run(mut self) {
        let end = self.converse().await;
        tracing::debug!(agent = %self.agent, session = %self.permit.id(), ?end, "a connection ended");
        end.conclude(self).await;
    }

    async fn converse(&mut self) -> End {
        let shortest = self.settings.silent.min(self.settings.stalled);
        let mut tick = interval((shortest / 3).max(Duration::from_millis(100)));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let until = Instant::now() + HELLO_WAIT;
        self.say_hello(false, DEFAULT_WINDOW);
        loop {
            let reads = self.out.len() < MOST_OUT && self.pending.len() < MOST_PENDING;
            let end = tokio::select! {
                () = stopped(&mut self.stops) => Some(End::Stopping),
                Some(request) = self.permit.requests.recv() => Some(End::TakenOver(request)),
                ready = poll_fn(|cx| Pin::new(&mut self.ws).poll_ready(cx)), if !self.out.is_empty() => {
                    if ready.is_ok() && self.write_next() { None } else { Some(End::Lost) }
                }
                Some(answer) = self.pending.next(), if !self.pending.is_empty() => {
                    self.say(answer);
                    None
                }
                mail = self.remote.next(), if self.opened && self.out.is_empty() => match mail {
                    Some(RemoteEvent::Deliver(delivery)) => self.put(Out::Deliver(delivery)),
                    Some(RemoteEvent::Cancel(delivery)) => self.put(Out::Cancel(delivery)),
                    None => Some(End::Stopping),
                },
                heard = self.incoming.recv(), if reads => self.hear(heard).await,
                _ = tick.tick() => self.look(),
                () = sleep_until(until), if !self.opened => {
                    self.open(DEFAULT_WINDOW);
                    None
                }
            };
            if let Some(end) = end {
                return end;
            }
        }
    }

    /// Gives the socket what comes next; `false` when it is closed. Called when it takes more.
    pub(super) fn write_next(&mut self) -> bool {
        let frame = match self.out.pop_front() {
            None => return true,
            Some(Out::Frame(frame)) => frame,
            Some(Out::Deliver(delivery)) => Message::Text(frame::deliver(&delivery).into()),
            Some(Out::Cancel(delivery)) => Message::Text(frame::cancel(&delivery).into()),
        };
        self.moved = Instant::now();
        Pin::new(&mut self.ws).start_send(frame).is_ok()
    }

    /// Writes what waits and what is still to be answered, as long as the other end takes it.
    pub(super) async fn flush(&mut self) -> bool {
        loop {
            if self.out.is_empty() {
                match self.pending.next().await {
                    Some(answer) => self.say(answer),
                    None => return true,
                }
            }
            let ready = poll_fn(|cx| Pin::new(&mut self.ws).poll_ready(cx)).await;
            if ready.is_err() || !self.write_next() {
                return false;
            }
        }
    }

    fn put(&mut self, out: Out) -> Option<End> {
        self.out.push_back(out);
        None
    }

    fn say(&mut self, json: String) {
        self.out.push_back(Out::Frame(Message::Text(json.into())));
    }

    fn say_hello(&mut self, resumed: bool, window: usize) {
        let in_hands = self.remote.in_hands().iter().map(|l| l.message.message_id).collect();
        let hello = ServerFrame::Hello {
            protocol: "openclaw.a2a.session.v1",
            agent_id: &self.agent,
            session_id: self.permit.id(),
            resumed,
            window,
            grace_seconds: self.grace.as_secs(),
            in_hands,
            limits: Limits {
                frame_bytes: FRAME_BYTES,
                message_bytes: MESSAGE_BYTES,
                window: LARGEST_WINDOW,
                grace_seconds: self.settings.longest_grace.as_secs(),
                lease_seconds: self.settings.lease.as_secs(),
                silent_seconds: self.settings.silent.as_secs(),
            },
        };
        let hello = hello.to_json();
        self.say(hello);
    }

    /// Looks whether the other end is there, and asks.
    fn look(&mut self) -> Option<End> {
        if self.heard.elapsed() >= self.settings.silent {
            return Some(End::Silent);
        }
        if self.out.is_empty() {
            self.moved = Instant::now();
        } else if self.moved.elapsed() >= self.settings.stalled {
            return Some(End::Stalled);
        }
        self.put(Out::Frame(Message::Ping(Bytes::new())))
    }

    async fn hear(
        &mut self,
        heard: Option<Result<AggregatedMessage, ProtocolError>>,
    ) -> Option<End> {
        let message = match heard {
            None => return Some(End::Lost),
            Some(Err(error)) => {
                let end = End::of(&error);
                if let End::Faulty(_, code, said) = &end {
                    self.say(FrameError::new(code, said.clone()).into_json());
                }
                return Some(end);
            }
            Some(Ok(message)) => message,
        };
        self.heard = Instant::now();
        match message {
            AggregatedMessage::Text(text) => match frame::read(&text) {
                Ok(frame) => {
                    self.faults = 0;
                    self.answer(frame).await
                }
                Err(fault) => self.fault(fault),
            },
            AggregatedMessage::Binary(_) => {
                let said = "Frames are JSON in text frames; binary ones are not read.";
                self.fault(FrameError::new("binary", said))
            }
            AggregatedMessage::Ping(data) => self.put(Out::Frame(Message::Pong(data))),
            AggregatedMessage::Pong(_) => None,
            AggregatedMessage::Close(reason) => Some(End::Closed(reason)),
        }
    }

    /// Says what was wrong; whoever does not learn from it is sent away.
    fn fault(&mut self, fault: FrameError) -> Option<End> {
        self.faults += 1;
        self.say(fault.into_json());
        if self.faults < MOST_FAULTS {
            return None;
        }
        let said = format!("{MOST_FAULTS} frames in a row could not be read.");
        self.say(FrameError::new("too_many_errors", said.clone()).into_json());
        Some(End::Faulty(CloseCode::Policy, "too_many_errors", said))
    }

    async fn answer(&mut self, frame: ClientFrame<'_>) -> Option<End> {
        if let ClientFrame::Hello(hello) = frame {
            return match self.greet(hello).await {
                Ok(()) => None,
                Err(fault) => self.fault(fault),
            };
        }
        if !self.opened {
            // It had its chance.
            self.open(DEFAULT_WINDOW);
        }
        match frame {
            ClientFrame::Hello(_) => {}
            ClientFrame::Ack(id) => self.settle(id, None),
            ClientFrame::Nack(id, reason) => self.settle(id, Some(reason)),
            ClientFrame::Send { name, trace, message } => {
                let (bus, caller) = (self.bus.clone(), self.caller.clone());
                let submission =
                    Submission::from_json(message.as_bytes(), std::time::Instant::now())
                        .with_trace(trace.map(Arc::new));
                self.pending.push(Box::pin(async move {
                    let receipt = bus.send(caller, submission).await;
                    ServerFrame::Receipt { name, receipt: &receipt }.to_json()
                }));
            }
            ClientFrame::Ping { answer: true, .. } => {}
            ClientFrame::Ping { id, answer: false } => {
                self.say(ServerFrame::Ping { id, answer: true }.to_json());
            }
        }
        None
    }

    fn settle(&mut self, id: MessageId, failed: Option<String>) {
        let acknowledges = failed.is_none();
        match self.remote.settle(&id, failed) {
            Ok(durable) => self.pending.push(Box::pin(settled(id, acknowledges, durable))),
            Err(error) => {
                let said = format!("{}: {error}.", if acknowledges { "ack" } else { "nack" });
                self.say(FrameError::new("not_taken", said).about(id).into_json());
            }
        }
    }

    fn open(&mut self, window: usize) {
        self.opened = true;
        self.remote.open(window);
    }

    /// The client says how it wants the session to be, and hears what holds.
    async fn greet(&mut self, hello: Hello) -> Result<(), FrameError> {
        let window = hello.window.unwrap_or(DEFAULT_WINDOW);
        let longest = self.settings.longest_grace.as_secs();
        let grace = hello.grace_seconds.unwrap_or(0);
        if self.opened {
            let said = "`hello` is the first frame of a client, within a second, or none is sent.";
            return Err(FrameError::new("unexpected", said));
        }
        if !(1..=LARGEST_WINDOW).contains(&window) {
            let said = format!("`window` is a number from 1 to {LARGEST_WINDOW}.");
            return Err(FrameError::new("bad_frame", said));
        }
        if grace > longest {
            let said = format!("`graceSeconds` is a number from 0 to {longest}.");
            return Err(FrameError::new("bad_frame", said));
        }
        if hello.in_hands.is_some() && hello.resume.is_none() {
            return Err(FrameError::new("bad_frame", "`inHands` goes with `resume`."));
        }
        let mut resumed = false;
        if let Some(id) = hello.resume
            && let Some(before) = self.permit.resume(id).await
        {
            std::mem::replace(&mut self.remote, before).give_back();
            resumed = true;
        }
        self.grace = Duration::from_secs(grace);
        self.say_hello(resumed, window);
        if let Some(known) = hello.in_hands {
            // What got lost on the way is not lost.
            let has = |delivery: &&&Delivery| !known.contains(&delivery.message.message_id);
            let again: Vec<_> = self
                .remote
                .in_hands()
                .iter()
                .filter(has)
                .map(|l| Out::Deliver((*l).clone()))
                .collect();
            self.out.extend(again);
        }
        let cancelled = self.remote.cancelled();
        self.out.extend(cancelled.into_iter().map(Out::Cancel));
        self.open(window);
        Ok(())
    }
}

/// Waits until the server stops.
pub(super) async fn stopped(stops: &mut watch::Receiver<bool>) {
    // An error means that nobody is left who could say so.
    let _ = stops.wait_for(|stops| *stops).await;
}

/// The answer to a settlement, when it is durable.
async fn settled(id: MessageId, acknowledges: bool, durable: oneshot::Receiver<()>) -> String {
    match timeout(SETTLE_DEADLINE, durable).await {
        Ok(Ok(())) if acknowledges => ServerFrame::Ack { message_id: id, durable: true }.to_json(),
        Ok(Ok(())) => ServerFrame::Nack { message_id: id, durable: true }.to_json(),
        _ => {
            let said = "The bus could not write that down; the message may come again.";
            FrameError::new("unavailable", said).about(id).into_json()
        }
    }
}
