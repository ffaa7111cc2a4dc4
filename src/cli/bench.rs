//! `openclaw-a2a bench`: loads a running server for a while and reports throughput and latency.
//!
//! ```text
//! run_control (limits) ─▶ messages (sender_pool) │ tasks ─▶ counters (counts, latencies) ─▶ report
//! ```
//!
//! It uses the public HTTP API as agents and clients do, respects the server's limits, and ends by
//! itself.

mod call;
mod counters;
mod messages;
mod report;
mod run_control;
mod sender_pool;
mod tasks;

use std::io::{BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use a2a_protocol::AgentId;
use anyhow::bail;
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::signal::unix::{SignalKind, signal};
use uuid::Uuid;

use super::server::Server;
use super::server_locator::ServerLocator;
use super::stdout::note;
use super::{Answer, Global, duration};
use counters::Counters;
use messages::{IN_FLIGHT_PER_SENDER, MessageLoad};
use report::RunReport;
use run_control::{MAX_DURATION, RunControl, RunLimit};
use tasks::TaskLoad;

/// Timeout of a call, except of those that wait for a task.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);
/// Consecutive calls without an answer after which the server counts as gone.
const MAX_UNANSWERED: u32 = 10;
const DEFAULT_TIME: Duration = Duration::from_secs(10);

/// Load a running server and measure its throughput and latency
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a bench                               messages between agents, for 10 seconds
  openclaw-a2a bench messages --count 5000 --concurrency 32
  openclaw-a2a bench tasks --duration 30s          A2A tasks for the server's own agent
  openclaw-a2a bench tasks --agent tim --count 20
  openclaw-a2a bench --yes --format json | jq .latencyMs

Messages go from agents named bench-… to others that take and acknowledge them, so nothing waits in
the end; the records stay in the log, and these agents are removed. A server that has records
already is only loaded when you say so. Limits are respected: an agent that reaches its rate limit
waits, and another one sends. Try it on a server of its own: openclaw-a2a serve --state-dir DIR

Exit codes: 0 it ran, 1 nothing was accepted, something still waits or you said no, 2 it could not run.")]
pub(super) struct Args {
    /// What to send
    #[arg(value_enum, default_value_t = Mode::Messages)]
    mode: Mode,

    /// Duration: 500ms, 30s, 2m, at most 10m [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "count")]
    duration: Option<Duration>,

    /// Number of accepted messages or tasks, instead of a duration
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    count: Option<u64>,

    /// Number of concurrent calls
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    concurrency: u16,

    /// Maximum number of sending agents; another is added when all others have reached their rate
    /// limit
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    agents: u16,

    /// Agent that gets the tasks [default: the server's own agent]
    #[arg(long, value_name = "ID")]
    agent: Option<AgentId>,

    /// Skip the question when the server has records already
    #[arg(long, short)]
    yes: bool,
}

/// Kind of load.
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

/// Result of a run.
struct LoadResult {
    counters: Counters,
    /// Time during which messages or tasks were sent.
    sending: Duration,
    /// Time until everything was processed.
    whole: Duration,
    agents: usize,
    /// Messages or tasks still pending at the end.
    left: u64,
}

fn time(text: &str) -> Result<Duration, String> {
    match duration::parse_or_seconds(text) {
        Some(time) if time > Duration::ZERO && time <= MAX_DURATION => Ok(time),
        _ => Err("a time such as 500ms, 30s or 2m, at most 10m".to_owned()),
    }
}

pub(super) fn run(args: &Args, global: &Global) -> anyhow::Result<Answer> {
    if args.agent.is_some() && args.mode == Mode::Messages {
        bail!("--agent is for tasks: openclaw-a2a bench tasks --agent ID");
    }
    let Some(server) = ServerLocator::from_options(global)?.running_server()? else {
        bail!(
            "no server is running; start one with `openclaw-a2a serve`, or name its folder with --state-dir"
        );
    };
    let server = server.with_timeout(CALL_TIMEOUT);
    if !may(args, &server)? {
        anstream::eprintln!("Nothing was sent.");
        return Ok(Answer::No);
    }
    let run = Uuid::now_v7().simple().to_string().split_off(24);
    let at_once = usize::from(args.concurrency);
    let goal =
        args.count.map_or(RunLimit::Time(args.duration.unwrap_or(DEFAULT_TIME)), RunLimit::Count);
    let (load, control) = match args.mode {
        Mode::Messages => {
            let senders = usize::from(args.agents);
            let messages = MessageLoad::prepare(&server, &run, at_once.max(2), senders)?;
            let control = start(goal, at_once * IN_FLIGHT_PER_SENDER);
            let bar = bar();
            let load = messages.run(&control, at_once.min(senders), &|| tick(&bar, &control));
            bar.finish_and_clear();
            // The agents are removed also when the run has failed.
            match messages.remove_agents(at_once) {
                0 => {}
                stay => note(&format!(
                    "{stay} agents of the run could not be removed; see `openclaw-a2a agents`"
                )),
            }
            (load?, control)
        }
        Mode::Tasks => {
            let control = start(goal, at_once);
            let bar = bar();
            let tasks = TaskLoad::new(&server, &run, args.agent.as_ref());
            let load = tasks.run(&control, at_once, &|| tick(&bar, &control));
            bar.finish_and_clear();
            (load?, control)
        }
    };
    let (ended, why) = control.ended();
    RunReport { mode: args.mode, run, concurrency: at_once, load, ended, why }.print(global.format)
}

/// Asks before loading a server that has records, unless `--yes` is given.
fn may(args: &Args, server: &Server) -> anyhow::Result<bool> {
    if args.yes {
        return Ok(true);
    }
    let is_empty = match (call::get(server, "/bus/log?limit=1"), args.mode) {
        (Ok(page), _) => page["records"].as_array().is_some_and(Vec::is_empty),
        (Err(error), Mode::Messages) => return Err(error),
        // A client token may create tasks without being allowed to read the log.
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

fn start(limit: RunLimit, permits: usize) -> Arc<RunControl> {
    let control = RunControl::new(limit, permits);
    let interrupted = Arc::clone(&control);
    let (ready, installed) = std::sync::mpsc::channel();
    // The thread lives until the process exits.
    std::thread::spawn(move || stop_on_ctrl_c(&interrupted, &ready));
    // Nothing is sent before Ctrl-C prints a report. Fails when there is no handler.
    let _ = installed.recv();
    control
}

/// The first Ctrl-C ends the run and prints its report; the second exits.
fn stop_on_ctrl_c(control: &RunControl, ready: &std::sync::mpsc::Sender<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    // Without a runtime Ctrl-C keeps its default effect.
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        let Ok(mut interrupts) = signal(SignalKind::interrupt()) else { return };
        let _ = ready.send(());
        if interrupts.recv().await.is_some() {
            control.interrupt();
            anstream::eprintln!("stopping; once more to leave what is on the way");
        }
        if interrupts.recv().await.is_some() {
            std::process::exit(130);
        }
    });
}

/// Progress bar on stderr, hidden when that is no terminal.
fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(1_000), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

fn tick(bar: &ProgressBar, control: &RunControl) {
    let seconds = control.started().elapsed().as_secs_f64().max(0.001);
    let accepted = control.accepted();
    bar.set_position(control.progress());
    bar.set_message(format!("{accepted} accepted, {:.0}/s", accepted as f64 / seconds));
}
