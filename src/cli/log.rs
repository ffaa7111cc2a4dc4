//! `openclaw-a2a log`: searches, follows and verifies the message log.
//!
//! Each sub-command reads from a [`source::Source`]: a running server, the journal, or the day
//! files. The sub-commands do not depend on which.

mod follow;
mod list;
mod rebuild;
mod record;
mod record_assembler;
mod show;
mod source;
mod thread;
pub(super) mod verify;

use a2a_gateway::log::read_query;
use a2a_journal::{Head, Query};
use a2a_protocol::CorrelationId;
use chrono::{DateTime, Datelike, Utc};

use super::server_locator::ServerLocator;
use super::{Answer, Format, Global, duration};

/// Default number of records without --limit and --since.
const NEWEST: u64 = 50;

/// Search, follow and verify the message log
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a log                                   the newest 50 messages, newest first
  openclaw-a2a log --agent tim --since 2h            all that tim sent or got in the last two hours
  openclaw-a2a log --outcome forbidden --limit 0     everything that was forbidden
  openclaw-a2a log --follow --text 'release notes'   from now on, as it happens
  openclaw-a2a log --format jsonl --since yesterday | jq .message.payload
  openclaw-a2a log thread 0192a4c8-7e1a-7b3c-9d4e-000000000002
  openclaw-a2a log show 0192a4c8-7e1a-7b3c-9d4e-000000000001
  openclaw-a2a log verify --head 1042:9f86d081…

Times are UTC: a timestamp, a day (2026-02-21, today, yesterday), or how long ago (90s, 15m, 2h, 3d, 1h30m).
A running server is asked (see a2a.addr in the state folder); without one the journal is read.

Exit codes: 0 success, 1 the log was tampered with (verify) or has no such message, 2 it could not be read.")]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,

    #[command(flatten)]
    filter: Filter,

    /// Number of newest records; 0 for all [default: 50, with --since all, with --follow 10]
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u64>,

    /// Follow new records, oldest first
    #[arg(long, short)]
    follow: bool,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Draw one conversation as a sequence of messages between its participants
    #[command(
        after_help = "Example:\n  openclaw-a2a log thread 0192a4c8-7e1a-7b3c-9d4e-000000000002"
    )]
    Thread {
        /// The conversation's correlationId
        correlation: CorrelationId,
    },
    /// Show one message and every step of its delivery
    #[command(
        after_help = "Examples:\n  openclaw-a2a log show 0192a4c8-7e1a-7b3c-9d4e-000000000001\n  openclaw-a2a log show 17      by the number that `log` shows"
    )]
    Show {
        /// Message id, or sequence number of its record
        message: String,
    },
    /// Verify that no line of the log was changed, removed, inserted or moved
    #[command(after_help = "\
Examples:
  openclaw-a2a log verify
  openclaw-a2a log verify --head 1042:9f86d081…    the log must still hold this line

Checks the files and the index, with or without a running server. A head that you noted
elsewhere (`openclaw-a2a log head`) also proves that the end was not cut off and the log not rewritten.

Exit codes: 0 whole, 1 tampered with (the first bad line is named), 2 it could not be read.")]
    Verify {
        /// A head noted earlier; may be given several times
        #[arg(long = "head", value_name = "SEQ:HASH")]
        heads: Vec<Head>,
    },
    /// Print the number and hash of the last line, to keep elsewhere and pass to verify
    Head,
    /// Rebuild missing day files from the index
    #[command(after_help = "\
Example:
  openclaw-a2a log rebuild

Only while no server runs. Every line is checked on the way; files that are there are left alone, and days
that were removed for their age do not come back. Lines that the index lacks are not made up.

Exit codes: 0 every day that the index holds has its file, 2 it could not be done.")]
    Rebuild,
}

/// Conditions on records; all must match.
#[derive(clap::Args)]
struct Filter {
    /// Sent by or to this agent
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Kind of message, such as task_request
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// From this time on: a timestamp, a day, or how long ago (2h, 3d, yesterday)
    #[arg(long, value_name = "T")]
    since: Option<String>,
    /// Before this time
    #[arg(long, value_name = "T")]
    until: Option<String>,
    /// Conversation
    #[arg(long, value_name = "ID")]
    correlation: Option<String>,
    /// Task
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// Outcome, such as delivered or forbidden
    #[arg(long, value_name = "O")]
    outcome: Option<String>,
    /// Words that all occur in the record, in any case
    #[arg(long, value_name = "WORDS")]
    text: Option<String>,
}

impl Filter {
    fn query(&self) -> anyhow::Result<Query> {
        let parameters = [
            ("agent", &self.agent),
            ("type", &self.kind),
            ("since", &self.since),
            ("until", &self.until),
            ("correlation", &self.correlation),
            ("task", &self.task),
            ("outcome", &self.outcome),
            ("text", &self.text),
        ];
        let now = Utc::now();
        let given: Vec<_> = parameters
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_deref()?)))
            .map(|(name, value)| match name {
                "since" | "until" => (name, point_in_time(value, now)),
                // As for `send`, a kind may be written with `-`.
                "type" => (name, value.replace('-', "_")),
                _ => (name, value.to_owned()),
            })
            .collect();
        let given = given.iter().map(|(name, value)| (*name, value.as_str()));
        let query = read_query(given, now, true);
        query.map_err(|bad| anyhow::anyhow!("--{}: {}", bad.name, bad.problem))
    }
}

/// Turns a duration into the time that long ago; other texts are left to the query.
fn point_in_time(text: &str, now: DateTime<Utc>) -> String {
    let ago = duration::ago(now, text).filter(|time| time.year() > 0);
    ago.map_or_else(|| text.to_owned(), |time| time.to_rfc3339())
}

impl Args {
    /// Refuses filters before a sub-command, which would be ignored. clap's own check would also
    /// refuse global options there.
    fn must_fit(&self) -> anyhow::Result<()> {
        let Filter { agent, kind, since, until, correlation, task, outcome, text } = &self.filter;
        let filters = [agent, kind, since, until, correlation, task, outcome, text];
        let is_filtered =
            self.follow || self.limit.is_some() || filters.iter().any(|f| f.is_some());
        if self.verb.is_some() && is_filtered {
            anyhow::bail!(
                "filters, --limit and --follow are for `log` itself; leave them out here"
            );
        }
        Ok(())
    }
}

use super::stdout::Out;

pub(super) fn run(args: &Args, global: &Global) -> anyhow::Result<Answer> {
    args.must_fit()?;
    let locator = ServerLocator::from_options(global)?;
    let format = global.format;
    let mut out = super::stdout::output(format);
    match &args.verb {
        None => {
            let query = args.filter.query()?;
            if args.follow {
                follow::run(&locator, &query, args.limit.unwrap_or(10), format, &mut out)
            } else {
                // With --since the whole range is wanted.
                let all = args.limit.is_none() && args.filter.since.is_some();
                let limit = args.limit.unwrap_or(if all { 0 } else { NEWEST });
                let is_default = args.limit.is_none() && !all;
                let mut source = locator.open_source()?;
                list::run(source.as_mut(), &query, limit, is_default, format, &mut out)
            }
        }
        Some(Verb::Thread { correlation }) => {
            thread::run(locator.open_source()?.as_mut(), *correlation, format, &mut out)
        }
        Some(Verb::Show { message }) => {
            show::run(locator.open_source()?.as_mut(), message, format, &mut out)
        }
        Some(Verb::Verify { heads }) => verify::run(&locator, heads, format, &mut out),
        Some(Verb::Rebuild) => rebuild::run(&locator, format, &mut out),
        Some(Verb::Head) => verify::head(locator.open_source()?.as_mut(), format, &mut out),
    }
}

/// Whether the output is JSON.
fn is_for_programs(format: Format) -> bool {
    format != Format::Text
}
