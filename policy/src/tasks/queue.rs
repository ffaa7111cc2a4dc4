//! Task queues: one running task per agent and conversation, the others wait in order. A context id
//! belongs to its owner, so equal ids of two callers are two conversations.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use a2a_protocol::task::ContextId;
use a2a_protocol::{AgentId, TaskId};

/// The key of a queue, in which one task runs at a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lane {
    /// The owner of the conversation; another owner may use the same context id.
    pub owner: Arc<str>,
    /// The agent that executes the tasks.
    pub agent: AgentId,
    /// The conversation.
    pub context: ContextId,
}

/// The position of a task in its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueuePosition {
    /// It is running.
    Runs,
    /// It waits at this position, from 1; the running task is not counted.
    Waits(usize),
}

/// The maximum number of tasks wait in the lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{limit} tasks wait in this context already")]
pub struct LaneFull {
    /// The maximum.
    pub limit: usize,
}

#[derive(Debug, Default)]
struct LaneState {
    running: Option<TaskId>,
    queue: VecDeque<TaskId>,
}

/// All lanes with a running or waiting task.
#[derive(Debug)]
pub struct ContextQueues {
    lanes: HashMap<Lane, LaneState>,
    limit: usize,
}

impl ContextQueues {
    /// No lanes; up to `limit` tasks may wait in each.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { lanes: HashMap::new(), limit }
    }

    /// Sets a new limit; tasks that wait already stay, even beyond it.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Adds a new task: it runs if the lane is free, otherwise it waits.
    ///
    /// # Errors
    /// Too many tasks wait.
    pub fn submit(&mut self, lane: &Lane, task: TaskId) -> Result<QueuePosition, LaneFull> {
        let state = self.state(lane);
        if state.running.is_none() {
            state.running = Some(task);
            return Ok(QueuePosition::Runs);
        }
        let count = state.queue.len();
        if count >= self.limit {
            return Err(LaneFull { limit: self.limit });
        }
        self.state(lane).queue.push_back(task);
        Ok(QueuePosition::Waits(count + 1))
    }

    /// Adds a task that was interrupted and can continue: it runs next. It was counted when it was
    /// submitted, so the limit does not apply.
    pub fn resume(&mut self, lane: &Lane, task: TaskId) -> QueuePosition {
        let state = self.state(lane);
        if state.running.is_none() {
            state.running = Some(task);
            return QueuePosition::Runs;
        }
        state.queue.push_front(task);
        QueuePosition::Waits(1)
    }

    /// Removes a task; returns the task that starts running in its place.
    pub fn leave(&mut self, lane: &Lane, task: TaskId) -> Option<TaskId> {
        let state = self.lanes.get_mut(lane)?;
        let next = if state.running == Some(task) {
            state.running = state.queue.pop_front();
            state.running
        } else {
            state.queue.retain(|other| *other != task);
            None
        };
        if state.running.is_none() {
            self.lanes.remove(lane);
        }
        next
    }

    /// Whether a new task would run immediately.
    #[must_use]
    pub fn is_free(&self, lane: &Lane) -> bool {
        self.lanes.get(lane).is_none_or(|state| state.running.is_none())
    }

    /// The position of a task; `None` when it neither runs nor waits.
    #[must_use]
    pub fn position(&self, lane: &Lane, task: TaskId) -> Option<QueuePosition> {
        let state = self.lanes.get(lane)?;
        if state.running == Some(task) {
            return Some(QueuePosition::Runs);
        }
        let before = state.queue.iter().position(|other| *other == task)?;
        Some(QueuePosition::Waits(before + 1))
    }

    /// Restores a task after a restart. Called in order of submission, a running task first; a
    /// waiting task runs if the lane is free.
    pub fn restore(&mut self, lane: &Lane, task: TaskId) -> QueuePosition {
        let state = self.state(lane);
        if state.running.is_none() {
            state.running = Some(task);
            return QueuePosition::Runs;
        }
        state.queue.push_back(task);
        QueuePosition::Waits(state.queue.len())
    }

    fn state(&mut self, lane: &Lane) -> &mut LaneState {
        if !self.lanes.contains_key(lane) {
            self.lanes.insert(lane.clone(), LaneState::default());
        }
        self.lanes.entry(lane.clone()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lane(context: &str) -> Lane {
        let (agent, context) = ("tim".parse().unwrap(), context.try_into().unwrap());
        Lane { owner: "client:acme".into(), agent, context }
    }

    fn task(n: u8) -> TaskId {
        format!("0192a4c8-7e1a-7b3c-9d4e-0000000000{n:02x}").parse().unwrap()
    }

    #[test]
    fn one_task_runs_and_others_wait_in_order() {
        let (mut queues, a) = (ContextQueues::new(2), lane("a"));
        assert_eq!(queues.submit(&a, task(1)), Ok(QueuePosition::Runs));
        assert_eq!(queues.submit(&a, task(2)), Ok(QueuePosition::Waits(1)));
        assert_eq!(queues.submit(&a, task(3)), Ok(QueuePosition::Waits(2)));
        assert_eq!(queues.submit(&a, task(4)), Err(LaneFull { limit: 2 }));
        queues.set_limit(1);
        assert_eq!(queues.submit(&a, task(4)), Err(LaneFull { limit: 1 }));
        assert_eq!(queues.position(&a, task(3)), Some(QueuePosition::Waits(2)));
        assert_eq!(queues.submit(&lane("b"), task(5)), Ok(QueuePosition::Runs));
        assert_eq!(queues.leave(&a, task(1)), Some(task(2)));
        assert_eq!(queues.position(&a, task(3)), Some(QueuePosition::Waits(1)));
        assert_eq!(queues.leave(&a, task(3)), None);
        assert_eq!(queues.leave(&a, task(2)), None);
        assert_eq!(queues.position(&a, task(2)), None);
        assert!(!queues.lanes.contains_key(&a));
    }

    #[test]
    fn resumed_task_in_full_lane_runs_next() {
        let (mut queues, a) = (ContextQueues::new(1), lane("a"));
        queues.submit(&a, task(1)).unwrap();
        queues.submit(&a, task(2)).unwrap();
        assert_eq!(queues.resume(&a, task(9)), QueuePosition::Waits(1));
        assert_eq!(queues.leave(&a, task(1)), Some(task(9)));
        assert_eq!(queues.leave(&a, task(9)), Some(task(2)));
    }

    proptest! {
        #[test]
        fn lane_runs_at_most_one_task_and_loses_none(steps in prop::collection::vec((0u8..3, 0u8..20), 1..200)) {
            let (mut queues, a) = (ContextQueues::new(5), lane("a"));
            let mut inside = Vec::new();
            for (what, n) in steps {
                let id = task(n);
                let is_inside = inside.contains(&id);
                match what {
                    0 if !is_inside => inside.extend(queues.submit(&a, id).ok().map(|_| id)),
                    1 if !is_inside => { queues.resume(&a, id); inside.push(id) },
                    2 => { queues.leave(&a, id); inside.retain(|other| *other != id) },
                    _ => {}
                }
                let places: Vec<_> = inside.iter().map(|id| queues.position(&a, *id)).collect();
                prop_assert!(places.iter().all(Option::is_some));
                let running = places.iter().filter(|position| **position == Some(QueuePosition::Runs)).count();
                prop_assert_eq!(running, usize::from(!inside.is_empty()));
            }
        }
    }
}
