//! One WebSocket connection of an agent: reads frames, writes frames, until either end closes.
//!
//! One `select!` waits for everything, so a request to stop or to hand over the session is served
//! even while the peer stalls. Output is bounded: a message is taken from the bus only when the one
//! before it was written, and nothing is read while too much waits to be written.

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

/// Largest frame: the largest message and its envelope.
pub(super) const FRAME_BYTES: usize = MESSAGE_BYTES + 4_096;
/// Messages in flight when the client states no window.
const DEFAULT_WINDOW: usize = 16;
/// Largest window.
const LARGEST_WINDOW: usize = 256;
/// How long to wait for the client's `hello` before the defaults apply.
const HELLO_WAIT: Duration = Duration::from_secs(1);
/// Pending requests of one connection; beyond that nothing is read.
const MOST_PENDING: usize = 64;
/// Queued frames; beyond that nothing is read.
const MOST_OUT: usize = 64;
/// Invalid frames in a row before the connection is closed.
const MOST_FAULTS: u32 = 16;
/// How long a settlement may wait for the disk before an error is returned.
const SETTLE_DEADLINE: Duration = Duration::from_secs(10);

/// Output queue; a message is serialized only when it is its turn.
enum Out {
    Frame(Message),
    Deliver(Delivery),
    Cancel(Delivery),
}

/// One WebSocket connection of an agent.
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
    /// Whether the client sent `hello`, or its time for that is over.
    opened: bool,
    /// Invalid frames in a row.
    faults: u32,
    /// When the last frame arrived.
    last_frame: Instant,
    /// When the output queue last made progress or was empty.
    last_progress: Instant,
}

/// The parts of a connection.
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
            last_frame: Instant::now(),
            last_progress: Instant::now(),
        }
    }

    /// Runs the connection to its end.
    pub(super) async fn run(mut self) {
        let end = self.serve().await;
        tracing::debug!(agent = %self.agent, session = %self.permit.id(), ?end, "a connection ended");
        end.conclude(self).await;
    }

    async fn serve(&mut self) -> End {
        let shortest = self.settings.silent.min(self.settings.stalled);
        let mut tick = interval((shortest / 3).max(Duration::from_millis(100)));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let until = Instant::now() + HELLO_WAIT;
        self.enqueue_hello(false, DEFAULT_WINDOW);
        loop {
            let reads = self.out.len() < MOST_OUT && self.pending.len() < MOST_PENDING;
            let end = tokio::select! {
                () = stopped(&mut self.stops) => Some(End::Stopping),
                Some(request) = self.permit.requests.recv() => Some(End::TakenOver(request)),
                ready = poll_fn(|cx| Pin::new(&mut self.ws).poll_ready(cx)), if !self.out.is_empty() => {
                    if ready.is_ok() && self.write_next() { None } else { Some(End::Lost) }
                }
                Some(answer) = self.pending.next(), if !self.pending.is_empty() => {
                    self.enqueue_text(answer);
                    None
                }
                mail = self.remote.next(), if self.opened && self.out.is_empty() => match mail {
                    Some(RemoteEvent::Deliver(delivery)) => self.enqueue(Out::Deliver(delivery)),
                    Some(RemoteEvent::Cancel(delivery)) => self.enqueue(Out::Cancel(delivery)),
                    None => Some(End::Stopping),
                },
                frame = self.incoming.recv(), if reads => self.receive(frame).await,
                _ = tick.tick() => self.check_liveness(),
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

    /// Passes the next frame to the socket, which must be ready; `false` when it is closed.
    pub(super) fn write_next(&mut self) -> bool {
        let frame = match self.out.pop_front() {
            None => return true,
            Some(Out::Frame(frame)) => frame,
            Some(Out::Deliver(delivery)) => Message::Text(frame::deliver(&delivery).into()),
            Some(Out::Cancel(delivery)) => Message::Text(frame::cancel(&delivery).into()),
        };
        self.last_progress = Instant::now();
        Pin::new(&mut self.ws).start_send(frame).is_ok()
    }

    /// Writes queued frames and pending answers as long as the peer reads.
    pub(super) async fn flush(&mut self) -> bool {
        loop {
            if self.out.is_empty() {
                match self.pending.next().await {
                    Some(answer) => self.enqueue_text(answer),
                    None => return true,
                }
            }
            let ready = poll_fn(|cx| Pin::new(&mut self.ws).poll_ready(cx)).await;
            if ready.is_err() || !self.write_next() {
                return false;
            }
        }
    }

    fn enqueue(&mut self, out: Out) -> Option<End> {
        self.out.push_back(out);
        None
    }

    fn enqueue_text(&mut self, json: String) {
        self.out.push_back(Out::Frame(Message::Text(json.into())));
    }

    fn enqueue_hello(&mut self, resumed: bool, window: usize) {
        let in_hands =
            self.remote.in_flight_deliveries().iter().map(|l| l.message.message_id).collect();
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
        self.enqueue_text(hello);
    }

    /// Checks liveness and sends a ping.
    fn check_liveness(&mut self) -> Option<End> {
        if self.last_frame.elapsed() >= self.settings.silent {
            return Some(End::Silent);
        }
        if self.out.is_empty() {
            self.last_progress = Instant::now();
        } else if self.last_progress.elapsed() >= self.settings.stalled {
            return Some(End::Stalled);
        }
        self.enqueue(Out::Frame(Message::Ping(Bytes::new())))
    }

    async fn receive(
        &mut self,
        frame: Option<Result<AggregatedMessage, ProtocolError>>,
    ) -> Option<End> {
        let message = match frame {
            None => return Some(End::Lost),
            Some(Err(error)) => {
                let end = End::of(&error);
                if let End::Faulty(_, code, detail) = &end {
                    self.enqueue_text(FrameError::new(code, detail.clone()).into_json());
                }
                return Some(end);
            }
            Some(Ok(message)) => message,
        };
        self.last_frame = Instant::now();
        match message {
            AggregatedMessage::Text(text) => match frame::read(&text) {
                Ok(frame) => {
                    self.faults = 0;
                    self.answer(frame).await
                }
                Err(fault) => self.fault(fault),
            },
            AggregatedMessage::Binary(_) => {
                let detail = "Frames are JSON in text frames; binary ones are not read.";
                self.fault(FrameError::new("binary", detail))
            }
            AggregatedMessage::Ping(data) => self.enqueue(Out::Frame(Message::Pong(data))),
            AggregatedMessage::Pong(_) => None,
            AggregatedMessage::Close(reason) => Some(End::Closed(reason)),
        }
    }

    /// Reports a faulty frame; closes the connection after too many in a row.
    fn fault(&mut self, fault: FrameError) -> Option<End> {
        self.faults += 1;
        self.enqueue_text(fault.into_json());
        if self.faults < MOST_FAULTS {
            return None;
        }
        let detail = format!("{MOST_FAULTS} frames in a row could not be read.");
        self.enqueue_text(FrameError::new("too_many_errors", detail.clone()).into_json());
        Some(End::Faulty(CloseCode::Policy, "too_many_errors", detail))
    }

    async fn answer(&mut self, frame: ClientFrame<'_>) -> Option<End> {
        if let ClientFrame::Hello(hello) = frame {
            return match self.apply_hello(hello).await {
                Ok(()) => None,
                Err(fault) => self.fault(fault),
            };
        }
        if !self.opened {
            // The time for `hello` is over.
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
                self.enqueue_text(ServerFrame::Ping { id, answer: true }.to_json());
            }
        }
        None
    }

    fn settle(&mut self, id: MessageId, failed: Option<String>) {
        let acknowledges = failed.is_none();
        match self.remote.settle(&id, failed) {
            Ok(durable) => self.pending.push(Box::pin(settled(id, acknowledges, durable))),
            Err(error) => {
                let detail = format!("{}: {error}.", if acknowledges { "ack" } else { "nack" });
                self.enqueue_text(FrameError::new("not_taken", detail).about(id).into_json());
            }
        }
    }

    fn open(&mut self, window: usize) {
        self.opened = true;
        self.remote.open(window);
    }

    /// Applies the client's `hello` and responds with what applies.
    async fn apply_hello(&mut self, hello: Hello) -> Result<(), FrameError> {
        let window = hello.window.unwrap_or(DEFAULT_WINDOW);
        let longest = self.settings.longest_grace.as_secs();
        let grace = hello.grace_seconds.unwrap_or(0);
        if self.opened {
            let detail =
                "`hello` is the first frame of a client, within a second, or none is sent.";
            return Err(FrameError::new("unexpected", detail));
        }
        if !(1..=LARGEST_WINDOW).contains(&window) {
            let detail = format!("`window` is a number from 1 to {LARGEST_WINDOW}.");
            return Err(FrameError::new("bad_frame", detail));
        }
        if grace > longest {
            let detail = format!("`graceSeconds` is a number from 0 to {longest}.");
            return Err(FrameError::new("bad_frame", detail));
        }
        if hello.in_hands.is_some() && hello.resume.is_none() {
            return Err(FrameError::new("bad_frame", "`inHands` goes with `resume`."));
        }
        let mut resumed = false;
        if let Some(id) = hello.resume
            && let Some(before) = self.permit.resume(id).await
        {
            std::mem::replace(&mut self.remote, before).release();
            resumed = true;
        }
        self.grace = Duration::from_secs(grace);
        self.enqueue_hello(resumed, window);
        if let Some(kept) = hello.in_hands {
            // Redeliver what was lost with the connection.
            let has = |delivery: &&&Delivery| !kept.contains(&delivery.message.message_id);
            let again: Vec<_> = self
                .remote
                .in_flight_deliveries()
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

/// Resolves when the server stops.
pub(super) async fn stopped(stops: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone.
    let _ = stops.wait_for(|stops| *stops).await;
}

/// The answer to a settlement, when it is durable.
async fn settled(id: MessageId, acknowledges: bool, durable: oneshot::Receiver<()>) -> String {
    match timeout(SETTLE_DEADLINE, durable).await {
        Ok(Ok(())) if acknowledges => ServerFrame::Ack { message_id: id, durable: true }.to_json(),
        Ok(Ok(())) => ServerFrame::Nack { message_id: id, durable: true }.to_json(),
        _ => {
            let detail = "The bus could not write that down; the message may come again.";
            FrameError::new("unavailable", detail).about(id).into_json()
        }
    }
}
