//! Lead: requests the work of a round, waits for its result and broadcasts it to the squad.

use a2a_actors::Delivery;
use a2a_protocol::body::{Complexity, Scope, TaskRequest, TaskType};
use serde_json::Value;

use super::adhoc_task::{self, Skill};
use super::script::{GoalStep, WorkItem, ticket, worktree};
use super::{Pace, RESEARCHER, RoundError, WORKER, send};
use crate::agents::host::one_line;
use crate::{Agent, Announcement, Handlers, NewTask, SendError, TaskAnswer};

/// Maximum length in characters of a forwarded text. The worker makes at most a few steps of it.
const HANDED_ON: usize = 4_000;

/// For steps of an objective and for questions.
const SKILL: Skill = Skill { artifact: "decision", steps: &["weighing it up"], make: say_who };

pub(super) fn handlers(pace: Pace) -> Handlers {
    Handlers::new().on_task_request(
        move |me: Agent, delivery: Delivery, task: TaskRequest| async move {
            let text = adhoc_task::text_of(&delivery, &task);
            if GoalStep::named(&text).is_some() || text.trim_end().ends_with('?') {
                adhoc_task::run(&me, &delivery, &task, pace, &SKILL).await
            } else {
                hand_on(&me, &delivery, &text).await
            }
        },
    )
}

/// Forwards a task to the worker and returns the worker's result.
async fn hand_on(me: &Agent, delivery: &Delivery, text: &str) -> Result<(), SendError> {
    if !send(me, delivery, me.write(delivery, TaskAnswer::accepted())?).await? {
        return Ok(());
    }
    let title = match one_line(text, adhoc_task::TITLE_CHARS) {
        title if title.is_empty() => "An empty message".to_owned(),
        title => title,
    };
    let text: String = text.chars().take(HANDED_ON).collect();
    let task = NewTask::new(&title, if text.trim().is_empty() { title.clone() } else { text });
    let task =
        task.complexity(Complexity::Trivial).in_conversation(delivery.message.correlation_id);
    let mut work = me.request_task(WORKER, task).await?;
    let done = tokio::select! {
        done = work.result() => done,
        () = delivery.cancelled() => {
            // An error means that the worker has finished first, which needs no handling.
            let _ = work.cancel("the lead's own task was cancelled").await;
            return Ok(());
        }
    };
    let answer = match done {
        Ok(done) => {
            let made = done.result().and_then(|result| result.get::<Value>("artifacts"));
            let summary = format!("The worker did it: {}", done.summary());
            let answer = TaskAnswer::completed(&summary).message(summary);
            made.into_iter().fold(answer, |answer, made| answer.field("artifacts", made))
        }
        Err(error) => TaskAnswer::failed(error.to_string()),
    };
    send(me, delivery, me.write(delivery, answer)?).await.map(drop)
}

/// Runs one work item from the request to the announcement.
pub(super) async fn play(lead: &Agent, round: u32) -> Result<(), RoundError> {
    let item = WorkItem::of_round(round);
    let branch = item.branch(round);
    let name = format!("{}: {}", ticket(&branch), item.title);
    let task = NewTask::new(name, item.description)
        .branch(&branch)
        .worktree(worktree(&branch))
        .related_files(item.files)
        .criterion(item.criterion);
    let mut work = lead.request_task(WORKER, task).await?;
    let talk = work.correlation_id();
    let done = work.result().await?;
    let note = NewTask::new(
        format!("{}: write down what we learned", ticket(&branch)),
        "The review sent it back once. What should the others know?",
    );
    let note = note
        .task_type(TaskType::Research)
        .complexity(Complexity::Trivial)
        .branch(&branch)
        .in_conversation(talk);
    lead.request_task(RESEARCHER, note).await?.result().await?;
    let news = format!("{}. {} Reviewed twice, approved.", item.title, done.summary());
    let news = Announcement::new(Scope::Squad, format!("{} is done", ticket(&branch)), news);
    lead.broadcast(news.in_conversation(talk)).await?;
    Ok(())
}

/// Announces that no further round follows.
pub(super) async fn rest(lead: &Agent, rounds: u32) -> Result<(), SendError> {
    let news = format!("That was round {rounds} of {rounds}. Start the server again for more.");
    lead.broadcast(Announcement::new(Scope::Squad, "the demo is over", news)).await.map(drop)
}

fn say_who(_: &str) -> String {
    "I lead the squad of the demo and have no model. Tell me what to do, and I hand it to the \
     worker; ask the researcher what we know, and show the reviewer a text."
        .to_owned()
}
