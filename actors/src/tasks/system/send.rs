//! Saying something to an agent: a new task, or more about one that is open.

use std::sync::Arc;

use a2a_protocol::fault::Fault;
use a2a_protocol::operation::{SendMessage, StreamEvent};
use a2a_protocol::opt::{HistoryScope, OptHints, without_opt};
use a2a_protocol::task::{Label, Message, Role};
use a2a_protocol::{AgentId, TaskId};
use a2a_taskdb::{Repeated, SentMessage, StoredTask};
use tokio::sync::oneshot;

use super::{Sent, TaskCaller, TaskSystem, invalid, stopping};
use crate::Submission;
use crate::tasks::compose::Composed;
use crate::tasks::refused::refused;
use crate::tasks::service::{Begin, BeginAtOnce, Begun, GoOn, Wait, Want};
use crate::tasks::watch::{Happened, TaskStream};
use crate::tasks::{compose, made};

/// How many messages of a conversation an agent hears that is to hear of it.
const SAID_BEFORE: usize = 100;
/// Messages of so many bytes are bounded by their number alone: they need no look at their size.
pub(super) const SMALL: usize = 4 * 1024;

impl TaskSystem {
    /// Says something to an agent and gives what comes of it.
    ///
    /// # Errors
    /// When the message, the task it names, or the caller's limits do not allow it.
    pub async fn send(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        send: SendMessage,
    ) -> Result<Sent, Fault> {
        let want = if send.return_immediately { Want::Now } else { Want::End };
        let length = send.history_length;
        let sent = SentMessage::of(&send.message);
        let begun = self.begin(caller, agent, send, sent, want).await?;
        self.sent(begun, want, length).await
    }

    /// What a message led to, for a caller that wants no stream.
    pub(super) async fn sent(
        &self,
        begun: Begun,
        want: Want,
        history_length: Option<usize>,
    ) -> Result<Sent, Fault> {
        let begun = match begun {
            Begun::Repeated(task) if want == Want::End => self.wait(task).await?,
            Begun::Repeated(task) => Begun::Task(Arc::new(self.read(task).await?)),
            other => other,
        };
        match begun {
            Begun::Task(mut task) => {
                if history_length.is_some_and(|most| most < task.history.len()) {
                    Arc::make_mut(&mut task).cut_history(history_length);
                }
                Ok(Sent::Task(task))
            }
            Begun::Message(message) => Ok(Sent::Message(message)),
            Begun::Stream(_) | Begun::Repeated(_) | Begun::Unsure(..) => Err(Fault::Internal),
        }
    }

    /// The same, with everything that happens on the way.
    ///
    /// # Errors
    /// When the message, the task it names, or the caller's limits do not allow it.
    pub async fn stream(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        send: SendMessage,
        after: Option<u64>,
    ) -> Result<TaskStream, Fault> {
        let length = send.history_length;
        let sent = SentMessage::of(&send.message);
        let begun = self.begin(caller, agent, send, sent, Want::Stream).await?;
        Ok(self.streamed(begun, after).await?.with_history(length))
    }

    pub(super) async fn streamed(
        &self,
        begun: Begun,
        after: Option<u64>,
    ) -> Result<TaskStream, Fault> {
        match begun {
            Begun::Stream(events) => Ok(TaskStream::new(Vec::new(), Some(events))),
            Begun::Message(message) => {
                let event = Arc::new(StreamEvent::Message(message));
                Ok(TaskStream::new(vec![Happened { number: 0, event, last: true }], None))
            }
            // Said again by one who lost the stream: it goes on where that was.
            Begun::Repeated(task) => self.watch(task, after, false).await,
            Begun::Task(_) | Begun::Unsure(..) => Err(Fault::Internal),
        }
    }

    /// Begins what a message asks for. `sent` is the message as its caller sent it.
    pub(super) async fn begin(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        send: SendMessage,
        sent: SentMessage,
        want: Want,
    ) -> Result<Begun, Fault> {
        must_be_a_users(&send.message)?;
        if sent.bytes > SMALL {
            self.charge(caller, agent, false, sent.bytes).await?;
        }
        if let Some(named) = send.message.task_id.clone() {
            return Box::pin(self.go_on(caller, agent, send, sent, &named, want)).await;
        }
        self.take_answers_for(&caller.principal, caller.alone).await?;
        if self.is_a_callers(agent) {
            return Err(Fault::no_such_agent(agent.as_str()));
        }
        let now = self.clock.now();
        let SendMessage { message, push, mut metadata, .. } = send;
        // What the extension says about a task is the server's to say.
        without_opt(&mut metadata);
        let stored = made::new_task(caller, agent, message, metadata, now);
        // For whoever follows the call in the program's log, from its first span on; a trace that was
        // given stands there already.
        if stored.trace.is_none() {
            tracing::Span::current().record("trace", tracing::field::display(stored.trace().id()));
        }
        let before = self.said_before(&stored).await?;
        let request = compose::request(&stored, &before, now)
            .map_err(|error| invalid("/message", &error.to_string()))?;
        let (stored, submission) = match (want, &push) {
            (Want::End, None) => match self.begin_at_once(stored, request, sent.clone()).await? {
                Begun::Unsure(stored, submission) => (*stored, *submission),
                begun => return Ok(begun),
            },
            _ => (stored, request.submission),
        };
        let begun = match self.assess(&stored, submission).await {
            Err(refused) => Err(refused),
            Ok(submission) => {
                let push = push.map(|push| made::named_push(push, stored.task.id));
                let (reply, answer) = oneshot::channel();
                self.tell(Begin { stored, sent: sent.clone(), submission, push, want, reply })?;
                answer.await.unwrap_or_else(|_| Err(stopping()))
            }
        };
        match begun {
            // A repeat is a call like any other, so it is charged and may be refused for that.
            Err(fault @ (Fault::MessageConflict { .. } | Fault::RateLimited { .. })) => Err(fault),
            // What was taken once is not refused now, for want of room or anything else.
            Err(refused) => {
                let heard = self.heard_before(&caller.owner, agent, sent).await?;
                heard.ok_or(refused)
            }
            begun => begun,
        }
    }

    /// What was said about other tasks of the conversation, where its agent is to hear of it.
    pub(super) async fn said_before(&self, stored: &StoredTask) -> Result<Vec<Message>, Fault> {
        let Some(message) = stored.task.history.last() else { return Ok(Vec::new()) };
        // Outside of a plan there is nothing between the task and its conversation.
        if OptHints::history_scope_of(message)? != Some(HistoryScope::Objective) {
            return Ok(Vec::new());
        }
        let (owner, agent) = (Arc::clone(&stored.owner), stored.agent.clone());
        let context = stored.task.context_id.clone();
        self.caught_up().await?;
        self.look(move |reader| reader.history_of_context(&owner, &agent, &context, SAID_BEFORE))
            .await
    }

    /// Asks the agent before anything is on the disk, where that is as good.
    pub(super) async fn begin_at_once(
        &self,
        stored: StoredTask,
        request: Composed,
        sent: SentMessage,
    ) -> Result<Begun, Fault> {
        let (reply, answer) = oneshot::channel();
        self.tell(BeginAtOnce { stored, sent, request, reply })?;
        answer.await.unwrap_or_else(|_| Err(stopping()))
    }

    pub(super) async fn go_on(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        send: SendMessage,
        sent: SentMessage,
        named: &Label,
        want: Want,
    ) -> Result<Begun, Fault> {
        let stored = self.owned(caller, agent, named).await?;
        if let Some(context) = &send.message.context_id
            && *context != stored.task.context_id
        {
            let why = format!("task {named} belongs to context {}", stored.task.context_id);
            return Err(invalid("/message/contextId", &why));
        }
        if stored.owner != caller.owner {
            // Its agent could not tell who speaks.
            let reason = format!("task {named} is {}'s: you may see it and stop it", stored.owner);
            return Err(Fault::Forbidden { reason });
        }
        let now = self.clock.now();
        let mut message = send.message;
        message.context_id = Some(stored.task.context_id.clone());
        let addition = compose::addition(&stored, &message, caller.trace.clone(), now)
            .ok_or(Fault::Internal)?;
        // First of all: a repeat is charged, too.
        let assessed = self.assess(&stored, addition).await;
        if let Err(limited @ Fault::RateLimited { .. }) = assessed {
            return Err(limited);
        }
        if let Some(heard) = self.heard_before(&caller.owner, agent, sent.clone()).await? {
            return Ok(heard);
        }
        if stored.task.status.state.is_terminal() {
            let state = stored.task.status.state.in_a_word();
            let reason =
                format!("task {named} has ended ({state}); begin a new one without a taskId");
            return Err(Fault::Unsupported { reason });
        }
        let addition = assessed?;
        if let Some(push) = send.push {
            self.put_push(stored.task.id, made::named_push(push, stored.task.id)).await?;
        }
        let (reply, answer) = oneshot::channel();
        self.tell(GoOn { task: stored.task.id, message, sent, addition, want, reply })?;
        answer.await.unwrap_or_else(|_| Err(stopping()))
    }

    /// Whether the bus would take this in the caller's name; it is charged.
    pub(super) async fn assess(
        &self,
        stored: &StoredTask,
        submission: Submission,
    ) -> Result<Submission, Fault> {
        let caller = compose::speaker(stored, false);
        self.bus
            .assess(caller, submission)
            .await
            .map_err(|receipt| refused(&stored.agent, &receipt))
    }

    /// What came of a message, if it was heard before.
    ///
    /// # Errors
    /// When its id was used for another message.
    pub(super) async fn heard_before(
        &self,
        owner: &Arc<str>,
        agent: &AgentId,
        message: SentMessage,
    ) -> Result<Option<Begun>, Fault> {
        self.caught_up().await?;
        let (owner, agent) = (Arc::clone(owner), agent.clone());
        let id = message.id.clone();
        let found = self.look(move |reader| reader.message(&owner, &agent, &message)).await?;
        found.map(|found| repeated(found, &id)).transpose()
    }

    pub(super) async fn wait(&self, task: TaskId) -> Result<Begun, Fault> {
        let (reply, answer) = oneshot::channel();
        self.tell(Wait { task, reply })?;
        match answer.await.unwrap_or_else(|_| Err(stopping())) {
            // It has ended and is the store's alone.
            Err(Fault::TaskNotFound { .. }) => Ok(Begun::Task(Arc::new(self.read(task).await?))),
            other => other,
        }
    }
}

/// What a caller gets for a message whose id the store knows.
pub(in crate::tasks) fn repeated(found: Repeated, id: &Label) -> Result<Begun, Fault> {
    match found {
        Repeated::Task(first) => Ok(Begun::Repeated(first)),
        Repeated::Answer(message) => Ok(Begun::Message(message)),
        Repeated::Other => Err(Fault::MessageConflict { message: id.to_string() }),
    }
}

/// Whoever calls speaks for itself: what agents say, they say over the bus.
pub(super) fn must_be_a_users(message: &Message) -> Result<(), Fault> {
    match message.role {
        Role::User => Ok(()),
        Role::Agent => {
            Err(invalid("/message/role", "only agents speak as one; say that you are a user"))
        }
    }
}
