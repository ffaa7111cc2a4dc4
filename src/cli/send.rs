//! `openclaw-a2a send`: sends one message, from flags or from standard input, and prints its
//! receipt.

mod payload;
mod raw_message;
mod receipt;

use a2a_protocol::{AgentId, CorrelationId, Priority, Protocol, TaskId, Timestamp};
use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::{Value, json};

use super::human::one_of;
use super::server::{Server, text};
use super::server_locator::ServerLocator;
use super::{Answer, Global};
use payload::Payload;

/// Default sender for people.
const PERSON: &str = "operator";
/// Header that names the agent on whose behalf a person sends.
const ON_BEHALF_OF: &str = "a2a-on-behalf-of";

/// Send a message, as a person or in the name of an agent
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  openclaw-a2a send task-request --to tim --title 'Count the kinds' \\
    --description 'How many are there?'
  openclaw-a2a send task-response --from tim \\
    --task 0192a4c8-7e1a-7b3c-9d4e-000000000003 --action completed \\
    --summary 'There are seven.'
  openclaw-a2a send status-update --from tim --to roman \\
    --progress 'Half of it is done'
  openclaw-a2a send broadcast --topic freeze \\
    --message 'No merges until the release is out'
  echo '{\"type\":\"broadcast\",\"payload\":{…}}' | openclaw-a2a send -

Without --from a person sends, under the name `operator`; what agents answer waits in `openclaw-a2a inbox operator`.
In the name of an agent the log says who sent it as well. Kinds may be written with - or _. Ids are made, and
answers to a task go to its requester, in the same conversation, unless you say otherwise.

Exit codes: 0 it was accepted, 1 it was refused (everything that is wrong is listed), 2 it could not be sent.")]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(super) struct Args {
    #[command(subcommand)]
    what: Option<SendKind>,

    /// Read a whole message from standard input, as `send -` does
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    sender: Sender,
}

#[derive(clap::Subcommand)]
enum SendKind {
    /// Ask an agent to do a task
    #[command(alias = "task_request")]
    TaskRequest(MessageArgs<payload::TaskRequest>),
    /// Answer a task: accepted, declined, completed, failed, blocked
    #[command(alias = "task_response")]
    TaskResponse(MessageArgs<payload::TaskResponse>),
    /// Report the progress of work
    #[command(alias = "status_update")]
    StatusUpdate(MessageArgs<payload::StatusUpdate>),
    /// Ask an agent to review work
    #[command(alias = "review_request")]
    ReviewRequest(MessageArgs<payload::ReviewRequest>),
    /// Give the verdict of a review
    #[command(alias = "review_response")]
    ReviewResponse(MessageArgs<payload::ReviewResponse>),
    /// Share a discovery with other agents
    #[command(alias = "knowledge_share")]
    KnowledgeShare(MessageArgs<payload::KnowledgeShare>),
    /// Announce something to many agents
    Broadcast(MessageArgs<payload::Broadcast>),
    /// Read a whole message from standard input; missing ids and times are filled in
    #[command(
        name = "-",
        after_help = "\
Example:
  openclaw-a2a schema broadcast | jq '.examples[0]' | openclaw-a2a send - \\
    --from roman

Filled in where it is missing: protocol, messageId, timestamp, correlationId, priority (normal), and from."
    )]
    Whole(Sender),
}

/// Sender options
#[derive(clap::Args, Clone)]
struct Sender {
    /// Send in the name of this agent [default: a person, as `operator`]
    #[arg(long, value_name = "ID")]
    from: Option<AgentId>,
}

impl Sender {
    fn name(&self) -> &str {
        self.from.as_ref().map_or(PERSON, AgentId::as_str)
    }
}

/// Options that every kind has outside its payload, and its payload
#[derive(clap::Args)]
struct MessageArgs<P: clap::Args> {
    #[command(flatten)]
    sender: Sender,
    /// Recipient
    #[arg(long, value_name = "ID")]
    to: Option<AgentId>,
    /// Priority
    #[arg(long, default_value = "normal", value_parser = one_of(Priority::ALL, Priority::as_str))]
    priority: Priority,
    /// Conversation [default: that of its task, else a new one]
    #[arg(long, value_name = "ID", visible_alias = "correlation")]
    conversation: Option<CorrelationId>,
    #[command(flatten)]
    payload: P,
}

/// A message ready to be sent.
struct OutgoingMessage {
    from: String,
    bytes: Vec<u8>,
    message: Value,
}

pub(super) fn run(args: &Args, global: &Global) -> anyhow::Result<Answer> {
    let server = ServerLocator::from_options(global)?.require_server()?;
    let message = match &args.what {
        Some(SendKind::TaskRequest(draft)) => draft.write(&server)?,
        Some(SendKind::TaskResponse(draft)) => draft.write(&server)?,
        Some(SendKind::StatusUpdate(draft)) => draft.write(&server)?,
        Some(SendKind::ReviewRequest(draft)) => draft.write(&server)?,
        Some(SendKind::ReviewResponse(draft)) => draft.write(&server)?,
        Some(SendKind::KnowledgeShare(draft)) => draft.write(&server)?,
        Some(SendKind::Broadcast(draft)) => draft.write(&server)?,
        Some(SendKind::Whole(sender)) => return send_raw(sender, &server, global),
        None if args.json => return send_raw(&args.sender, &server, global),
        None => {
            bail!("say which kind to send, such as task-request; see `openclaw-a2a send --help`")
        }
    };
    message.send(&server, global)
}

fn send_raw(sender: &Sender, server: &Server, global: &Global) -> anyhow::Result<Answer> {
    match raw_message::read(sender)? {
        Ok(message) => message.send(server, global),
        Err(report) => receipt::refused_unsent(&report, global.format),
    }
}

impl OutgoingMessage {
    fn send(&self, server: &Server, global: &Global) -> anyhow::Result<Answer> {
        let headers = [(ON_BEHALF_OF, self.from.clone())];
        let (status, answer) = text(server.post("/bus/messages", &headers, &self.bytes)?)?;
        receipt::show(status, &answer, &self.message, global.format)
    }
}

/// Participants of the task that a message is about, from the ledger.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskParties {
    correlation_id: CorrelationId,
    requester: AgentId,
    assignee: AgentId,
}

impl<P: clap::Args + Payload> MessageArgs<P> {
    /// Builds the message. Recipient and conversation default to those of its task.
    fn write(&self, server: &Server) -> anyhow::Result<OutgoingMessage> {
        let parties = match self.payload.task().filter(|_| self.lacks_something()) {
            Some(task) => task_parties(server, task)?,
            None => None,
        };
        let answered = parties.as_ref().and_then(|parties| self.payload.addressee(parties));
        let to = self.to.as_ref().or(answered);
        if to.is_none() && P::KIND.needs_recipient() {
            if let Some(task) = self.payload.task().filter(|_| parties.is_none()) {
                bail!(
                    "there is no task {task} that {} could see; give the taskId of the request (`openclaw-a2a task list` shows them), or begin a task with `openclaw-a2a send task-request`",
                    self.sender.name()
                );
            }
            bail!("name the recipient with --to; `openclaw-a2a agents` shows who is there");
        }
        let correlation =
            self.conversation.or(parties.as_ref().map(|parties| parties.correlation_id));
        let correlation = correlation.map_or_else(new_id, |id| id.to_string());
        let from = self.sender.name().to_owned();
        let mut message = json!({
            "protocol": Protocol::V1,
            "messageId": new_id(),
            "correlationId": correlation,
            "timestamp": now(),
            "from": {"agentId": from},
            "type": P::KIND,
            "priority": self.priority,
            "payload": self.payload.write(&from)?,
        });
        if let Some(to) = to {
            message["to"] = json!({ "agentId": to });
        }
        Ok(OutgoingMessage { from, bytes: message.to_string().into_bytes(), message })
    }

    fn lacks_something(&self) -> bool {
        self.to.is_none() || self.conversation.is_none()
    }
}

/// Looks up a task in the ledger; `None` if it is missing or not readable, because this only fills
/// in defaults.
fn task_parties(server: &Server, task: TaskId) -> anyhow::Result<Option<TaskParties>> {
    let (status, answer) = text(server.get(&format!("/bus/tasks/{task}"), &[], &[])?)?;
    if status != 200 {
        return Ok(None);
    }
    serde_json::from_str(&answer).map(Some).context("the server's answer is no task; is it older?")
}

fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

fn now() -> String {
    Timestamp::from(chrono::Utc::now()).to_string()
}
