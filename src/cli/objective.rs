//! `openclaw-a2a objective`: lists, shows, cancels and approves objectives and their plans.

mod call;
mod list;
mod show;
mod tree;

use a2a_protocol::AgentId;
use a2a_protocol::opt::{BlockedBy, Objective, ObjectiveStatus, Plan, PlanStatus, key};
use serde_json::json;

use super::stdout::sanitize;
use super::{Answer, Format, Global};
use call::OptClient;

/// List, show, cancel or approve objectives and their plans
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,

    /// Agent whose endpoint is called [default: the host's own]
    #[arg(long, global = true, value_name = "ID")]
    agent: Option<AgentId>,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// List objectives, the newest first
    #[command(after_help = "\
Examples:
  openclaw-a2a objective list
  openclaw-a2a objective list --status blocked --limit 5

A running server is asked (see a2a.addr in the state folder). PLANS counts those that are done or skipped,
of all. With --format json they are one document, with jsonl one objective a line.

Exit codes: 0 success, 2 the objectives could not be listed.")]
    List {
        /// Status: submitted, planning, working, blocked, completed, failed, canceled
        #[arg(long, value_name = "STATUS", value_parser = status)]
        status: Option<ObjectiveStatus>,
        /// Maximum number of objectives
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// Draw an objective with its plans and their tasks
    #[command(after_help = "\
Examples:
  openclaw-a2a objective show obj-0192a4c8-7e1a-7b3c-9d4e-000000000003
  openclaw-a2a objective show obj-0192a4c8-7e1a-7b3c-9d4e-000000000003 --watch

With --watch the drawing follows what happens until the objective ends; where no terminal is, each change
is a line. With --format json the answer is printed as the server sends it, and with --watch each event.

Exit codes: 0 it was shown (with --watch: it is completed), 1 there is none (with --watch: or it has failed
or was canceled), 2 it could not be shown.")]
    Show {
        /// Objective id
        objective: String,
        /// Follow until it ends
        #[arg(long)]
        watch: bool,
    },
    /// Cancel an objective: its tasks are cancelled, its plans skipped
    #[command(after_help = "\
Example:
  openclaw-a2a objective cancel obj-0192a4c8-7e1a-7b3c-9d4e-000000000003

Exit codes: 0 it is canceled, 1 there is none or it has ended, 2 it could not be done.")]
    Cancel {
        /// Objective id
        objective: String,
    },
    /// Approve a plan that waits for approval
    #[command(after_help = "\
Example:
  openclaw-a2a objective approve plan-0192a4c8-7e1a-7b3c-9d4e-000000000004

`openclaw-a2a objective show` names the plans that wait.

Exit codes: 0 it is approved of, 1 there is no such plan or it has ended, 2 it could not be done.")]
    Approve {
        /// Plan id
        plan: String,
    },
}

fn status(word: &str) -> Result<ObjectiveStatus, String> {
    ObjectiveStatus::from_name(word).ok_or_else(|| {
        let all: Vec<_> = ObjectiveStatus::ALL.iter().map(ToString::to_string).collect();
        format!("this must be one of {}", all.join(", "))
    })
}

pub(super) fn run(args: &Args, global: &Global) -> anyhow::Result<Answer> {
    let client = OptClient::to(args.agent.as_ref(), global)?;
    match &args.verb {
        Verb::List { status, limit } => list::run(&client, *status, *limit, global.format),
        Verb::Show { objective, watch: false } => show::once(&client, objective, global.format),
        Verb::Show { objective, watch: true } => show::watch(&client, objective, global.format),
        Verb::Cancel { objective } => cancel(&client, objective, global.format),
        Verb::Approve { plan } => approve(&client, plan, global.format),
    }
}

fn cancel(client: &OptClient, id: &str, format: Format) -> anyhow::Result<Answer> {
    let params = json!({"id": id, "status": ObjectiveStatus::Canceled});
    let Some(result) = client.find("objectives/update", &params)? else {
        return Ok(call::no_objective(id));
    };
    let line = match format {
        Format::Json | Format::Jsonl => result.to_string(),
        Format::Text => {
            let objective: Objective = call::read(&result)?;
            format!("{} is {}", sanitize(&objective.name), objective.status)
        }
    };
    call::print(format, &[line])?;
    Ok(Answer::Yes)
}

fn approve(client: &OptClient, id: &str, format: Format) -> anyhow::Result<Answer> {
    let params = json!({"id": id, "status": PlanStatus::Working});
    let Some(result) = client.find("plans/update", &params)? else {
        return Ok(call::no_plan(id));
    };
    let line = match format {
        Format::Json | Format::Jsonl => result.to_string(),
        Format::Text => approved(&call::read(&result)?),
    };
    call::print(format, &[line])?;
    Ok(Answer::Yes)
}

fn approved(plan: &Plan) -> String {
    let more = match plan.status {
        PlanStatus::Pending => "; it begins when the plans before it are done",
        PlanStatus::Blocked => {
            match plan.metadata.as_ref().and_then(|all| all.get(key::BLOCKED_BY)) {
                Some(by) if by == BlockedBy::Dependencies.as_str() => {
                    "; it begins when the plans it depends on are done"
                }
                _ => "; one of its tasks waits for an answer",
            }
        }
        _ => "",
    };
    format!("{} is {}{more}", sanitize(&plan.name), plan.status)
}
