//! Events of a task as server-sent events.
//!
//! The buffer of a reader is bounded: one that stalls is disconnected, and can resume with the `id`
//! of the last event it got.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use a2a_actors::tasks::{TaskEvent, TaskStream};
use a2a_protocol::fault::Fault;
use a2a_protocol::wire::Method;
use actix_web::web::Bytes;
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};
use futures_util::{Stream, StreamExt, stream};

use crate::admission::connections::until_left;
use crate::admission::quota::{Quotas, Share};
use crate::auth::A2aCaller;

/// A comment, which readers ignore.
const STILL_HERE: Bytes = Bytes::from_static(b": still here\n\n");

/// An open stream.
pub(super) struct EventStream<W> {
    events: TaskStream,
    /// Serializes an event; `None` for one that is not visible to the caller.
    write: W,
    keep_alive: Duration,
    over: bool,
    /// Resolves when the caller has left or its token is revoked.
    left: Pin<Box<dyn Future<Output = ()>>>,
    _share: Option<Share>,
}

impl<W: Fn(&TaskEvent) -> Option<String> + 'static> EventStream<W> {
    pub(super) fn new(
        events: TaskStream,
        write: W,
        keep_alive: Duration,
        share: Option<Share>,
        caller: A2aCaller,
        request: &HttpRequest,
    ) -> Self {
        let gone = until_left(request);
        let left = Box::pin(async move {
            tokio::select! {
                () = caller.until_revoked() => {}
                () = gone => {}
            }
        });
        Self { events, write, keep_alive, over: false, left, _share: share }
    }

    async fn next(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        let Self { events, left, keep_alive, .. } = self;
        let next = tokio::select! {
            next = tokio::time::timeout(*keep_alive, events.next()) => next,
            () = left => return None,
        };
        match next {
            Err(_) => Some(STILL_HERE),
            Ok(None) => None,
            Ok(Some(happened)) => {
                self.over = happened.last;
                match (self.write)(&happened) {
                    Some(data) => Some(format!("id: {}\ndata: {data}\n\n", happened.number).into()),
                    None if happened.last => None,
                    // A caller that sees none of many events still needs a keep-alive.
                    None => Some(STILL_HERE),
                }
            }
        }
    }
}

/// A share of the open streams, if the method streams.
pub(super) fn stream_share(
    method: Method,
    quotas: &Quotas,
    caller: &A2aCaller,
) -> Result<Option<Share>, Fault> {
    if !method.streams() {
        return Ok(None);
    }
    Ok(Some(quotas.streams.take(caller.counted_as(), 1)?))
}

/// A stream with a single event.
pub(super) fn one_event(data: &str) -> HttpResponse {
    let mut response = HttpResponse::Ok();
    as_stream(&mut response).body(format!("data: {data}\n\n"))
}

fn as_stream(response: &mut HttpResponseBuilder) -> &mut HttpResponseBuilder {
    response
        .content_type("text/event-stream")
        .insert_header(("cache-control", "no-store"))
        .insert_header(("x-accel-buffering", "no"))
}

/// A streaming response, until the task is at rest or the reader leaves.
pub(super) fn response<W: Fn(&TaskEvent) -> Option<String> + 'static>(
    mut response: HttpResponseBuilder,
    open: EventStream<W>,
) -> HttpResponse {
    as_stream(&mut response).streaming(body(open))
}

fn body<W: Fn(&TaskEvent) -> Option<String> + 'static>(
    open: EventStream<W>,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold(open, |mut open| async move {
        let chunk = open.next().await?;
        Some((Ok(chunk), open))
    })
}
