//! `openclaw-a2a log --follow`: prints recent records, then new ones as they are written.
//!
//! It reconnects when the server restarts and continues after the last record.

use a2a_journal::Query;
use anyhow::bail;
use chrono::Utc;

use super::Out;
use super::list::{each, write_line};
use super::source::{OwnJournal, Source};
use crate::cli::server::Server;
use crate::cli::server_locator::{Located, MAX_POLLS, POLL_INTERVAL, ServerLocator};
use crate::cli::stdout::note;
use crate::cli::{Answer, Format};

pub(super) fn run(
    locator: &ServerLocator,
    query: &Query,
    limit: u64,
    format: Format,
    out: &mut Out,
) -> anyhow::Result<Answer> {
    let mut server = wait(locator, &mut |found| matches!(found, Located::NotRunning))?;
    let mut last = match &mut server {
        Some(server) => history(server, query, limit, format, out)?,
        None => {
            locator.require_log()?;
            history(&mut OwnJournal::new(locator), query, limit, format, out)?
        }
    };
    if server.is_none() {
        note("no server is running; waiting for one");
    }
    loop {
        let found = match server.take() {
            Some(server) => Some(server),
            None => wait(locator, &mut |_| is_over(query))?,
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

/// Polls until a server is found, or until `is_enough` returns true.
fn wait(
    locator: &ServerLocator,
    is_enough: &mut dyn FnMut(&Located) -> bool,
) -> anyhow::Result<Option<Server>> {
    let mut silent = 0;
    loop {
        match locator.locate()? {
            (Located::Server(server), _) => return Ok(Some(server)),
            (found, _) if is_enough(&found) => return Ok(None),
            (Located::NotRunning, _) => silent = 0,
            (Located::Unresponsive, why) => {
                silent += 1;
                if silent == MAX_POLLS {
                    bail!(
                        "{why}. It cannot be followed; start that server anew, or read {}",
                        locator.state.path().join("a2a-log").display()
                    );
                }
            }
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Prints the newest records, oldest first. Returns the sequence number to continue after.
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

/// Prints records until the server ends the stream. Returns the last sequence number.
fn stream(
    server: &Server,
    query: &Query,
    last: u64,
    format: Format,
    out: &mut Out,
) -> anyhow::Result<u64> {
    // The server may stop between the health check and the stream.
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
