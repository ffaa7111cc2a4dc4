//! `openclaw-a2a log`: who said what to whom, what became of it, and that nobody changed it.
//!
//! Each sub-command asks a `Source` and does not know whether a server answers or the
//! journal itself.

mod files;
mod follow;
mod gathered;
mod journal;
mod list;
mod rebuild;
mod record;
mod server;
mod show;
mod source;
mod thread;
pub(super) mod verify;
mod whole;

use a2a_gateway::log::read_query;
use a2a_journal::{Head, Query};
use a2a_protocol::CorrelationId;
use chrono::Utc;

use super::place::Place;
use super::{Answer, Format, Global};

/// How many are shown where neither a limit nor the beginning of a time is given.
const NEWEST: u64 = 50;

/// See who said what to whom, follow it, and prove that nobody changed it
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

Times are UTC: a timestamp, a day (2026-02-21, today, yesterday), or how long ago (90s, 15m, 2h, 3d).
A running server is asked (see a2a.addr in the state folder); without one the journal is read.

Exit codes: 0 success, 1 the log was tampered with (verify) or has no such message, 2 it could not be read.")]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,

    #[command(flatten)]
    filter: Filter,

    /// How many, the newest; 0 for all [default: 50, with --since all, with --follow 10]
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u64>,

    /// Go on with what happens from now on, oldest first
    #[arg(long, short)]
    follow: bool,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Draw one conversation: who wrote to whom, when, and how it went on
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
        /// The message's id, or the number of its record
        message: String,
    },
    /// Check that no line of the log was changed, removed, inserted or moved
    #[command(after_help = "\
Examples:
  openclaw-a2a log verify
  openclaw-a2a log verify --head 1042:9f86d081…    the log must still hold this line

Checks the files and the index, with or without a running server. A head that you noted
elsewhere (`openclaw-a2a log head`) also proves that nobody cut the end off or wrote it all anew.

Exit codes: 0 whole, 1 tampered with (the first bad line is named), 2 it could not be read.")]
    Verify {
        /// A head that was noted before; may be given several times
        #[arg(long = "head", value_name = "SEQ:HASH")]
        heads: Vec<Head>,
    },
    /// Print the last line's number and hash, to be kept elsewhere and given to verify
    Head,
    /// Write day files that are missing again, from the index
    #[command(after_help = "\
Example:
  openclaw-a2a log rebuild

Only while no server runs. Every line is checked on the way; files that are there are left alone, and days
that were removed for their age do not come back. Lines that the index lacks are not made up.

Exit codes: 0 every day that the index holds has its file, 2 it could not be done.")]
    Rebuild,
}

/// What is wanted. All of it must hold.
#[derive(clap::Args)]
struct Filter {
    /// Sent by this agent or to it
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Of this kind, such as task_request
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Not before: a timestamp, a day, or how long ago (2h, 3d, yesterday)
    #[arg(long, value_name = "T")]
    since: Option<String>,
    /// Before
    #[arg(long, value_name = "T")]
    until: Option<String>,
    /// Of this conversation
    #[arg(long, value_name = "ID")]
    correlation: Option<String>,
    /// About this task
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// With this outcome, such as delivered or forbidden
    #[arg(long, value_name = "O")]
    outcome: Option<String>,
    /// With all of these words, in any case, anywhere in it
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
        let given =
            parameters.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
        let query = read_query(given, Utc::now(), true);
        query.map_err(|bad| anyhow::anyhow!("--{}: {}", bad.name, bad.problem))
    }
}

impl Args {
    /// Filters in front of a sub-command would be passed over in silence. (clap's own check
    /// also refuses the options of every command there.)
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
    let place = Place::of(global)?;
    let format = global.format;
    let mut out = super::stdout::output(format);
    match &args.verb {
        None => {
            let query = args.filter.query()?;
            if args.follow {
                follow::run(&place, &query, args.limit.unwrap_or(10), format, &mut out)
            } else {
                // A caller that names a start wants the whole range.
                let all = args.limit.is_none() && args.filter.since.is_some();
                let limit = args.limit.unwrap_or(if all { 0 } else { NEWEST });
                let is_default = args.limit.is_none() && !all;
                let mut source = place.source()?;
                list::run(source.as_mut(), &query, limit, is_default, format, &mut out)
            }
        }
        Some(Verb::Thread { correlation }) => {
            thread::run(place.source()?.as_mut(), *correlation, format, &mut out)
        }
        Some(Verb::Show { message }) => {
            show::run(place.source()?.as_mut(), message, format, &mut out)
        }
        Some(Verb::Verify { heads }) => verify::run(&place, heads, format, &mut out),
        Some(Verb::Rebuild) => rebuild::run(&place, format, &mut out),
        Some(Verb::Head) => verify::head(place.source()?.as_mut(), format, &mut out),
    }
}

/// Whether programs read it.
fn is_for_programs(format: Format) -> bool {
    format != Format::Text
}
