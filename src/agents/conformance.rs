//! The agent that conformance kits talk to. A kit chooses its behaviour by how the id of a message
//! begins, or its text; what it does then stands in one table.
//!
//! It knows nothing of the kits' transports, and of A2A's versions only which one the caller
//! speaks: the kit for 0.3 wants tasks that stay open, the one for 1.0 tasks that end.

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

/// Its name.
pub const NAME: &str = "conformance";

/// How long it takes for what takes time; the defaults are what the kits expect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conformance {
    /// How long a task is worked on that stays open, or that takes long.
    pub pause: Duration,
    /// How long a task is worked on that a kit comes back to: twice its own patience.
    pub long: Duration,
}

impl Default for Conformance {
    fn default() -> Self {
        Self { pause: Duration::from_secs(3), long: Duration::from_secs(4) }
    }
}

impl Conformance {
    /// Brings it in.
    ///
    /// # Errors
    /// When the bus takes no agent of that name.
    pub async fn attach(self, bus: &Bus) -> Result<Agent, AttachError> {
        let work = move |me: Agent, delivery: Delivery, _: TaskRequest| async move {
            let script = A2aRequest::of(&delivery).map_or(Script::Complete, |asked| choose(&asked));
            ScriptRun { me: &me, delivery: &delivery, settings: self }.play(script).await
        };
        bus.attach_many(NAME, WINDOW, Handlers::new().on_task_request(work)).await
    }
}

/// What is to be done for a message.
fn choose(asked: &A2aRequest) -> Script {
    if let Some(script) = named_by(&asked.message) {
        return script;
    }
    let otherwise = if asked.version.as_deref().is_some_and(|version| version.starts_with("0.")) {
        Script::StayOpen
    } else {
        Script::Complete
    };
    // What goes on with a task that asks again and again is done when it says so.
    let first = asked.history.iter().find(|message| message.role == Role::User);
    match first.and_then(named_by) {
        Some(Script::MultiTurn) if is_done(&asked.message) => Script::Complete,
        Some(Script::MultiTurn) => Script::MultiTurn,
        Some(_) => Script::Complete,
        None => otherwise,
    }
}

/// The id counts before the text: a kit that knows ids uses the same few words for every task.
fn named_by(message: &Message) -> Option<Script> {
    script_of(message.message_id.as_str()).or_else(|| script_of(message.text().trim_start()))
}

fn is_done(message: &Message) -> bool {
    message.text().trim().eq_ignore_ascii_case("done")
}

/// One task at work.
struct ScriptRun<'a> {
    me: &'a Agent,
    delivery: &'a Delivery,
    settings: Conformance,
}

impl ScriptRun<'_> {
    async fn play(&self, script: Script) -> Result<(), SendError> {
        match script {
            Script::Complete => self.say(completed("Hello from TCK")).await,
            Script::Finish => self.say(completed("Done.")).await,
            Script::Artifact(content) => {
                let answer = completed("Here it is.");
                self.say(answer.artifact(&artifact(content.part()))).await
            }
            Script::Message => self.say(completed("Direct message response").directly()).await,
            Script::AskInput => self.say(self.ask("More input is needed.")).await,
            Script::MultiTurn => self.say(self.ask("Go on; say \"done\" when that was all.")).await,
            Script::AskCredentials => {
                self.say(self.ask("Credentials are needed.").for_credentials()).await
            }
            Script::Reject => self.say(TaskAnswer::declined("rejected")).await,
            Script::Fail => self.say(TaskAnswer::failed("It was asked to fail.")).await,
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
                if self.report("Working until called off.").await? {
                    self.delivery.cancelled().await;
                }
                Ok(())
            }
        }
    }

    /// A question with a number of its own: to the bus, the same words to the same caller over and
    /// over are a loop.
    fn ask(&self, question: &str) -> TaskAnswer {
        TaskAnswer::blocked(format!("{question} ({})", self.delivery.seq))
    }

    /// The one answer.
    async fn say(&self, answer: TaskAnswer) -> Result<(), SendError> {
        self.send(answer).await.map(drop)
    }

    async fn report(&self, progress: &str) -> Result<bool, SendError> {
        let progress = format!("{progress} ({})", self.delivery.seq);
        self.send(StatusReport::in_progress(progress)).await
    }

    async fn send(&self, draft: impl Draft) -> Result<bool, SendError> {
        send(self.me, self.delivery, self.me.write(self.delivery, draft)?).await
    }

    /// Works for a while and then answers, unless the task is called off.
    async fn work(&self, time: Duration, answer: TaskAnswer) -> Result<(), SendError> {
        if self.report("Working.").await? && pause(self.delivery, time).await {
            self.say(answer).await?;
        }
        Ok(())
    }

    async fn stream(&self, content: ArtifactContent) -> Result<(), SendError> {
        let whole = StatusReport::in_progress(format!("An artifact. ({})", self.delivery.seq));
        let whole = whole.artifact(&artifact(content.part()), false, true);
        if self.report("Working.").await? && self.send(whole).await? {
            self.say(completed("Done.")).await?;
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
        self.say(completed("Done.")).await
    }
}

/// Done, with a word about it. Said as a message, it makes no artifact: the scripts name theirs.
fn completed(summary: &str) -> TaskAnswer {
    TaskAnswer::completed(summary).saying(summary)
}

/// The one artifact of a task; its name stays, so that doing the work again changes nothing.
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
