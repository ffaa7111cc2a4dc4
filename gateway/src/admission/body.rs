//! Bodies on their way in and out: one that must come in time, one that is watched until it is
//! taken.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::Payload;
use actix_web::error::PayloadError;
use actix_web::web::Bytes;
use futures_util::Stream;
use tokio::time::Sleep;

use crate::admission::connections::ActiveRequest;
use crate::admission::quota::Share;

/// Bytes of an answer that are handed over at once. All of a larger one would be copied as a whole, and
/// nothing would show that a reader takes it bit by bit.
const PIECE: usize = 64 << 10;
/// How often a stream of HTTP/2 is asked whether its client has reset it: nothing says so.
const LOOK: Duration = Duration::from_millis(500);

/// A request's body that must come in time.
pub(super) struct TimedBody {
    incoming: RequestStream,
    longest: Duration,
    /// Starts when the reader first has to wait for the body.
    late: Option<Pin<Box<Sleep>>>,
}

/// The incoming half of a request, shared between what reads the body and what watches for its
/// end.
#[derive(Clone)]
pub(crate) struct RequestStream(Rc<RefCell<Payload>>);

impl TimedBody {
    /// The same body, if it comes within this time, and its incoming half.
    pub(super) fn within(longest: Duration, payload: Payload) -> (Payload, Option<RequestStream>) {
        match payload {
            Payload::None => (Payload::None, None),
            payload => {
                let incoming = RequestStream(Rc::new(RefCell::new(payload)));
                let watched = incoming.clone();
                let body = Self { incoming, longest, late: None };
                (Payload::Stream { payload: Box::pin(body) }, Some(watched))
            }
        }
    }
}

impl RequestStream {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, PayloadError>>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_next(cx)
    }

    /// Ends when the client has reset the stream. Only for a call that reads no more of its body:
    /// what comes of it is thrown away.
    pub(crate) async fn until_reset(&self) {
        let mut ticks = tokio::time::interval(LOOK);
        loop {
            ticks.tick().await;
            let mut cx = Context::from_waker(Waker::noop());
            while let Poll::Ready(Some(piece)) = self.poll(&mut cx) {
                if piece.is_err() {
                    return;
                }
            }
        }
    }
}

impl Stream for TimedBody {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if let Poll::Ready(ready) = this.incoming.poll(cx) {
            return Poll::Ready(ready);
        }
        let longest = this.longest;
        let late = this.late.get_or_insert_with(|| Box::pin(tokio::time::sleep(longest)));
        late.as_mut().poll(cx).map(|()| {
            let seconds = longest.as_secs_f64();
            let late = format!("the body took longer than {seconds} s");
            Some(Err(PayloadError::Io(io::Error::new(io::ErrorKind::TimedOut, late))))
        })
    }
}

/// The body of an answer, which keeps its connection open while it lasts. It is handed over in
/// pieces, so that one that is not taken shows.
pub struct TrackedBody {
    body: BoxBody,
    /// What is left of a larger piece.
    rest: Bytes,
    /// The most that is handed over at once: a stream has pieces of its own.
    piece: usize,
    connection: Option<ActiveRequest>,
    /// Bytes that were handed over to be written.
    handed: usize,
    /// What is not taken yet, as the caller is charged for it.
    unread: Option<Share>,
}

impl TrackedBody {
    pub(super) fn new(
        body: BoxBody,
        connection: Option<ActiveRequest>,
        unread: Option<Share>,
    ) -> Self {
        let piece = match body.size() {
            BodySize::Stream => usize::MAX,
            _ => PIECE,
        };
        Self { body, rest: Bytes::new(), piece, handed: 0, connection, unread }
    }
}

impl MessageBody for TrackedBody {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let this = &mut *self;
        // The server asks for more only when it has got rid of what it had.
        if let Some(connection) = &mut this.connection {
            connection.taken();
        }
        let taken = std::mem::take(&mut this.handed);
        if let Some(unread) = this.unread.as_mut().filter(|_| taken > 0) {
            unread.give_back(taken);
        }
        if this.rest.is_empty() {
            match ready!(Pin::new(&mut this.body).poll_next(cx)) {
                Some(Ok(chunk)) => this.rest = chunk,
                over => return Poll::Ready(over),
            }
        }
        let piece = this.rest.split_to(this.rest.len().min(this.piece));
        this.handed = piece.len();
        if let Some(connection) = &mut this.connection {
            connection.hand_over();
        }
        Poll::Ready(Some(Ok(piece)))
    }
}
