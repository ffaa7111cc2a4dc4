//! Sends a message to an agent: creates a task, or appends to an open one.

use std::sync::Arc;

use a2a_protocol::fault::Fault;
use a2a_protocol::operation::{SendMessage, StreamEvent};
use a2a_protocol::opt::{HistoryScope, OptHints, without_opt};
use a2a_protocol::task::{Message, OpaqueId, Role};
use a2a_protocol::{AgentId, TaskId};
use a2a_taskdb::{Repeated, SentMessage, StoredTask};
use tokio::sync::oneshot;

use super::subscribe::TaskStream;
use super::{SendOutcome, TaskCaller, TaskSystem, invalid, stopping};
use crate::Submission;
use crate::tasks::outgoing::OutgoingRequest;
use crate::tasks::outgoing::receipt_fault;
use crate::tasks::service::subscribers::TaskEvent;
use crate::tasks::service::{Continue, Submit, SubmitDeferred, TaskReply, WaitFor, WaitForEnd};
use crate::tasks::{new_task, outgoing};

/// Earlier messages of the conversation in a request whose agent gets them.
const CONTEXT_MESSAGES: usize = 100;
/// Messages up to this size count by number only, and not against the byte limit.
pub(super) const SMALL: usize = 4 * 1024;

impl TaskSystem {
    /// Sends a message and returns the task or the plain answer.
    ///
    /// # Errors
    /// When the message, the task it names, or the caller's limits do not allow it.
    pub async fn send(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        send: SendMessage,
    ) -> Result<SendOutcome, Fault> {
        let wait_for = if send.return_immediately { WaitFor::Created } else { WaitFor::End };
        let length = send.history_length;
        let sent = SentMessage::of(&send.message);
        let reply = self.submit(caller, agent, send, sent, wait_for).await?;
        self.await_outcome(reply, wait_for, length).await
    }

    /// Resolves the reply to a message for a caller without a stream.
    pub(super) async fn await_outcome(
        &self,
        reply: TaskReply,
        wait_for: WaitFor,
        history_length: Option<usize>,
    ) -> Result<SendOutcome, Fault> {
        let reply = match reply {
            TaskReply::Duplicate(task) if wait_for == WaitFor::End => self.wait(task).await?,
            TaskReply::Duplicate(task) => TaskReply::Task(Arc::new(self.read(task).await?)),
            other => other,
        };
        match reply {
            TaskReply::Task(mut task) => {
                if history_length.is_some_and(|most| most < task.history.len()) {
                    Arc::make_mut(&mut task).cut_history(history_length);
                }
                Ok(SendOutcome::Task(task))
            }
            TaskReply::Message(message) => Ok(SendOutcome::Message(message)),
            TaskReply::Stream(_) | TaskReply::Duplicate(_) | TaskReply::NeedsStore(..) => {
                Err(Fault::Internal)
            }
        }
    }

    /// Sends a message and streams the events of its task.
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
        let reply = self.submit(caller, agent, send, sent, WaitFor::Stream).await?;
        Ok(self.open_stream(reply, after).await?.with_history(length))
    }

    pub(super) async fn open_stream(
        &self,
        reply: TaskReply,
        after: Option<u64>,
    ) -> Result<TaskStream, Fault> {
        match reply {
            TaskReply::Stream(events) => Ok(TaskStream::new(Vec::new(), Some(events))),
            TaskReply::Message(message) => {
                let event = Arc::new(StreamEvent::Message(message));
                Ok(TaskStream::new(vec![TaskEvent { number: 0, event, last: true }], None))
            }
            // A repeat after a lost stream continues where that ended.
            TaskReply::Duplicate(task) => self.stream_events(task, after, false).await,
            TaskReply::Task(_) | TaskReply::NeedsStore(..) => Err(Fault::Internal),
        }
    }

    /// Submits a message. `sent` is the message as the client sent it.
    pub(super) async fn submit(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        send: SendMessage,
        sent: SentMessage,
        wait_for: WaitFor,
    ) -> Result<TaskReply, Fault> {
        require_user_role(&send.message)?;
        if sent.bytes > SMALL {
            self.charge(caller, agent, false, sent.bytes).await?;
        }
        if let Some(named) = send.message.task_id.clone() {
            return Box::pin(self.continue_task(caller, agent, send, sent, &named, wait_for)).await;
        }
        self.intercept_replies_for(&caller.principal, caller.is_client).await?;
        if self.is_client_name(agent) {
            return Err(Fault::no_such_agent(agent.as_str()));
        }
        let now = self.clock.now();
        let SendMessage { message, push, mut metadata, .. } = send;
        // Only the server sets the metadata of the OPT extension on tasks.
        without_opt(&mut metadata);
        let stored = new_task::new_task(caller, agent, message, metadata, now);
        // The span of the call has the client's trace already. A trace made here is added, so that
        // the log shows one trace from the first span on.
        if stored.trace.is_none() {
            tracing::Span::current().record("trace", tracing::field::display(stored.trace().id()));
        }
        let earlier = self.context_history(&stored).await?;
        let request = outgoing::request(&stored, &earlier, now)
            .map_err(|error| invalid("/message", &error.to_string()))?;
        let (stored, submission) = match (wait_for, &push) {
            (WaitFor::End, None) => {
                match self.submit_deferred(stored, request, sent.clone()).await? {
                    TaskReply::NeedsStore(stored, submission) => (*stored, *submission),
                    reply => return Ok(reply),
                }
            }
            _ => (stored, request.submission),
        };
        let reply = match self.assess(&stored, submission).await {
            Err(refused) => Err(refused),
            Ok(submission) => {
                let push = push.map(|push| new_task::push_with_id(push, stored.task.id));
                let (reply, answer) = oneshot::channel();
                self.post(Submit {
                    stored,
                    sent: sent.clone(),
                    submission,
                    push,
                    wait_for,
                    reply,
                })?;
                answer.await.unwrap_or_else(|_| Err(stopping()))
            }
        };
        match reply {
            // A duplicate is charged like any call and may exceed a limit.
            Err(fault @ (Fault::MessageConflict { .. } | Fault::RateLimited { .. })) => Err(fault),
            // A message that was accepted once is not refused now, for a full queue or otherwise.
            Err(refused) => {
                let duplicate = self.find_duplicate(&caller.owner, agent, sent).await?;
                duplicate.ok_or(refused)
            }
            reply => reply,
        }
    }

    /// Messages of earlier tasks of the conversation, where the client asked for them.
    pub(super) async fn context_history(&self, stored: &StoredTask) -> Result<Vec<Message>, Fault> {
        let Some(message) = stored.task.history.last() else { return Ok(Vec::new()) };
        // A task outside a plan has no scope between its own history and the conversation.
        if OptHints::history_scope_of(message)? != Some(HistoryScope::Objective) {
            return Ok(Vec::new());
        }
        let (owner, agent) = (Arc::clone(&stored.owner), stored.agent.clone());
        let context = stored.task.context_id.clone();
        self.await_store().await?;
        self.read_store(move |reader| {
            reader.history_of_context(&owner, &agent, &context, CONTEXT_MESSAGES)
        })
        .await
    }

    /// Starts the task before its row exists, where that is possible.
    pub(super) async fn submit_deferred(
        &self,
        stored: StoredTask,
        request: OutgoingRequest,
        sent: SentMessage,
    ) -> Result<TaskReply, Fault> {
        let (reply, answer) = oneshot::channel();
        self.post(SubmitDeferred { stored, sent, request, reply })?;
        answer.await.unwrap_or_else(|_| Err(stopping()))
    }

    pub(super) async fn continue_task(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        send: SendMessage,
        sent: SentMessage,
        named: &OpaqueId,
        wait_for: WaitFor,
    ) -> Result<TaskReply, Fault> {
        let stored = self.owned(caller, agent, named).await?;
        if let Some(context) = &send.message.context_id
            && *context != stored.task.context_id
        {
            let why = format!("task {named} belongs to context {}", stored.task.context_id);
            return Err(invalid("/message/contextId", &why));
        }
        if stored.owner != caller.owner {
            // The agent would take the message for the owner's.
            let reason = format!("task {named} is {}'s: you may see it and stop it", stored.owner);
            return Err(Fault::Forbidden { reason });
        }
        let now = self.clock.now();
        let mut message = send.message;
        message.context_id = Some(stored.task.context_id.clone());
        let addition = outgoing::addition(&stored, &message, caller.trace.clone(), now)
            .ok_or(Fault::Internal)?;
        // Before the duplicate check: a duplicate is charged, too.
        let assessed = self.assess(&stored, addition).await;
        if let Err(limited @ Fault::RateLimited { .. }) = assessed {
            return Err(limited);
        }
        if let Some(duplicate) = self.find_duplicate(&caller.owner, agent, sent.clone()).await? {
            return Ok(duplicate);
        }
        if stored.task.status.state.is_terminal() {
            let state = stored.task.status.state.short_name();
            let reason =
                format!("task {named} has ended ({state}); begin a new one without a taskId");
            return Err(Fault::Unsupported { reason });
        }
        let addition = assessed?;
        if let Some(push) = send.push {
            self.put_push(stored.task.id, new_task::push_with_id(push, stored.task.id)).await?;
        }
        let (reply, answer) = oneshot::channel();
        self.post(Continue { task: stored.task.id, message, sent, addition, wait_for, reply })?;
        answer.await.unwrap_or_else(|_| Err(stopping()))
    }

    /// Runs the bus's admission for a request in the caller's name, and charges it.
    pub(super) async fn assess(
        &self,
        stored: &StoredTask,
        submission: Submission,
    ) -> Result<Submission, Fault> {
        let caller = outgoing::speaker(stored, false);
        self.bus
            .assess(caller, submission)
            .await
            .map_err(|receipt| receipt_fault(&stored.agent, &receipt))
    }

    /// The reply to a message that is a duplicate.
    ///
    /// # Errors
    /// When its id was used for another message.
    pub(super) async fn find_duplicate(
        &self,
        owner: &Arc<str>,
        agent: &AgentId,
        message: SentMessage,
    ) -> Result<Option<TaskReply>, Fault> {
        self.await_store().await?;
        let (owner, agent) = (Arc::clone(owner), agent.clone());
        let id = message.id.clone();
        let found = self.read_store(move |reader| reader.message(&owner, &agent, &message)).await?;
        found.map(|found| duplicate_reply(found, &id)).transpose()
    }

    pub(in crate::tasks) async fn wait(&self, task: TaskId) -> Result<TaskReply, Fault> {
        let (reply, answer) = oneshot::channel();
        self.post(WaitForEnd { task, reply })?;
        match answer.await.unwrap_or_else(|_| Err(stopping())) {
            // The task has ended and was evicted.
            Err(Fault::TaskNotFound { .. }) => {
                Ok(TaskReply::Task(Arc::new(self.read(task).await?)))
            }
            other => other,
        }
    }
}

/// The reply to a message whose id is in the store.
pub(in crate::tasks) fn duplicate_reply(
    found: Repeated,
    id: &OpaqueId,
) -> Result<TaskReply, Fault> {
    match found {
        Repeated::Task(first) => Ok(TaskReply::Duplicate(first)),
        Repeated::Answer(message) => Ok(TaskReply::Message(message)),
        Repeated::DifferentContent => Err(Fault::MessageConflict { message: id.to_string() }),
    }
}

/// Refuses messages in the role of an agent: agents use the bus.
pub(super) fn require_user_role(message: &Message) -> Result<(), Fault> {
    match message.role {
        Role::User => Ok(()),
        Role::Agent => {
            Err(invalid("/message/role", "only agents speak as one; say that you are a user"))
        }
    }
}
