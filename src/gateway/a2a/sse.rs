//! Events of a task as a stream of server-sent events.
//!
//! A reader that does not read is not waited for: what waits for it is bounded, then it is cut
//! off, and it can ask on with the `id` of the last event it got.

use std::convert::Infallible;
use std::time::Duration;

use a2a_actors::tasks::{Happened, TaskStream};
use actix_web::web::Bytes;
use actix_web::{HttpResponse, HttpResponseBuilder};
use futures_util::{Stream, StreamExt, stream};
use tokio::sync::OwnedSemaphorePermit;

/// What an open stream holds on to.
struct Open<W> {
    events: TaskStream,
    write: W,
    keep_alive: Duration,
    over: bool,
    _place: OwnedSemaphorePermit,
}

/// A response that goes on until the task rests or the reader leaves. `write` makes the data of
/// an event.
pub(super) fn response(
    mut response: HttpResponseBuilder,
    events: TaskStream,
    write: impl Fn(&Happened) -> String + 'static,
    keep_alive: Duration,
    place: OwnedSemaphorePermit,
) -> HttpResponse {
    response
        .content_type("text/event-stream")
        .insert_header(("cache-control", "no-store"))
        .insert_header(("x-accel-buffering", "no"))
        .streaming(body(Open { events, write, keep_alive, over: false, _place: place }))
}

fn body<W: Fn(&Happened) -> String + 'static>(
    open: Open<W>,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold(open, |mut open| async move {
        if open.over {
            return None;
        }
        let chunk = match tokio::time::timeout(open.keep_alive, open.events.next()).await {
            Err(_) => Bytes::from_static(b": still here\n\n"),
            Ok(None) => return None,
            Ok(Some(happened)) => {
                open.over = happened.last;
                let data = (open.write)(&happened);
                format!("id: {}\ndata: {data}\n\n", happened.number).into()
            }
        };
        Some((Ok(chunk), open))
    })
}
