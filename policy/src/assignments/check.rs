//! Validation of messages against the ledger, and the change each would make.

use a2a_protocol::body::{ReviewRequest, ReviewResponse, StatusUpdate, TaskRequest, TaskResponse};
use a2a_protocol::{AgentId, AssignmentState, Body, Envelope, Outcome, TaskId};

use super::ledger::{changed, clip};
use super::transitions::possible_actions;
use super::{Assignment, Change, Ledger, Proposal, Review, Transition};
use crate::{Now, WorkProgress};

/// The maximum number of proposals of one assignment.
const PROPOSED: usize = 100;
/// The maximum number of earlier assignees of one assignment.
const HANDED_ON: usize = 32;

/// Why the ledger refuses a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerRefusal {
    /// The task is unknown.
    #[error(
        "there is no task {task}. Answer with the taskId of the request; a new task begins with a task_request"
    )]
    UnknownTask {
        /// The id in the message.
        task: TaskId,
    },
    /// The task belongs to another agent.
    #[error("only `{agent}` can {what} (task {task})")]
    NotYours {
        /// The task.
        task: TaskId,
        /// The agent that may do it.
        agent: AgentId,
        /// The attempted action.
        what: &'static str,
    },
    /// The action is not allowed in this state.
    #[error("task {task} is {state}: {problem}")]
    Illegal {
        /// The task.
        task: TaskId,
        /// Its state.
        state: AssignmentState,
        /// The reason, and the actions that are possible.
        problem: String,
    },
    /// The open assignments contain the maximum amount of text.
    #[error("the open tasks hold {limit} bytes of text, which is the limit; end some first")]
    FullOfText {
        /// The limit.
        limit: usize,
    },
    /// The maximum number of open assignments is reached.
    #[error("there are {limit} open tasks, which is the limit; end some first")]
    Full {
        /// The limit.
        limit: usize,
    },
}

impl LedgerRefusal {
    pub(super) fn illegal(task: &Assignment, problem: impl Into<String>) -> Self {
        Self::Illegal { task: task.task_id, state: task.state, problem: problem.into() }
    }

    /// The outcome in the receipt.
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::UnknownTask { .. } => Outcome::UnknownTask,
            Self::NotYours { .. } => Outcome::NotAssignee,
            Self::Illegal { .. } => Outcome::IllegalTransition,
            Self::Full { .. } | Self::FullOfText { .. } => Outcome::QueueFull,
        }
    }
}

impl Ledger {
    /// The change this message would make; `None` when it has no effect on the ledger.
    ///
    /// `senior` is the recipient of an escalated review.
    ///
    /// # Errors
    /// The task is unknown, belongs to another agent, or is in another state.
    pub fn check(
        &self,
        message: &Envelope,
        senior: Option<&AgentId>,
        now: Now,
    ) -> Result<Option<Change>, LedgerRefusal> {
        let from = &message.from.agent_id;
        let to = message.to.as_ref().map_or(from, |to| &to.agent_id);
        match &message.body {
            Body::TaskRequest(body) => self.on_request(message, body, to, now).map(Some),
            Body::TaskResponse(body) => self.on_response(from, body, to, now),
            Body::StatusUpdate(body) => self.on_status(from, body, now),
            Body::ReviewRequest(body) => self.on_review_request(message, body, to, now).map(Some),
            Body::ReviewResponse(body) => self.on_review(from, body, senior, now).map(Some),
            _ => Ok(None),
        }
    }

    fn require(&self, id: &TaskId) -> Result<&Assignment, LedgerRefusal> {
        self.get(id).ok_or(LedgerRefusal::UnknownTask { task: *id })
    }

    pub(super) fn check_text(&self) -> Result<(), LedgerRefusal> {
        let limit = self.settings.max_text_bytes;
        if self.text_bytes >= limit {
            return Err(LedgerRefusal::FullOfText { limit });
        }
        Ok(())
    }

    fn new_task(
        &self,
        message: &Envelope,
        id: TaskId,
        now: Now,
    ) -> Result<Assignment, LedgerRefusal> {
        if self.open() >= self.settings.max_open {
            return Err(LedgerRefusal::Full { limit: self.settings.max_open });
        }
        self.check_text()?;
        let from = &message.from.agent_id;
        Ok(Assignment {
            task_id: id,
            correlation_id: message.correlation_id,
            requester: from.clone(),
            assignee: message.to.as_ref().map_or(from, |to| &to.agent_id).clone(),
            state: AssignmentState::Requested,
            record: 0,
            version: 1,
            changed: now.utc,
            deadline: None,
            overdue: false,
            unrequested: false,
            reason: None,
            handed_on_by: Vec::new(),
            review: None,
            proposed: Vec::new(),
        })
    }

    fn on_request(
        &self,
        message: &Envelope,
        body: &TaskRequest,
        to: &AgentId,
        now: Now,
    ) -> Result<Change, LedgerRefusal> {
        let from = &message.from.agent_id;
        let (transition, existing) = match self.get(&body.task_id) {
            None => {
                let mut task = self.new_task(message, body.task_id, now)?;
                task.set_deadline(body.deadline.map(|at| at.to_utc()), now);
                let parent = self.proposal(message, body, now);
                let parent = parent.map(Box::new);
                let task = Box::new(task);
                return Ok(Change { task, parent, progress: WorkProgress::None, asks: true });
            }
            Some(task) if task.assignee == *from && !task.state.is_ended() => {
                (Transition::Delegate, task)
            }
            Some(task) if task.requester == *from => (Transition::AskAgain, task),
            Some(task) => {
                let (task, agent) = (task.task_id, task.requester.clone());
                let what = "ask for this task again; make a new taskId for a task of your own";
                return Err(LedgerRefusal::NotYours { task, agent, what });
            }
        };
        let mut change = self.transition(existing, transition, now).ok_or_else(|| {
            let problem = "it can be asked for again only after it was declined or failed, or while it is blocked. Make a new taskId for a new task";
            LedgerRefusal::illegal(existing, problem)
        })?;
        let task = &mut change.task;
        task.assignee = to.clone();
        task.correlation_id = message.correlation_id;
        if transition == Transition::AskAgain || body.deadline.is_some() {
            task.set_deadline(body.deadline.map(|at| at.to_utc()), now);
        }
        if transition == Transition::Delegate {
            task.handed_on_by.push(from.clone());
            let surplus = task.handed_on_by.len().saturating_sub(HANDED_ON);
            task.handed_on_by.drain(..surplus);
        }
        // A request is never progress.
        change.progress = WorkProgress::None;
        change.asks = true;
        Ok(change)
    }

    /// The assignment whose proposal this request starts, with the proposal marked as started.
    fn proposal(&self, message: &Envelope, body: &TaskRequest, now: Now) -> Option<Assignment> {
        let from = &message.from.agent_id;
        let proposing = self.proposing.get(&message.correlation_id)?;
        let fits = |p: &Proposal| p.started.is_none() && p.title == body.title.as_str();
        let mut parent = proposing
            .iter()
            .filter_map(|id| self.get(id))
            .find(|task| task.concerns(from) && task.proposed.iter().any(fits))?
            .clone();
        let proposal = parent.proposed.iter_mut().find(|proposal| fits(proposal))?;
        proposal.started = Some(body.task_id);
        parent.version += 1;
        parent.changed = now.utc;
        Some(parent)
    }

    fn on_response(
        &self,
        from: &AgentId,
        body: &TaskResponse,
        to: &AgentId,
        now: Now,
    ) -> Result<Option<Change>, LedgerRefusal> {
        let task = self.require(&body.task_id)?;
        if task.assignee != *from {
            let (task, agent) = (task.task_id, task.assignee.clone());
            return Err(LedgerRefusal::NotYours { task, agent, what: "answer this task" });
        }
        if task.requester != *to && !task.handed_on_by.contains(to) {
            let problem = format!("its answer is for `{}`, who asked", task.requester);
            return Err(LedgerRefusal::illegal(task, problem));
        }
        let transition = Transition::of_action(body.action);
        let mut change = self.transition(task, transition, now).ok_or_else(|| {
            let possible = possible_actions(task.state);
            let problem = if possible.is_empty() {
                format!("`{}` comes too late; nothing more can be answered", body.action)
            } else {
                format!(
                    "`{}` is not possible now; possible are {}",
                    body.action,
                    possible.join(", ")
                )
            };
            LedgerRefusal::illegal(task, problem)
        })?;
        change.task.reason = body.reason.as_ref().map(|reason| clip(reason));
        Ok(Some(change))
    }

    fn on_status(
        &self,
        from: &AgentId,
        body: &StatusUpdate,
        now: Now,
    ) -> Result<Option<Change>, LedgerRefusal> {
        let Some(id) = &body.task_id else { return Ok(None) };
        let task = self.require(id)?;
        if task.assignee != *from {
            if task.concerns(from) {
                return Ok(None); // a report by another participant changes nothing
            }
            let (task, agent) = (task.task_id, task.assignee.clone());
            return Err(LedgerRefusal::NotYours { task, agent, what: "report on this task" });
        }
        let transition = Transition::of_status(body.status);
        let illegal = || {
            let problem = format!("`{}` can no longer be reported", body.status);
            LedgerRefusal::illegal(task, problem)
        };
        let state = transition.after(task.state).ok_or_else(illegal)?;
        if state == task.state {
            // A report that changes no state is persisted only when it is due, so that it survives
            // a restart; otherwise it is kept in memory.
            return Ok(self.is_due_for_activity(task, now).then(|| {
                let reason = body.blocked_by.as_ref().map(|reason| clip(reason));
                let task = Assignment { reason, ..task.clone() };
                changed(task, WorkProgress::None, now)
            }));
        }
        let mut change = self.transition(task, transition, now).ok_or_else(illegal)?;
        change.task.reason = body.blocked_by.as_ref().map(|reason| clip(reason));
        Ok(Some(change))
    }

    /// Whether activity must be persisted: the assignment is marked overdue, or its last change is
    /// so old that a restart would mark it overdue too early.
    fn is_due_for_activity(&self, task: &Assignment, now: Now) -> bool {
        let silence = self.settings.overdue_after;
        let since = (now.utc - task.changed).to_std().unwrap_or_default();
        !task.state.is_ended() && (task.overdue || silence.is_some_and(|most| since >= most / 4))
    }

    fn on_review_request(
        &self,
        message: &Envelope,
        body: &ReviewRequest,
        to: &AgentId,
        now: Now,
    ) -> Result<Change, LedgerRefusal> {
        let from = &message.from.agent_id;
        let Some(task) = self.get(&body.task_id) else {
            let mut task = self.new_task(message, body.task_id, now)?;
            task.assignee = body.author_agent.clone();
            task.state = AssignmentState::Working;
            task.unrequested = true;
            task.review = Some(pending(to, 1));
            let task = Box::new(task);
            return Ok(Change { task, parent: None, progress: WorkProgress::None, asks: true });
        };
        if !task.concerns(from) {
            let (task, agent) = (task.task_id, task.assignee.clone());
            return Err(LedgerRefusal::NotYours { task, agent, what: "have this task reviewed" });
        }
        let review = task.review.as_ref();
        let owed = review.filter(|review| review.state.is_open());
        if owed.is_some_and(|review| review.reviewer == *to) {
            let problem = format!("`{to}` was asked for the review already; wait for the verdict");
            return Err(LedgerRefusal::illegal(task, problem));
        }
        let state = review.map(|review| review.state);
        if Transition::AskReview.after(task.state).is_none()
            || Transition::AskReview.review_after(state).is_none()
        {
            let problem = match state {
                Some(state) => format!("its review is {state}; nothing is left to review"),
                None => "there is nothing to review".to_owned(),
            };
            return Err(LedgerRefusal::illegal(task, problem));
        }
        let round = review.map_or(0, |review| review.round);
        let task =
            Assignment { review: Some(pending(to, round.saturating_add(1))), ..task.clone() };
        // Requesting yet another reviewer is no progress.
        let progress = if owed.is_some() { WorkProgress::None } else { WorkProgress::Moves };
        Ok(changed(task, progress, now))
    }

    fn on_review(
        &self,
        from: &AgentId,
        body: &ReviewResponse,
        senior: Option<&AgentId>,
        now: Now,
    ) -> Result<Change, LedgerRefusal> {
        let task = self.require(&body.task_id)?;
        let Some(review) = &task.review else {
            return Err(LedgerRefusal::illegal(task, "nobody asked for its review"));
        };
        if review.reviewer != *from {
            let (task, agent) = (task.task_id, review.reviewer.clone());
            return Err(LedgerRefusal::NotYours {
                task,
                agent,
                what: "give the verdict on this task",
            });
        }
        let transition = Transition::of_verdict(body.verdict);
        let (Some(state), Some(verdict)) =
            (transition.after(task.state), transition.review_after(Some(review.state)))
        else {
            let problem = format!("its review is {}; no verdict is owed", review.state);
            return Err(LedgerRefusal::illegal(task, problem));
        };
        let mut task = Assignment { state, ..task.clone() };
        let reviewer = match transition {
            Transition::Escalate => senior.unwrap_or(from),
            _ => from,
        };
        task.review =
            Some(Review { state: verdict, reviewer: reviewer.clone(), round: review.round });
        if transition == Transition::Approve {
            if task.unrequested {
                task.state = AssignmentState::Completed; // no response is expected
            }
            let next = body.next_tasks.iter().flat_map(|tasks| tasks.iter());
            let free = PROPOSED.saturating_sub(task.proposed.len());
            if free > 0 && body.next_tasks.as_ref().is_some_and(|next| !next.is_empty()) {
                self.check_text()?;
            }
            task.proposed.extend(next.take(free).map(|next| Proposal {
                title: next.title.as_str().to_owned(),
                assign_to: next.assign_to.as_ref().map(|to| clip(to)),
                started: None,
            }));
        }
        // An escalation decides nothing.
        let progress = if transition == Transition::Escalate {
            WorkProgress::Moves
        } else {
            WorkProgress::Ends
        };
        Ok(changed(task, progress, now))
    }
}

fn pending(reviewer: &AgentId, round: u32) -> Review {
    Review { state: a2a_protocol::ReviewState::Pending, reviewer: reviewer.clone(), round }
}
