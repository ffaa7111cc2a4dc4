//! `openclaw-a2a bench`: loads a running server for a while and says what it carried.
//!
//! ```text
//! course (how far) ─▶ messages (pool: who sends) │ tasks ─▶ tally (counts, times) ─▶ report
//! ```
//!
//! It uses the server as agents and clients do, within its limits, and ends by itself.

mod call;
mod course;
mod messages;
mod pool;
mod report;
mod tally;
mod tasks;

use std::io::{BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use a2a_gateway::duration;
use a2a_protocol::AgentId;
use anyhow::bail;
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use uuid::Uuid;

use super::place::Place;
use super::server::Server;
use super::stdout::note;
use super::{Answer, Global};
use course::{Course, Goal, LONGEST};
use messages::{Messages, ON_THE_WAY};
use report::Report;
use tally::Tally;
use tasks::Tasks;

/// How long a call may take, but for those that wait for a task.
const PATIENCE: Duration = Duration::from_secs(20);
/// After so many calls without an answer the server is gone.
const GIVE_UP: u32 = 10;
const DEFAULT_TIME: Duration = Duration::from_secs(10);

/// Load a running server for a while, and see how much it carries and how fast
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a bench                               messages between agents, for 10 seconds
  openclaw-a2a bench messages --count 5000 --concurrency 32
  openclaw-a2a bench tasks --duration 30s          A2A tasks for the server's own agent
  openclaw-a2a bench tasks --agent tim --count 20
  openclaw-a2a bench --yes --format json | jq .latencyMs

Messages go from agents named bench-… to others that take and acknowledge them, so nothing waits in
the end; the records stay in the log, and these agents in the directory. A server that has records
already is only loaded when you say so. Limits are respected: an agent that was told to wait waits,
and another one sends. Try it on a server of its own: openclaw-a2a serve --state-dir DIR

Exit codes: 0 it ran, 1 nothing was accepted, something still waits or you said no, 2 it could not run.")]
pub(super) struct Args {
    /// What to load it with
    #[arg(value_enum, default_value_t = Mode::Messages)]
    mode: Mode,

    /// How long: 500ms, 30s, 2m, at most 10m [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "count")]
    duration: Option<Duration>,

    /// How many are to be accepted, instead of how long
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    count: Option<u64>,

    /// How many calls at once
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    concurrency: u16,

    /// How many agents may send; each is made when those before it have met their limits
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    agents: u16,

    /// Whom the tasks are for [default: the server's own agent]
    #[arg(long, value_name = "ID")]
    agent: Option<AgentId>,

    /// Do not ask, also when the server has records already
    #[arg(long, short)]
    yes: bool,
}

/// What a server is loaded with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Messages of the bus, from agent to agent
    Messages,
    /// A2A tasks, each from the call to its end
    Tasks,
}

impl Mode {
    const fn word(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Tasks => "tasks",
        }
    }
}

/// What a server was loaded with, and what came of it.
struct Load {
    tally: Tally,
    /// How long something was sent.
    sending: Duration,
    /// Until everything was dealt with.
    whole: Duration,
    agents: usize,
    /// What still waits.
    left: u64,
}

fn time(text: &str) -> Result<Duration, String> {
    match duration(text) {
        Some(time) if time > Duration::ZERO && time <= LONGEST => Ok(time),
        _ => Err("a time such as 500ms, 30s or 2m, at most 10m".to_owned()),
    }
}

pub(super) fn run(args: &Args, global: &Global) -> anyhow::Result<Answer> {
    if args.agent.is_some() && args.mode == Mode::Messages {
        bail!("--agent is for tasks: openclaw-a2a bench tasks --agent ID");
    }
    let Some(server) = Place::of(global)?.server()? else {
        bail!(
            "no server is running; start one with `openclaw-a2a serve`, or name its folder with --state-dir"
        );
    };
    let server = server.within(PATIENCE);
    if !may(args, &server)? {
        anstream::eprintln!("Nothing was sent.");
        return Ok(Answer::No);
    }
    let run = Uuid::now_v7().simple().to_string().split_off(24);
    let at_once = usize::from(args.concurrency);
    let goal = args.count.map_or(Goal::Time(args.duration.unwrap_or(DEFAULT_TIME)), Goal::Count);
    let (load, course) = match args.mode {
        Mode::Messages => {
            let senders = usize::from(args.agents);
            let messages = Messages::prepare(&server, &run, at_once.max(2), senders)?;
            let course = begin(goal, at_once * ON_THE_WAY);
            let bar = bar();
            let load = messages.run(&course, at_once.min(senders), &|| tick(&bar, &course));
            bar.finish_and_clear();
            // However the run ended, its agents are not needed any more.
            match messages.remove_agents(at_once) {
                0 => {}
                stay => note(&format!(
                    "{stay} agents of the run could not be removed; see `openclaw-a2a agents`"
                )),
            }
            (load?, course)
        }
        Mode::Tasks => {
            let course = begin(goal, at_once);
            let bar = bar();
            let tasks = Tasks::new(&server, &run, args.agent.as_ref());
            let load = tasks.run(&course, at_once, &|| tick(&bar, &course));
            bar.finish_and_clear();
            (load?, course)
        }
    };
    let (ended, why) = course.ended();
    Report { mode: args.mode, run, concurrency: at_once, load, ended, why }.print(global.format)
}

/// Whether it is all right to load this server: one that is empty, or that somebody means.
fn may(args: &Args, server: &Server) -> anyhow::Result<bool> {
    if args.yes {
        return Ok(true);
    }
    let is_empty = match (call::get(server, "/bus/log?limit=1"), args.mode) {
        (Ok(page), _) => page["records"].as_array().is_some_and(Vec::is_empty),
        (Err(error), Mode::Messages) => return Err(error),
        // A client may have tasks without seeing the log.
        (Err(_), Mode::Tasks) => false,
    };
    if is_empty {
        return Ok(true);
    }
    let what = "The server has records already. What a bench sends stays in its log for as long as they do, and slows others down meanwhile.";
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        bail!("{what} If you mean it, say --yes");
    }
    anstream::eprint!("{what} Go on? [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

fn begin(goal: Goal, room: usize) -> Arc<Course> {
    let course = Course::new(goal, room);
    let heard = Arc::clone(&course);
    // It waits for as long as the program lives.
    std::thread::spawn(move || stop_on_ctrl_c(&heard));
    course
}

/// The first Ctrl-C ends the run, and what it came to is shown; the second ends the program.
fn stop_on_ctrl_c(course: &Course) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    // Without it Ctrl-C does what it does to any program.
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        if tokio::signal::ctrl_c().await.is_ok() {
            course.interrupt();
            anstream::eprintln!("stopping; once more to leave what is on the way");
        }
        if tokio::signal::ctrl_c().await.is_ok() {
            std::process::exit(130);
        }
    });
}

/// A bar for people; it hides where nobody looks.
fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(1_000), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

fn tick(bar: &ProgressBar, course: &Course) {
    let seconds = course.begin().elapsed().as_secs_f64().max(0.001);
    let accepted = course.accepted();
    bar.set_position(course.progress());
    bar.set_message(format!("{accepted} accepted, {:.0}/s", accepted as f64 / seconds));
}
