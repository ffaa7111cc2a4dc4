//! Worker: builds what the lead requests, has it reviewed, and repairs what the review found.
//!
//! It keeps no state. Each message contains what is needed for the next step, so a restart loses
//! nothing.

use a2a_actors::Delivery;
use a2a_protocol::CorrelationId;
use a2a_protocol::body::{ReviewResponse, TaskRequest, Verdict};
use a2a_protocol::{Progress, ProgressTracker, TaskId, TrackerStatus};

use super::adhoc_task::{self, Skill};
use super::script::{WorkItem, ticket, worktree};
use super::{LEAD, Pace, REVIEWER, WORKER, profile, send};
use crate::agents::host::one_line;
use crate::{Agent, Handlers, NewReview, SendError, StatusReport, TaskAnswer};

/// Maximum number of lines in an outline.
const MOST_LINES: usize = 20;

const SKILL: Skill = Skill {
    artifact: "result",
    steps: &["reading what is asked", "writing it down"],
    make: outline,
};

pub(super) fn handlers(pace: Pace) -> Handlers {
    Handlers::new()
        .on_task_request(move |me: Agent, delivery: Delivery, task: TaskRequest| async move {
            match WorkItem::of_task(&task).filter(|_| delivery.sender.as_str() == LEAD) {
                Some(item) => build(&me, &delivery, &task, item, pace).await,
                None => adhoc_task::run(&me, &delivery, &task, pace, &SKILL).await,
            }
        })
        .on_review_response(
            move |me: Agent, delivery: Delivery, verdict: ReviewResponse| async move {
                handle_verdict(&me, &delivery, &verdict, pace).await
            },
        )
}

/// Accepts a work item, performs it and requests a review. An approving review completes the task.
async fn build(
    me: &Agent,
    delivery: &Delivery,
    task: &TaskRequest,
    item: &WorkItem,
    pace: Pace,
) -> Result<(), SendError> {
    if !send(me, delivery, me.write(delivery, TaskAnswer::accepted())?).await? {
        return Ok(());
    }
    if !adhoc_task::work_through(me, delivery, pace, &item.steps).await? {
        return Ok(());
    }
    let branch = task.context.as_ref().and_then(|context| context.branch.as_ref());
    let branch = branch.map_or("", |branch| branch.as_str());
    let review = review(task.task_id, branch, item, delivery.message.correlation_id);
    send(me, delivery, me.write(REVIEWER, review)?).await.map(drop)
}

/// Repairs what the reviewer found and requests another review, or completes the task.
async fn handle_verdict(
    me: &Agent,
    delivery: &Delivery,
    verdict: &ReviewResponse,
    pace: Pace,
) -> Result<(), SendError> {
    let Some(item) = WorkItem::of_branch(&verdict.branch) else { return Ok(()) };
    let (task, talk) = (verdict.task_id, delivery.message.correlation_id);
    match verdict.verdict {
        Verdict::Approved => {
            let done = TaskAnswer::completed(item.summary)
                .for_task(task)
                .branch(verdict.branch.as_str())
                .files_changed(item.files)
                .next_step("Write down what we learned");
            let done = me.write(LEAD, done.in_conversation(talk))?;
            send(me, delivery, done).await.map(drop)
        }
        Verdict::ChangesRequested => {
            let found = verdict.unresolved_concerns.as_ref().and_then(|all| all.first());
            let found = found.map_or("what the review says", |concern| &concern.description);
            let report = StatusReport::in_progress(format!("Repairing: {found}"))
                .for_task(task)
                .trackers(repair_at(0.0, TrackerStatus::Running))
                .in_conversation(talk);
            if !send(me, delivery, me.write(LEAD, report)?).await? {
                return Ok(());
            }
            tokio::time::sleep(pace.step).await;
            let report = StatusReport::in_progress("Repaired; back to the reviewer")
                .for_task(task)
                .trackers(repair_at(1.0, TrackerStatus::Completed))
                .in_conversation(talk);
            if !send(me, delivery, me.write(LEAD, report)?).await? {
                return Ok(());
            }
            let again = review(task, &verdict.branch, item, talk).prior_notes(found);
            send(me, delivery, me.write(REVIEWER, again)?).await.map(drop)
        }
        // A more senior agent has the review now.
        Verdict::Escalated => Ok(()),
    }
}

fn review(task: TaskId, branch: &str, item: &WorkItem, talk: CorrelationId) -> NewReview {
    let title = format!("{}: {}", ticket(branch), item.title);
    let review = NewReview::new(task, title, branch, worktree(branch), item.files);
    let review = review.in_conversation(talk);
    match profile(WORKER).tier {
        Some(tier) => review.author_tier(tier),
        None => review,
    }
}

fn repair_at(progress: f64, status: TrackerStatus) -> Progress {
    let tracker = ProgressTracker {
        progress: Some(progress),
        total: Some(1.0),
        status: Some(status),
        ..ProgressTracker::new("repair")
    };
    Progress { trackers: vec![tracker], aggregate: None }
}

/// Outlines a text as a list of steps, without a model.
fn outline(text: &str) -> String {
    let sentences = text.split_inclusive(['\n', '.', ';']).map(|sentence| one_line(sentence, 200));
    let is_said = |sentence: &String| sentence.chars().any(char::is_alphanumeric);
    let lines = (1..).zip(sentences.filter(is_said).take(MOST_LINES));
    let lines: Vec<_> = lines.map(|(n, sentence)| format!("{n}. {sentence}")).collect();
    if lines.is_empty() {
        return "There was no text to work on. Say what you want done.".to_owned();
    }
    format!(
        "What you ask for, step by step:\n{}\n\nI am the worker of the demo and have no model: I \
         take texts apart and do nothing else.",
        lines.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outline_splits_a_text_into_steps() {
        let made = outline("Buy milk. Call the\nbank;\u{1b}[2J ...\n\nPay");
        let steps = "\n1. Buy milk.\n2. Call the\n3. bank;\n4. [2J .\n5. Pay\n\n";
        assert!(made.contains(steps), "{made}");
        assert!(outline(" \n.").contains("no text"));
        assert!(!outline(&"a. ".repeat(50)).contains("21."));
    }
}
