//! `openclaw-a2a log --follow`: what was, then what happens, until somebody stops it.
//!
//! It outlives the server: when that stops, it waits for the next one and goes on where it was.

use a2a_journal::Query;
use anyhow::bail;
use chrono::Utc;

use super::list::{each, write_line};
use super::source::Source;
use super::{Out, journal::OwnJournal};
use crate::cli::place::{Found, LOOK, Place, STARTING};
use crate::cli::server::Server;
use crate::cli::stdout::note;
use crate::cli::{Answer, Format};

pub(super) fn run(
    place: &Place,
    query: &Query,
    limit: u64,
    format: Format,
    out: &mut Out,
) -> anyhow::Result<Answer> {
    let mut server = wait(place, &mut |found| matches!(found, Found::Nobody))?;
    let mut last = match &mut server {
        Some(server) => history(server, query, limit, format, out)?,
        None => {
            place.must_exist()?;
            history(&mut OwnJournal::new(place), query, limit, format, out)?
        }
    };
    if server.is_none() {
        note("no server is running; waiting for one");
    }
    loop {
        let found = match server.take() {
            Some(server) => Some(server),
            None => wait(place, &mut |_| is_over(query))?,
        };
        let Some(found) = found else { return Ok(Answer::Yes) };
        last = stream(&found, query, last, format, out)?;
        if is_over(query) {
            return Ok(Answer::Yes);
        }
        note("the server has stopped; waiting for it to come back");
    }
}

fn is_over(query: &Query) -> bool {
    query.until.is_some_and(|until| Utc::now() >= until)
}

/// Waits until there is a server, or until `is_enough`.
fn wait(
    place: &Place,
    is_enough: &mut dyn FnMut(&Found) -> bool,
) -> anyhow::Result<Option<Server>> {
    let mut silent = 0;
    loop {
        match place.look()? {
            (Found::Server(server), _) => return Ok(Some(server)),
            (found, _) if is_enough(&found) => return Ok(None),
            (Found::Nobody, _) => silent = 0,
            (Found::Silent, why) => {
                silent += 1;
                if silent == STARTING {
                    bail!(
                        "{why}. It cannot be followed; start that server anew, or read {}",
                        place.state.path().join("a2a-log").display()
                    );
                }
            }
        }
        std::thread::sleep(LOOK);
    }
}

/// Shows the newest records, oldest first; returns the line after which to go on.
fn history(
    source: &mut dyn Source,
    query: &Query,
    limit: u64,
    format: Format,
    out: &mut Out,
) -> anyhow::Result<u64> {
    let head = source.head()?.seq;
    let query = Query { before: Some(head.saturating_add(1)), ..query.clone() };
    let mut records = Vec::new();
    each(source, &query, limit, |record| {
        records.push(record);
        Ok(())
    })?;
    for record in records.iter().rev() {
        write_line(record, format, out)?;
    }
    out.flush()?;
    Ok(head)
}

/// Shows what comes until the server ends the stream; returns the last line seen.
fn stream(
    server: &Server,
    query: &Query,
    last: u64,
    format: Format,
    out: &mut Out,
) -> anyhow::Result<u64> {
    // It may stop between answering and streaming; then there is nothing to show yet.
    let mut events = match server.stream(query, last) {
        Ok(events) => events,
        Err(error) if error.downcast_ref::<ureq::Error>().is_some() => return Ok(last),
        Err(error) => return Err(error),
    };
    while let Some(line) = events.next() {
        write_line(&line, format, out)?;
        out.flush()?;
    }
    Ok(events.last)
}
