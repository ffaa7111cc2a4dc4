//! Push configs of tasks, and the webhook outbox for its dispatcher.

use a2a_protocol::fault::Fault;
use a2a_protocol::operation::{ListPushes, PushConfig, PushKey};
use a2a_protocol::task::{OpaqueId, UtcMillis};
use a2a_protocol::{AgentId, Code, TaskId, Violation};
use a2a_taskdb::{OutboxEntry, PushToken, Write, WriteOutcome};
use tokio::sync::oneshot;

use super::{TaskCaller, TaskSystem, invalid, stopping};
use crate::tasks::new_task;
use crate::tasks::service::{WritePush, store_unavailable};

/// Push configs per task.
const PUSHES_PER_TASK: usize = 20;

impl TaskSystem {
    /// Sets a push config: the server calls its webhook for each event of the task.
    ///
    /// # Errors
    /// When there is no such task, or it has too many push configs.
    pub async fn set_push(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        config: PushConfig,
    ) -> Result<PushConfig, Fault> {
        let named = config.task_id.clone().ok_or_else(|| invalid("/taskId", "is missing"))?;
        let task = self.owned(caller, agent, &named).await?.task.id;
        let config = new_task::push_with_id(config, task);
        self.put_push(task, config.clone()).await?;
        Ok(config)
    }

    pub(super) async fn put_push(&self, task: TaskId, config: PushConfig) -> Result<(), Fault> {
        let known = self.read_store(move |reader| reader.pushes(task)).await?;
        if known.len() >= PUSHES_PER_TASK && known.iter().all(|other| other.id != config.id) {
            let why =
                format!("a task has at most {PUSHES_PER_TASK} configurations; delete one first");
            return Err(Fault::InvalidParams(vec![Violation::new("", Code::TooMany, why)]));
        }
        self.write_push(Write::PutPush { task, config }).await.map(drop)
    }

    pub(super) async fn write_push(&self, write: Write) -> Result<WriteOutcome, Fault> {
        let (reply, answer) = oneshot::channel();
        self.post(WritePush { write, reply })?;
        answer.await.map_err(|_| stopping())?.ok_or_else(store_unavailable)
    }

    /// Returns a push config.
    ///
    /// # Errors
    /// When there is none.
    pub async fn get_push(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        key: PushKey,
    ) -> Result<PushConfig, Fault> {
        let owned = self.owned(caller, agent, &key.task_id).await?;
        let task = owned.task.id;
        let all = self.read_store(move |reader| reader.pushes(task)).await?;
        let wanted = |config: &PushConfig| key.id.is_none() || config.id == key.id;
        let found = all.into_iter().find(wanted).ok_or_else(|| no_push(&key))?;
        Ok(redacted(found, caller, &owned.owner))
    }

    /// Returns a page of a task's push configs by id, and the token of the next page; empty at the
    /// end.
    ///
    /// # Errors
    /// When there is no such task, or the token was not made by this server.
    pub async fn list_pushes(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        list: ListPushes,
    ) -> Result<(Vec<PushConfig>, String), Fault> {
        let token = list.page_token.filter(|token| !token.is_empty());
        let token = token.map(|token| token.parse::<PushToken>()).transpose();
        let after = token.map_err(|error| invalid("/pageToken", &error.to_string()))?;
        let size = list.page_size.map_or(PUSHES_PER_TASK, |size| size as usize);
        let owned = self.owned(caller, agent, &list.task_id).await?;
        let task = owned.task.id;
        let mut all = self.read_store(move |reader| reader.pushes(task)).await?;
        all.retain(|config| {
            after.as_ref().is_none_or(|PushToken(name)| config.id > Some(name.clone()))
        });
        all.sort_by(|one, other| one.id.cmp(&other.id));
        let more = all.len() > size;
        all.truncate(size);
        let last = all.last().filter(|_| more).and_then(|config| config.id.clone());
        let next = last.map(|name| PushToken(name).to_string());
        let all = all.into_iter().map(|config| redacted(config, caller, &owned.owner)).collect();
        Ok((all, next.unwrap_or_default()))
    }

    /// Deletes a push config; no error when there is none.
    ///
    /// # Errors
    /// When there is no such task.
    pub async fn delete_push(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        key: PushKey,
    ) -> Result<(), Fault> {
        let task = self.owned(caller, agent, &key.task_id).await?.task.id;
        let id = match key.id {
            Some(id) => id,
            None => {
                match self.read_store(move |reader| reader.pushes(task)).await?.into_iter().next() {
                    Some(PushConfig { id: Some(id), .. }) => id,
                    _ => return Ok(()),
                }
            }
        };
        self.write_push(Write::DeletePush { task, id }).await.map(drop)
    }

    /// Returns the webhook calls that are due.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn due_pushes(&self, limit: usize) -> Result<Vec<OutboxEntry>, Fault> {
        let now = UtcMillis::from(self.clock.now().utc);
        self.read_store(move |reader| reader.outbox_due(now, limit)).await
    }

    /// Returns when the next webhook call is due.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn next_push(&self) -> Result<Option<UtcMillis>, Fault> {
        self.read_store(|reader| reader.next_due()).await
    }

    /// Waits until the outbox may have new entries.
    pub async fn pushes_changed(&self) {
        self.push_notify.notified().await;
    }

    /// Removes a webhook call from the outbox: it was made, or will not be. Returns after the
    /// commit.
    pub async fn push_done(&self, outbox: u64) {
        self.settle_push(Write::PushDone { outbox }).await;
    }

    /// Reschedules a failed webhook call.
    pub async fn push_later(&self, outbox: u64, attempts: u32, next: UtcMillis) {
        self.settle_push(Write::PushRetry { outbox, attempts, next }).await;
    }

    async fn settle_push(&self, write: Write) {
        let _ = self.write_push(write).await;
    }

    /// Deletes the push config of a webhook that refuses further calls.
    pub async fn drop_push(&self, task: TaskId, id: OpaqueId) {
        self.settle_push(Write::DeletePush { task, id }).await;
    }
}

fn no_push(key: &PushKey) -> Fault {
    let id = key.id.as_ref().map_or_else(String::new, ToString::to_string);
    Fault::PushNotFound { task: key.task_id.to_string(), id }
}

/// Removes the secrets of a webhook for callers other than the task's owner. Operators still see
/// its URL.
fn redacted(mut config: PushConfig, caller: &TaskCaller, owner: &str) -> PushConfig {
    if *caller.owner != *owner {
        config.token = None;
        if let Some(authentication) = &mut config.authentication {
            authentication.credentials = None;
        }
    }
    config
}
