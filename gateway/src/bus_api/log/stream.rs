//! `GET /bus/log/stream`: the log as it grows, as server-sent events.
//!
//! A reader holds nothing but its place in the journal and a chunk or two. When it is slow it
//! falls behind, and when it takes nothing at all it is cut off; the bus never waits for it.

use crate::openapi::{Operation, number};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use a2a_actors::BusSystem;
use a2a_journal::{Read, ReadError};
use actix_web::http::StatusCode;
use actix_web::http::header::HeaderValue;
use actix_web::{HttpRequest, HttpResponse, get, web};
use chrono::Utc;
use tokio::sync::{mpsc, watch};

use super::filter::{LineHeader, LogFilter};
use super::query::read_query;
use super::{LogSettings, Parameters, bad_parameter, filtered, unreadable};
use crate::admission::connections::until_left;
use crate::admission::quota::Quotas;
use crate::auth::BusCaller;
use crate::problem::refuse;

/// How often an idle stream shows that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Lines read at once.
const LINES: usize = 256;
/// Bytes of lines read at once, but for the last: little is held for a reader that is slow.
const BYTES: usize = 256 << 10;
/// Records whose verdict is remembered for their events.
const REMEMBERED: usize = 10_000;

#[get("/bus/log/stream")]
pub(crate) async fn stream(
    who: BusCaller,
    request: HttpRequest,
    parameters: Parameters,
    bus: web::Data<BusSystem>,
    settings: web::Data<LogSettings>,
    quotas: web::Data<Quotas>,
) -> actix_web::Result<HttpResponse> {
    who.must_be_a_person()?;
    let pairs = parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let query = read_query(pairs, Utc::now(), false).map_err(|bad| bad_parameter(&bad))?;
    let last = last_event_id(&request)?;
    let Ok(follower) = Arc::clone(&settings.streams).try_acquire_owned() else {
        let detail = "Too many follow the log already. Try again when one of them has left.";
        return Err(refuse(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail));
    };
    let shares = (follower, quotas.streams.take(who.owner(), 1)?);
    // Before the head is read: what is written from here on is not missed.
    let head = bus.head_changes();
    let (reader, since) = (bus.reader(), query.since);
    let start = web::block(move || match (last, since) {
        // A place beyond the end is one of another log; waiting for it would take for ever.
        (Some(last), _) => Ok(last.min(reader.head().seq)),
        (None, Some(since)) => reader.last_before(since),
        (None, None) => Ok(reader.head().seq),
    });
    let last = start.await.map_err(|_| unreadable(&ReadError::Closed))?;
    let last = last.map_err(|error| unreadable(&error))?;
    let wanted = LogFilter::of(&query);
    let settings_of = settings.clone();
    let follower = Follower {
        reader: bus.reader(),
        wanted,
        last,
        seen: HashMap::new(),
        settings: settings_of,
    };
    let (out, chunks) = mpsc::channel(1);
    let running = run(follower, head, Outlet { out, stalled: settings.stalled });
    let left = until_left(&request);
    actix_web::rt::spawn(async move {
        let _shares = shares;
        tokio::select! {
            () = running => {}
            () = left => {}
            // Whoever is no longer let in sees nothing more.
            () = who.until_revoked() => {}
        }
    });
    let body = futures_util::stream::unfold(chunks, |mut chunks| async move {
        let chunk: web::Bytes = chunks.recv().await?;
        Some((Ok::<_, Infallible>(chunk), chunks))
    });
    Ok(HttpResponse::Ok()
        .content_type("text/event-stream")
        .insert_header(("cache-control", "no-store"))
        .streaming(body))
}

fn last_event_id(request: &HttpRequest) -> actix_web::Result<Option<u64>> {
    let seen = last_seen(request.headers().get("last-event-id"));
    seen.map_err(|detail| refuse(StatusCode::BAD_REQUEST, "bad_request", detail))
}

/// The number that `Last-Event-ID` says, or what is wrong with it.
pub(crate) fn last_seen(value: Option<&HeaderValue>) -> Result<Option<u64>, &'static str> {
    let text = value.map(|value| value.to_str().unwrap_or_default().trim());
    let number = text.filter(|text| !text.is_empty()).map(str::parse).transpose();
    number.map_err(|_| "`Last-Event-ID` must be the `id` of an earlier event: a number.")
}

/// Reads the journal from a place on; its calls block.
struct Follower {
    reader: Arc<dyn Read>,
    wanted: LogFilter,
    /// The last line that was looked at.
    last: u64,
    /// Records that were looked at, and whether they are wanted.
    seen: HashMap<u64, bool>,
    settings: web::Data<LogSettings>,
}

/// What one look found.
struct Found {
    events: Vec<u8>,
    /// Whether there may be more.
    goes_on: bool,
}

impl Follower {
    fn look(&mut self) -> Result<Found, ReadError> {
        let lines = self.reader.lines(self.last, LINES, BYTES)?;
        let mut found = Found { events: Vec::new(), goes_on: !lines.is_empty() };
        let redaction = self.settings.redaction();
        for line in lines {
            let Ok(glance) = serde_json::from_str::<LineHeader>(line.get()) else { continue };
            self.last = glance.seq;
            if self.wants(&glance, line.get()) {
                let text = redaction.apply(line.get().to_owned());
                found.events.extend_from_slice(format!("id: {}\ndata: ", glance.seq).as_bytes());
                found.events.extend_from_slice(text.as_bytes());
                found.events.extend_from_slice(b"\n\n");
            }
        }
        Ok(found)
    }

    fn wants(&mut self, glance: &LineHeader, line: &str) -> bool {
        if self.wanted.is_everything() {
            return true;
        }
        if self.seen.len() >= REMEMBERED {
            self.seen.clear();
        }
        let Self { wanted, seen, reader, .. } = self;
        if glance.event.is_none() {
            let is_wanted = wanted.wants_record(line);
            seen.insert(glance.seq, is_wanted);
            return is_wanted;
        }
        wanted.wants_event(glance, |of| {
            *seen.entry(of).or_insert_with(|| {
                let record = reader.record(of).ok().flatten();
                record.is_some_and(|record| wanted.wants_record(record.get()))
            })
        })
    }
}

/// The way out to the reader.
struct Outlet {
    out: mpsc::Sender<web::Bytes>,
    stalled: Duration,
}

impl Outlet {
    /// Whether the reader takes it in time.
    async fn give(&self, chunk: impl Into<web::Bytes>) -> bool {
        match tokio::time::timeout(self.stalled, self.out.send(chunk.into())).await {
            Ok(sent) => sent.is_ok(),
            Err(_) => {
                let seconds = self.stalled.as_secs();
                tracing::warn!("a reader of the log took nothing for {seconds} s and was cut off");
                false
            }
        }
    }
}

/// Runs until the reader has left, is cut off, or the bus has stopped.
async fn run(mut follower: Follower, mut head: watch::Receiver<u64>, outlet: Outlet) {
    // The place is told at once: who is cut off before the first line comes back to it.
    if !outlet.give(format!("retry: 1000\nid: {}\n\n", follower.last)).await {
        return;
    }
    loop {
        // Asked before looking, or a line that is just in time could be missed. Not of the
        // lines: after one that is too late the clock may have been set back.
        let is_over = follower.wanted.is_over(Utc::now());
        head.mark_unchanged();
        loop {
            let looked = web::block(move || {
                let found = follower.look();
                (follower, found)
            });
            let Ok((back, found)) = looked.await else { return };
            follower = back;
            let found = match found {
                Ok(found) => found,
                Err(ReadError::Closed) => return,
                Err(error) => {
                    tracing::error!(%error, "the log could not be read for one who follows it");
                    return;
                }
            };
            if !found.events.is_empty() && !outlet.give(found.events).await {
                return;
            }
            if !found.goes_on {
                break;
            }
        }
        if is_over {
            return;
        }
        tokio::select! {
            changed = head.changed() => if changed.is_err() { return },
            () = outlet.out.closed() => return,
            () = tokio::time::sleep(KEEP_ALIVE) => {
                if !outlet.give(format!("id: {}\n\n", follower.last)).await {
                    return;
                }
            }
        }
    }
}

/// Description of the route above for the OpenAPI document.
pub(crate) fn operation() -> Operation {
    filtered(Operation::new("GET", "/bus/log/stream", "followLog", "log", "Follow the log as it grows"))
        .header("Last-Event-ID", number(), "Continue after this line")
        .events("Lines, from now on or from `since`", "`id`: the number of the line; `data`: the line, a Record or an Event. An event without data every 15 seconds.")
        .problems(&[500])
}
