//! Built-in agent for A2A conformance kits: the prefix of a message id, or of its text, selects the
//! behaviour.
//!
//! The table of prefixes is in `script`. The agent does not see the kit's transport. It only reads
//! which A2A version the caller uses: the kit for 0.3 expects tasks that stay open, the one for 1.0
//! tasks that end.

mod script;

use std::time::Duration;

use a2a_actors::Delivery;
use a2a_protocol::body::TaskRequest;
use a2a_protocol::task::{Artifact, Content, Message, Part, Role};
use serde_json::json;

use super::{WINDOW, pause, send};
use crate::{
    A2aRequest, Agent, AttachError, Bus, Draft, Handlers, SendError, StatusReport, TaskAnswer,
};
use script::{ArtifactContent, Script, script_of};

/// Agent id of the conformance agent.
pub const NAME: &str = "conformance";

/// Durations of the timed scripts; the defaults match what the kits expect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conformance {
    /// Working time of a task that stays open or runs long.
    pub pause: Duration,
    /// Working time of a task that a kit subscribes to again: twice the kit's own timeout.
    pub long: Duration,
}

impl Default for Conformance {
    fn default() -> Self {
        Self { pause: Duration::from_secs(3), long: Duration::from_secs(4) }
    }
}

impl Conformance {
    /// Attaches the agent to a bus.
    ///
    /// # Errors
    /// When the bus refuses the agent.
    pub async fn attach(self, bus: &Bus) -> Result<Agent, AttachError> {
        let work = move |me: Agent, delivery: Delivery, _: TaskRequest| async move {
            let script = A2aRequest::of(&delivery).map_or(Script::Complete, |asked| choose(&asked));
            ScriptRun { me: &me, delivery: &delivery, settings: self }.play(script).await
        };
        bus.attach_concurrent(NAME, WINDOW, Handlers::new().on_task_request(work)).await
    }
}

/// Selects the script for a message.
fn choose(asked: &A2aRequest) -> Script {
    if let Some(script) = named_by(&asked.message) {
        return script;
    }
    let otherwise = if asked.version.as_deref().is_some_and(|version| version.starts_with("0.")) {
        Script::StayOpen
    } else {
        Script::Complete
    };
    // A multi-turn task ends when a later message of it is "done".
    let first = asked.history.iter().find(|message| message.role == Role::User);
    match first.and_then(named_by) {
        Some(Script::MultiTurn) if is_done(&asked.message) => Script::Complete,
        Some(Script::MultiTurn) => Script::MultiTurn,
        Some(_) => Script::Complete,
        None => otherwise,
    }
}

/// The id takes precedence over the text: a kit that sets ids reuses the same text for every task.
fn named_by(message: &Message) -> Option<Script> {
    script_of(message.message_id.as_str()).or_else(|| script_of(message.text().trim_start()))
}

fn is_done(message: &Message) -> bool {
    message.text().trim().eq_ignore_ascii_case("done")
}

/// One run of a script for one delivery.
struct ScriptRun<'a> {
    me: &'a Agent,
    delivery: &'a Delivery,
    settings: Conformance,
}

impl ScriptRun<'_> {
    async fn play(&self, script: Script) -> Result<(), SendError> {
        match script {
            Script::Complete => self.answer(completed("Hello from TCK")).await,
            Script::Finish => self.answer(completed("Done.")).await,
            Script::Artifact(content) => {
                let answer = completed("Here it is.");
                self.answer(answer.artifact(&artifact(content.part()))).await
            }
            Script::Message => self.answer(completed("Direct message response").directly()).await,
            Script::AskInput => self.answer(self.ask("More input is needed.")).await,
            Script::MultiTurn => {
                self.answer(self.ask("Go on; say \"done\" when that was all.")).await
            }
            Script::AskCredentials => {
                self.answer(self.ask("Credentials are needed.").for_credentials()).await
            }
            Script::Reject => self.answer(TaskAnswer::declined("rejected")).await,
            Script::Fail => self.answer(TaskAnswer::failed("It was asked to fail.")).await,
            Script::Stream(content) => self.stream(content).await,
            Script::StreamChunks => self.stream_chunks().await,
            Script::Resubscribe => self.work(self.settings.long, completed("Done.")).await,
            Script::LongRunning => {
                let part = Part::text("The long work is done.");
                let answer = TaskAnswer::completed("Done.").artifact(&artifact(part));
                self.work(self.settings.pause, answer).await
            }
            Script::StayOpen => self.work(self.settings.pause, self.ask("What next?")).await,
            Script::WaitForCancel => {
                if self.report("Working until cancelled.").await? {
                    self.delivery.cancelled().await;
                }
                Ok(())
            }
        }
    }

    /// Builds a question with a unique number. Identical questions to one caller would trip the
    /// circuit breaker.
    fn ask(&self, question: &str) -> TaskAnswer {
        TaskAnswer::blocked(format!("{question} ({})", self.delivery.seq))
    }

    /// Sends the only answer of a script.
    async fn answer(&self, answer: TaskAnswer) -> Result<(), SendError> {
        self.send(answer).await.map(drop)
    }

    async fn report(&self, progress: &str) -> Result<bool, SendError> {
        let progress = format!("{progress} ({})", self.delivery.seq);
        self.send(StatusReport::in_progress(progress)).await
    }

    async fn send(&self, draft: impl Draft) -> Result<bool, SendError> {
        send(self.me, self.delivery, self.me.write(self.delivery, draft)?).await
    }

    /// Reports progress, waits for `time` and answers. Stops early when the task is cancelled.
    async fn work(&self, time: Duration, answer: TaskAnswer) -> Result<(), SendError> {
        if self.report("Working.").await? && pause(self.delivery, time).await {
            self.answer(answer).await?;
        }
        Ok(())
    }

    async fn stream(&self, content: ArtifactContent) -> Result<(), SendError> {
        let whole = StatusReport::in_progress(format!("An artifact. ({})", self.delivery.seq));
        let whole = whole.artifact(&artifact(content.part()), false, true);
        if self.report("Working.").await? && self.send(whole).await? {
            self.answer(completed("Done.")).await?;
        }
        Ok(())
    }

    async fn stream_chunks(&self) -> Result<(), SendError> {
        if !self.report("Working.").await? {
            return Ok(());
        }
        for (text, append) in [("chunk-1 ", false), ("chunk-2", true)] {
            let chunk = StatusReport::in_progress(format!("A piece. ({})", self.delivery.seq));
            let chunk = chunk.artifact(&artifact(Part::text(text)), append, append);
            if !self.send(chunk).await? {
                return Ok(());
            }
        }
        self.answer(completed("Done.")).await
    }
}

/// A completed answer whose summary is also its message. It has no default artifact, because the
/// scripts define theirs.
fn completed(summary: &str) -> TaskAnswer {
    TaskAnswer::completed(summary).message(summary)
}

/// The only artifact of a task. Its id is constant, so running the script again changes nothing.
fn artifact(part: Part) -> Artifact {
    let artifact_id =
        "artifact-1".try_into().unwrap_or_else(|_| unreachable!("short and not blank"));
    Artifact {
        artifact_id,
        name: Some("result".to_owned()),
        description: None,
        parts: vec![part],
        metadata: None,
        extensions: Vec::new(),
    }
}

impl ArtifactContent {
    fn part(self) -> Part {
        let file = |content| Part {
            filename: Some("output.txt".to_owned()),
            media_type: Some("text/plain".to_owned()),
            ..Part::from(content)
        };
        match self {
            Self::Text(text) => Part::text(text),
            // "tck" in base64.
            Self::File => file(Content::Raw("dGNr".to_owned())),
            Self::FileUrl => file(Content::Url("https://example.com/output.txt".to_owned())),
            Self::Data => Content::Data(json!({ "key": "value", "count": 42 })).into(),
        }
    }
}
