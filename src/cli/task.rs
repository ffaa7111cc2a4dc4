//! `openclaw-a2a task`: tasks that A2A clients asked for.

mod screen;
mod watch;

use a2a_protocol::{AgentId, TaskId};

use super::{Answer, Global};

/// See how a task that an A2A client asked for is going
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Watch a task until it ends: a bar for everything that progresses, and what its agent says
    #[command(after_help = "\
Examples:
  openclaw-a2a task watch 0192a4c8-7e1a-7b3c-9d4e-000000000003 --agent tim
  openclaw-a2a task watch 0192a4c8-7e1a-7b3c-9d4e-000000000003 --agent tim --format json | jq .statusUpdate

A running server is asked (see a2a.addr in the state folder). On a terminal each tracker of the task is a
bar that moves; elsewhere each change is a line. With --format json each event is a line, as A2A 1.0
writes it. A task that has ended shows its end.

Exit codes: 0 the task is completed, 1 it ended in another way or there is none, 2 it could not be watched.")]
    Watch {
        /// The task's id
        task: TaskId,
        /// The agent that does it [default: the host's own]
        #[arg(long, value_name = "ID")]
        agent: Option<AgentId>,
    },
}

pub(super) fn run(args: &Args, global: &Global) -> anyhow::Result<Answer> {
    match &args.verb {
        Verb::Watch { task, agent } => watch::run(*task, agent.as_ref(), global),
    }
}
