//! Built-in agent of the host: answers a few fixed requests without a model, so that a new user's
//! first message gets a useful answer.
//!
//! Input is data: it is echoed as one sanitized line at most, and never interpreted beyond
//! `intent`.

mod intent;
mod parts;
mod sum;

use std::borrow::Cow;
use std::fmt::Write as _;

use a2a_actors::{AgentView, BusSystem, Delivery, Presence};
use a2a_policy::tasks::describes_whole;
use a2a_protocol::body::TaskRequest;
use a2a_protocol::task::{Message, Part};
use a2a_protocol::{Body, Envelope};
use chrono::{SecondsFormat, Utc};

use super::{WINDOW, send};
use crate::{A2aRequest, Agent, AttachError, Bus, Handlers, SendError, TaskAnswer};
use intent::Intent;
use parts::described;
pub(super) use parts::one_line;

/// Agent id of the host's agent.
pub const NAME: &str = "openclaw";

/// Maximum number of agents in a list.
const LISTED: usize = 50;
/// Maximum length of an answer in characters. A message contains the answer twice and must fit its
/// size limit.
const LONGEST: usize = 16_000;

const HELP: &str = "\
This is an OpenClaw A2A server: a message bus for teams of AI agents. I am its built-in agent and \
have no model; I know these words:
  help      this text
  agents    who is here
  status    what the bus has done since it started
  time      the server's clock
  echo …    says … back
  2 + 2     works it out, for two whole numbers
To reach another agent, send your message below /agents/{id}/ instead; \
/.well-known/agent-card.json describes what is here.";

const NOBODY: &str = "\
No agent is known here yet. One that looks into its inbox (GET /bus/agents/{id}/inbox), sends a message or attaches \
to the bus is; `serve --demo` brings a small team.";

const HOW_TO_GO_ON: &str = "\
Say help to see what I know. For real work attach an agent to this bus and send your message below \
/agents/{id}/; say agents to see who is here.";

/// Attaches the agent to a bus.
///
/// # Errors
/// When the bus refuses the agent.
pub async fn attach(bus: &Bus) -> Result<Agent, AttachError> {
    let answer = move |me: Agent, delivery: Delivery, task: TaskRequest| async move {
        answer(&me, &delivery, &task).await
    };
    let handlers = Handlers::new().on_task_request(answer);
    bus.attach_inline(NAME, WINDOW, answer_inline, handlers).await
}

/// Answers without awaiting anything; most requests end here.
fn answer_inline(me: &Agent, delivery: &Delivery) -> Option<Envelope> {
    let Body::TaskRequest(task) = &delivery.message.body else { return None };
    let question = Question::of(delivery, task);
    let response = question.immediate()?;
    me.write(delivery, question.answer(response)).ok()
}

async fn answer(me: &Agent, delivery: &Delivery, task: &TaskRequest) -> Result<(), SendError> {
    let (system, question) = (me.system(), Question::of(delivery, task));
    let response = match question.immediate() {
        Some(response) => response,
        None if question.intent() == Intent::Agents => {
            Response::Answer(who_is_here(&system.agents().await))
        }
        None => Response::Answer(status(system).await),
    };
    send(me, delivery, me.write(delivery, question.answer(response))?).await.map(drop)
}

/// Result of a request.
enum Response {
    Answer(String),
    /// Declined, with the reason and what to do instead.
    Decline(String),
}

/// A request and its text.
struct Question<'a> {
    delivery: &'a Delivery,
    text: Cow<'a, str>,
}

impl<'a> Question<'a> {
    fn of(delivery: &'a Delivery, task: &'a TaskRequest) -> Self {
        let description = task.description.as_str();
        // Most requests contain their whole text in the description.
        let text = if describes_whole(description) {
            None
        } else {
            A2aRequest::of(delivery).map(|question| question.text())
        };
        Self { delivery, text: text.map_or(description.into(), Cow::Owned) }
    }

    fn intent(&self) -> Intent<'_> {
        Intent::of(&self.text)
    }

    /// The response, unless it needs a query to the bus.
    fn immediate(&self) -> Option<Response> {
        let message = || A2aRequest::of(self.delivery).map(|question| question.message);
        Some(Response::Answer(match self.intent() {
            Intent::Agents | Intent::Status => return None,
            Intent::Nothing => return Some(Response::Decline(received(message().as_ref()))),
            Intent::Greeting => format!("Hello! {HELP}"),
            Intent::Help => HELP.to_owned(),
            Intent::Time => {
                format!("It is {} (UTC).", Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true))
            }
            Intent::EmptyEcho => {
                "There was nothing to echo; write something after the word.".into()
            }
            Intent::Echo(words) => words.to_owned(),
            Intent::Sum(sum) => sum.worked_out(),
            Intent::Unknown => {
                let parts = message().map(|message| message.parts).unwrap_or_default();
                return Some(Response::Decline(unknown(&self.text, &parts)));
            }
        }))
    }

    fn answer(&self, response: Response) -> TaskAnswer {
        let cut = |mut response: String| {
            if let Some((end, _)) = response.char_indices().nth(LONGEST) {
                response.truncate(end);
            }
            response
        };
        let response = match response {
            Response::Answer(response) => cut(response),
            // Nothing was done, so the task must not look completed.
            Response::Decline(why) => return TaskAnswer::declined(cut(why)),
        };
        let summary = format!("Answered: {}", one_line(&response, 100));
        let answer = TaskAnswer::completed(summary);
        // A question gets a plain message; any other request gets a task with an artifact.
        if self.text.trim_end().ends_with('?') {
            answer.message(response).directly()
        } else {
            answer.text_artifact("answer", &response).message(response)
        }
    }
}

/// Response to a message without text.
fn received(message: Option<&Message>) -> String {
    let parts = message.map_or(&[] as &[Part], |message| &message.parts);
    match described(parts) {
        Some(what) => format!(
            "I got {what}, and no text with it. I have no model and cannot look inside. {HOW_TO_GO_ON}"
        ),
        None => format!("The message is empty. {HOW_TO_GO_ON}"),
    }
}

fn unknown(text: &str, parts: &[Part]) -> String {
    let others: Vec<Part> = parts.iter().filter(|part| !parts::is_text(part)).cloned().collect();
    let with = described(&others).map(|what| format!(" With it came {what}.")).unwrap_or_default();
    format!(
        "I am the built-in agent of this server and have no model, so I cannot work on this: \
         \"{}\".{with} {HOW_TO_GO_ON}",
        one_line(text, 200)
    )
}

fn who_is_here(agents: &[AgentView]) -> String {
    let count = agents.len();
    if count == 0 {
        return NOBODY.to_owned();
    }
    let noun = if count == 1 { "agent is" } else { "agents are" };
    let mut text = format!("{count} {noun} known here:");
    // Online agents first; each group is sorted by name.
    let (online, offline): (Vec<_>, Vec<_>) =
        agents.iter().partition(|agent| agent.presence == Presence::Online);
    for agent in online.iter().chain(&offline).take(LISTED) {
        let presence = match agent.presence {
            Presence::Online => "online",
            Presence::Offline => "offline",
        };
        let _ = write!(text, "\n  {} ({presence})", agent.agent_id);
        if let Some(role) = &agent.profile.role {
            let _ = write!(text, ", {}", one_line(role, 100));
        }
    }
    if count > LISTED {
        let _ = write!(text, "\n  and {} more; GET /bus/agents lists all", count - LISTED);
    }
    text.push_str("\nEach takes messages below /agents/{id}/.");
    text
}

async fn status(system: &BusSystem) -> String {
    let agents = system.agents().await;
    let online = agents.iter().filter(|agent| agent.presence == Presence::Online).count();
    let pending: usize = agents.iter().map(|agent| agent.pending).sum();
    let stats = system.stats();
    let disk = if stats.is_writing() { "takes records" } else { "REFUSES records" };
    format!(
        "Agents: {online} online of {}. Messages since the start: {} accepted, {} refused, \
         {} acknowledged, {} dead letters; {pending} pending. The journal {disk}.",
        agents.len(),
        stats.accepted(),
        stats.refused(),
        stats.acknowledged(),
        stats.dead_letters(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_directory_is_stated_in_words() {
        let response = who_is_here(&[]);
        assert!(
            response.starts_with("No agent is known here yet") && !response.contains('0'),
            "{response}"
        );
    }
}
