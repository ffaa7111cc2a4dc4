//! Taking up what was open before a restart, and what a crash kept from the store.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use a2a_protocol::task::Label;
use a2a_protocol::{AgentId, TaskId};
use a2a_taskdb::StoredTask;
use actix::prelude::*;
use futures_util::future::join_all;
use tokio::sync::oneshot;

use super::{StartTasksError, TaskSystem};
use crate::bus::router::Ledgered;
use crate::tasks::objectives::OpenObjective;
use crate::tasks::recovery;
use crate::tasks::service::{Cancel, Restore, Resume, ResumeUnanswered};

/// How long the start waits for an answer that the journal has.
const LONGEST_END: Duration = Duration::from_secs(5);

impl TaskSystem {
    /// Takes up what was open before the restart. The clerk is there before anybody is asked.
    pub(super) fn restore(
        &self,
        open: Vec<StoredTask>,
        objectives: Vec<OpenObjective>,
    ) -> Result<(), StartTasksError> {
        let (done, restored) = std::sync::mpsc::sync_channel(1);
        let system = self.clone();
        // Of its own, so that a start needs no runtime around it.
        let thread = std::thread::Builder::new().name("a2a-restore".into()).spawn(move || {
            System::new().block_on(async move {
                let result = system.recover(open, objectives).await;
                let _ = done.send(result);
            });
        });
        thread.map_err(StartTasksError::Thread)?;
        restored.recv().map_err(|_| StartTasksError::EndedEarly)?
    }

    async fn recover(
        &self,
        open: Vec<StoredTask>,
        objectives: Vec<OpenObjective>,
    ) -> Result<(), StartTasksError> {
        let rebuilt = self.rebuilt().await?;
        let of_objectives = objectives.iter().map(|(tree, _)| &tree.stored);
        let of_objectives = of_objectives.map(|stored| (&stored.principal, &stored.owner));
        let of_tasks = open.iter().chain(&rebuilt).map(|stored| (&stored.principal, &stored.owner));
        let mut names: Vec<(AgentId, bool)> = of_tasks
            .chain(of_objectives)
            .map(|(principal, owner)| (principal.clone(), !owner.starts_with("agent:")))
            .collect();
        names.sort();
        names.dedup();
        let ended: Vec<TaskId> = rebuilt.iter().map(|stored| stored.task.id).collect();
        let handed_over = open.iter().filter(|stored| stored.dispatched);
        let handed_over: Vec<TaskId> = handed_over.map(|stored| stored.task.id).collect();
        // Answers may lie there already, so the tasks they belong to come first.
        let restore = Restore { open, rebuilt, objectives };
        let running = self.service.send(restore).await.unwrap_or_default();
        for (name, is_client) in names {
            if let Err(fault) = self.intercept_replies_for(&name, is_client).await {
                tracing::error!(%fault, %name, "answers for this name cannot be taken");
            }
        }
        self.reconcile(handed_over).await?;
        let _ = self.service.send(Resume(running)).await;
        // Their callers know that they have ended, so nobody is to see them at work.
        let end = join_all(ended.iter().map(|&task| self.wait(task)));
        if tokio::time::timeout(LONGEST_END, end).await.is_err() {
            tracing::error!("the answers to some tasks are in the journal and do not come");
            let _ = self.service.send(ResumeUnanswered(ended)).await;
        }
        Ok(())
    }

    /// Brings store and ledger into line where a crash came between the two: what has ended in
    /// the store is cancelled on the bus, so that its request is not handed out any more, and what
    /// was cancelled on the bus is cancelled in the store.
    async fn reconcile(&self, handed_over: Vec<TaskId>) -> Result<(), StartTasksError> {
        let Ledgered { open, cancelled } = self.bus.compare_ledger(handed_over).await;
        for id in self.reader.ended_among(&open)? {
            let Some(stored) = self.reader.get(id)? else { continue };
            let state = stored.task.status.state.in_a_word();
            let reason = format!("its A2A task was {state} when the server stopped");
            if let Err(error) = self.bus.cancel_task(id, Some(stored.principal), reason).await {
                tracing::error!(%error, task = %id, "ended in the store, and open on the bus");
            }
        }
        for task in cancelled {
            let (reply, done) = oneshot::channel();
            let reason = Some("it was cancelled on the bus".to_owned());
            let _ = self.service.send(Cancel { task, reason, reply }).await;
            if let Ok(Err(fault)) = done.await {
                tracing::error!(%fault, %task, "cancelled on the bus, and open in the store");
            }
        }
        Ok(())
    }

    /// Tasks of which the journal has the end and the store nothing: a crash came between.
    async fn rebuilt(&self) -> Result<Vec<StoredTask>, StartTasksError> {
        let journal = self.bus.reader();
        let mut rebuilt: HashMap<(Arc<str>, AgentId, Label), StoredTask> = HashMap::new();
        // From the oldest on: of two that the same message began only the later was told, else
        // there would be no other.
        for task in self.bus.unheard_answers().await {
            if self.reader.get(task)?.is_some() {
                continue;
            }
            let Some(stored) = recovery::from_journal(&*journal, task)? else { continue };
            let Some(message) = recovery::message_of(&stored) else { continue };
            let sent = message.clone().into();
            if self.reader.message(&stored.owner, &stored.agent, &sent)?.is_none() {
                let began = (Arc::clone(&stored.owner), stored.agent.clone(), message);
                rebuilt.insert(began, stored);
            }
        }
        let rebuilt: Vec<StoredTask> = rebuilt.into_values().collect();
        if !rebuilt.is_empty() {
            tracing::info!(
                tasks = rebuilt.len(),
                "made from the journal: the store had not got them"
            );
        }
        Ok(rebuilt)
    }
}
