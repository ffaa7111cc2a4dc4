//! `GET /bus/log/stream`: follows the log as server-sent events.
//!
//! A follower holds only its position in the journal and a chunk or two. A slow one falls behind, a
//! stalled one is disconnected; the bus never waits for it.

use crate::openapi::{Operation, number};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use a2a_actors::BusSystem;
use a2a_journal::{JournalReader, ReadError};
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

/// Interval of keep-alives on an idle stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Lines per read.
const LINES: usize = 256;
/// Bytes per read, except for the last line, so that little is buffered for a slow reader.
const BYTES: usize = 256 << 10;
/// Records whose match is cached for their events.
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
    // Subscribed before the head is read, so that no line is missed.
    let head = bus.head_changes();
    let (reader, since) = (bus.reader(), query.since);
    let start = web::block(move || match (last, since) {
        // A position beyond the end belongs to another log; waiting for it would never end.
        (Some(last), _) => Ok(last.min(reader.head().seq)),
        (None, Some(since)) => reader.last_before(since),
        (None, None) => Ok(reader.head().seq),
    });
    let last = start.await.map_err(|_| unreadable(&ReadError::Closed))?;
    let last = last.map_err(|error| unreadable(&error))?;
    let filter = LogFilter::of(&query);
    let settings_of = settings.clone();
    let follower = Follower {
        reader: bus.reader(),
        filter,
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
            // A revoked token ends the stream.
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

/// Parses `Last-Event-ID`.
pub(crate) fn last_seen(value: Option<&HeaderValue>) -> Result<Option<u64>, &'static str> {
    let text = value.map(|value| value.to_str().unwrap_or_default().trim());
    let number = text.filter(|text| !text.is_empty()).map(str::parse).transpose();
    number.map_err(|_| "`Last-Event-ID` must be the `id` of an earlier event: a number.")
}

/// Reads the journal from a position on; its calls block.
struct Follower {
    reader: Arc<dyn JournalReader>,
    filter: LogFilter,
    /// The last line that was read.
    last: u64,
    /// Cache: records that were read, and whether they match.
    seen: HashMap<u64, bool>,
    settings: web::Data<LogSettings>,
}

/// Result of one read.
struct Found {
    events: Vec<u8>,
    /// Whether there may be more.
    has_more: bool,
}

impl Follower {
    fn read(&mut self) -> Result<Found, ReadError> {
        let lines = self.reader.lines(self.last, LINES, BYTES)?;
        let mut found = Found { events: Vec::new(), has_more: !lines.is_empty() };
        let redaction = self.settings.redaction();
        for line in lines {
            let Ok(header) = serde_json::from_str::<LineHeader>(line.get()) else { continue };
            self.last = header.seq;
            if self.matches(&header, line.get()) {
                let text = redaction.apply(line.get().to_owned());
                found.events.extend_from_slice(format!("id: {}\ndata: ", header.seq).as_bytes());
                found.events.extend_from_slice(text.as_bytes());
                found.events.extend_from_slice(b"\n\n");
            }
        }
        Ok(found)
    }

    fn matches(&mut self, header: &LineHeader, line: &str) -> bool {
        if self.filter.matches_everything() {
            return true;
        }
        if self.seen.len() >= REMEMBERED {
            self.seen.clear();
        }
        let Self { filter, seen, reader, .. } = self;
        if header.event.is_none() {
            let is_wanted = filter.matches_record(line);
            seen.insert(header.seq, is_wanted);
            return is_wanted;
        }
        filter.matches_event(header, |of| {
            *seen.entry(of).or_insert_with(|| {
                let record = reader.record(of).ok().flatten();
                record.is_some_and(|record| filter.matches_record(record.get()))
            })
        })
    }
}

/// The sending half of the response.
struct Outlet {
    out: mpsc::Sender<web::Bytes>,
    stalled: Duration,
}

impl Outlet {
    /// Sends a chunk; `false` if the reader stalls or has left.
    async fn send(&self, chunk: impl Into<web::Bytes>) -> bool {
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

/// Runs until the reader has left or stalled, or the bus has stopped.
async fn run(mut follower: Follower, mut head: watch::Receiver<u64>, outlet: Outlet) {
    // The position is sent at once: a client disconnected before the first line resumes from it.
    if !outlet.send(format!("retry: 1000\nid: {}\n\n", follower.last)).await {
        return;
    }
    loop {
        // Evaluated before the read, or a line that is just in time could be missed. Not from the
        // time of lines: after one that is too late the clock may have been set back.
        let is_over = follower.filter.is_over(Utc::now());
        head.mark_unchanged();
        loop {
            let read = web::block(move || {
                let found = follower.read();
                (follower, found)
            });
            let Ok((back, found)) = read.await else { return };
            follower = back;
            let found = match found {
                Ok(found) => found,
                Err(ReadError::Closed) => return,
                Err(error) => {
                    tracing::error!(%error, "the log could not be read for one who follows it");
                    return;
                }
            };
            if !found.events.is_empty() && !outlet.send(found.events).await {
                return;
            }
            if !found.has_more {
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
                if !outlet.send(format!("id: {}\n\n", follower.last)).await {
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
