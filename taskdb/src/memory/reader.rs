//! Looking at the tasks in memory, by plain walks over them: it is the model for SQLite.

mod objective;

use std::cmp::Reverse;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use a2a_protocol::operation::{PushConfig, StreamEvent};
use a2a_protocol::task::{ContextId, Label, Message, Moment};
use a2a_protocol::{AgentId, TaskId};

use super::State;
use crate::page::fill;
use crate::{
    Due, ListQuery, MAX_PAGE, Page, PageToken, Repeated, SentMessage, StoredTask, TaskReader,
    TaskStoreError, message_key,
};

type Result<T> = std::result::Result<T, TaskStoreError>;

pub(super) struct MemoryReader {
    pub(super) state: Arc<RwLock<State>>,
}

impl MemoryReader {
    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What waits for this agent in this conversation, in order.
    fn queue(&self, agent: &AgentId, context: &ContextId) -> Vec<&StoredTask> {
        let of_it = |stored: &&StoredTask| stored.agent == *agent && stored.context() == context;
        let waiting = self.stored().filter(|stored| stored.queued.is_some());
        let mut queue: Vec<_> = waiting.filter(of_it).collect();
        queue.sort_by_key(|stored| (stored.queued.map(|queued| queued.order), stored.id()));
        queue
    }

    /// The task as a caller sees it.
    fn shown(&self, stored: &StoredTask) -> StoredTask {
        let mut shown = stored.clone();
        if shown.queued.is_some() {
            let queue = self.queue(&stored.agent, stored.context());
            let before = queue.iter().take_while(|other| other.id() != stored.id());
            let place = before.filter(|other| other.owner == stored.owner).count() + 1;
            shown.show_place(place as u64);
        }
        shown
    }
}

/// The newest messages of the histories of these tasks, in the order of the tasks' creation.
fn newest_messages<'a>(tasks: impl Iterator<Item = &'a StoredTask>, limit: usize) -> Vec<Message> {
    let mut tasks: Vec<_> = tasks.collect();
    tasks.sort_by_key(|stored| (stored.created, stored.id()));
    let mut messages: Vec<_> = tasks
        .into_iter()
        .flat_map(|stored| &stored.task.history)
        .map(|m| Message::clone(m))
        .collect();
    messages.drain(..messages.len().saturating_sub(limit));
    messages
}

fn is_wanted(query: &ListQuery, stored: &StoredTask) -> bool {
    let status = &stored.task.status;
    query.owner.as_ref().is_none_or(|owner| *owner == stored.owner)
        && query.agent.as_ref().is_none_or(|agent| *agent == stored.agent)
        && query.context.as_ref().is_none_or(|context| context == stored.context())
        && query.status.is_none_or(|state| state == status.state)
        && query.after.is_none_or(|moment| status.timestamp >= moment)
}

impl TaskReader for MemoryReader {
    fn get(&self, id: TaskId) -> Result<Option<StoredTask>> {
        let state = self.state();
        Ok(state.tasks.get(&id).map(|kept| state.shown(&kept.stored)))
    }

    fn ended_among(&self, ids: &[TaskId]) -> Result<Vec<TaskId>> {
        let state = self.state();
        let has_ended = |id: &&TaskId| {
            state.tasks.get(id).is_some_and(|kept| kept.stored.task.status.state.is_terminal())
        };
        Ok(ids.iter().filter(has_ended).copied().collect())
    }

    fn list(&self, query: &ListQuery) -> Result<Page> {
        let state = self.state();
        let place = |stored: &StoredTask| (stored.task.status.timestamp, stored.id());
        let mut found: Vec<_> = state.stored().filter(|stored| is_wanted(query, stored)).collect();
        let total_size = found.len() as u64;
        found.sort_by_key(|stored| Reverse(place(stored)));
        if let Some(PageToken { moment, id }) = query.page_token {
            found.retain(|stored| place(stored) < (moment, id));
        }
        let size = query.page_size.clamp(1, MAX_PAGE);
        let shown = found.into_iter().map(|stored| {
            let mut stored = state.shown(stored);
            let task = Arc::make_mut(&mut stored.task);
            task.cut_history(query.history_length);
            if !query.include_artifacts {
                task.artifacts.clear();
            }
            Ok(stored)
        });
        let (tasks, more) = fill(size, shown)?;
        let next_page_token = tasks.last().filter(|_| more).map(PageToken::of);
        Ok(Page { tasks, next_page_token, total_size })
    }

    fn find_by_context(&self, context: &ContextId, limit: usize) -> Result<Vec<StoredTask>> {
        let state = self.state();
        let mut found: Vec<_> =
            state.stored().filter(|stored| stored.context() == context).collect();
        found.sort_by_key(|stored| Reverse((stored.created, stored.id())));
        Ok(found.into_iter().take(limit).map(|stored| state.shown(stored)).collect())
    }

    fn pending_by_context(&self, agent: &AgentId, context: &ContextId) -> Result<Vec<StoredTask>> {
        let state = self.state();
        Ok(state.queue(agent, context).into_iter().map(|stored| state.shown(stored)).collect())
    }

    fn open(&self) -> Result<Vec<StoredTask>> {
        let state = self.state();
        let going_on = |stored: &&StoredTask| !stored.task.status.state.is_terminal();
        let mut open: Vec<_> = state.stored().filter(going_on).cloned().collect();
        open.sort_by_key(|stored| (stored.queued.map(|queued| queued.order), stored.id()));
        Ok(open)
    }

    fn events(&self, id: TaskId, after: u64, limit: usize) -> Result<Vec<(u64, Arc<StreamEvent>)>> {
        let state = self.state();
        let Some(first) = after.checked_add(1) else { return Ok(Vec::new()) };
        let Some(kept) = state.tasks.get(&id) else { return Ok(Vec::new()) };
        if kept.events.is_empty() && kept.stored.tells_all() {
            let told = kept.stored.told().filter(|(number, _)| *number > after);
            return Ok(told.take(limit).collect());
        }
        let events = kept.events.range(first..).take(limit);
        Ok(events.map(|(number, event)| (*number, Arc::clone(event))).collect())
    }

    fn push(&self, task: TaskId, id: &Label) -> Result<Option<PushConfig>> {
        let state = self.state();
        let mut pushes = state.tasks.get(&task).into_iter().flat_map(|kept| &kept.pushes);
        Ok(pushes.find(|(known, _)| known == id).map(|(_, config)| config.clone()))
    }

    fn pushes(&self, task: TaskId) -> Result<Vec<PushConfig>> {
        let state = self.state();
        let pushes = state.tasks.get(&task).into_iter().flat_map(|kept| &kept.pushes);
        Ok(pushes.map(|(_, config)| config.clone()).collect())
    }

    fn outbox_due(&self, now: Moment, limit: usize) -> Result<Vec<Due>> {
        let state = self.state();
        let timed =
            state.outbox.iter().filter_map(|(at, telling)| Some((telling.next?, at, telling)));
        let mut due: Vec<_> = timed.filter(|(next, ..)| *next <= now).collect();
        due.sort_by_key(|(next, at, _)| (*next, **at));
        let found = due.into_iter().filter_map(|(_, outbox, telling)| {
            let kept = state.tasks.get(&telling.task)?;
            let mut pushes = kept.pushes.iter();
            Some(Due {
                outbox: *outbox,
                task: telling.task,
                config: pushes.find(|(id, _)| *id == telling.config)?.1.clone(),
                number: telling.number,
                event: Arc::clone(kept.events.get(&telling.number)?),
                attempts: telling.attempts,
            })
        });
        Ok(found.take(limit).collect())
    }

    fn next_due(&self) -> Result<Option<Moment>> {
        Ok(self.state().outbox.values().filter_map(|telling| telling.next).min())
    }

    fn message(
        &self,
        owner: &str,
        agent: &AgentId,
        message: &SentMessage,
    ) -> Result<Option<Repeated>> {
        let key = (Arc::from(owner), agent.clone(), message.id.clone());
        Ok(self.state().messages.get(&key).map(|sent| sent.repeated_by(message)))
    }

    fn message_keys(&self, most: usize) -> Result<Option<Vec<u64>>> {
        let state = self.state();
        let keys = state.messages.keys();
        let keys = keys.map(|(owner, agent, message)| message_key(owner, agent, message));
        Ok((state.messages.len() <= most).then(|| keys.collect()))
    }

    fn history_of_context(
        &self,
        owner: &str,
        agent: &AgentId,
        context: &ContextId,
        limit: usize,
    ) -> Result<Vec<Message>> {
        let state = self.state();
        let of_it = state
            .stored()
            .filter(|stored| &*stored.owner == owner && stored.agent == *agent)
            .filter(|stored| stored.context() == context);
        Ok(newest_messages(of_it, limit))
    }
}
