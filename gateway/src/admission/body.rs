//! Bodies: request bodies with a deadline, and response bodies that track how their reader consumes
//! them.

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

/// Bytes of a response passed to the server at once. A larger chunk would be copied whole and hide
/// a reader that takes it slowly.
const PIECE: usize = 64 << 10;
/// How often an HTTP/2 stream is polled for a reset, which the library does not notify.
const LOOK: Duration = Duration::from_millis(500);

/// A request body with a deadline.
pub(super) struct TimedBody {
    incoming: RequestStream,
    longest: Duration,
    /// Starts when the reader first has to wait for the body.
    late: Option<Pin<Box<Sleep>>>,
}

/// The incoming half of a request, shared by the reader of the body and the watcher of its end.
#[derive(Clone)]
pub(crate) struct RequestStream(Rc<RefCell<Payload>>);

impl TimedBody {
    /// Wraps the body with a deadline; also its incoming half, if there is a body.
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

    /// Resolves when the client resets the stream. Only for a call that reads no more of its body:
    /// further chunks are discarded.
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

/// Response body that keeps its connection busy while it lasts and is written in chunks, so that a
/// stalled reader is detected.
pub struct TrackedBody {
    body: BoxBody,
    /// Rest of a larger chunk.
    rest: Bytes,
    /// Largest chunk; unlimited for streams, which have chunks of their own.
    piece: usize,
    connection: Option<ActiveRequest>,
    /// Bytes that were passed to the server to write.
    handed: usize,
    /// Unread bytes charged to the caller; `None` for small responses and streams.
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
        // The server polls again only when it has written the chunk before.
        if let Some(connection) = &mut this.connection {
            connection.taken();
        }
        let taken = std::mem::take(&mut this.handed);
        if let Some(unread) = this.unread.as_mut().filter(|_| taken > 0) {
            unread.release(taken);
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
