//! Bodies on their way in and out: one that must come in time, one that counts while it lasts.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::Payload;
use actix_web::error::PayloadError;
use actix_web::web::Bytes;
use futures_util::Stream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;

use crate::gateway::connections::Busy;

/// A request's body that must come in time.
pub(super) struct Deadlined {
    payload: Payload,
    longest: Duration,
    /// Starts when somebody first has to wait for the body.
    late: Option<Pin<Box<Sleep>>>,
}

impl Deadlined {
    /// The same body, if it comes within this time.
    pub(super) fn within(longest: Duration, payload: Payload) -> Payload {
        match payload {
            Payload::None => Payload::None,
            payload => Payload::Stream { payload: Box::pin(Self { payload, longest, late: None }) },
        }
    }
}

impl Stream for Deadlined {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if let Poll::Ready(ready) = Pin::new(&mut this.payload).poll_next(cx) {
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

/// What is taken while an answer is made and written.
#[derive(Debug)]
pub(super) struct Held {
    _connection: Option<Busy>,
    _room: Option<OwnedSemaphorePermit>,
}

impl Held {
    pub(super) fn new(connection: Option<Busy>, room: Option<OwnedSemaphorePermit>) -> Self {
        Self { _connection: connection, _room: room }
    }
}

/// The body of an answer, which keeps its connection open and its room taken while it lasts.
pub struct Tracked {
    body: BoxBody,
    held: Held,
}

impl Tracked {
    pub(super) fn new(body: BoxBody, held: Held) -> Self {
        Self { body, held }
    }
}

impl MessageBody for Tracked {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.body).poll_next(cx)
    }

    fn try_into_bytes(self) -> Result<Bytes, Self> {
        let Self { body, held } = self;
        body.try_into_bytes().map_err(|body| Self { body, held })
    }
}
