//! Tasks that any caller may send to the cast: an A2A client, a step of an objective, an agent of
//! the bus.
//!
//! The cast has no model. A step of an objective gets its scripted result; any other text gets what
//! can be derived from it, and the answer states so.

use a2a_actors::Delivery;
use a2a_protocol::body::TaskRequest;

use super::script::GoalStep;
use super::{Pace, pause, send};
use crate::agents::host::one_line;
use crate::{A2aRequest, Agent, SendError, TaskAnswer};

/// Maximum length in characters of a title made from a text.
pub(super) const TITLE_CHARS: usize = 100;

/// What an agent does with a text that is not a step of an objective.
pub(super) struct Skill {
    /// Name of the resulting artifact.
    pub(super) artifact: &'static str,
    /// Steps shown in the progress bar.
    pub(super) steps: &'static [&'static str],
    /// Derives the result from the text.
    pub(super) make: fn(&str) -> String,
}

/// Returns the text that a task is about.
pub(super) fn text_of(delivery: &Delivery, task: &TaskRequest) -> String {
    match A2aRequest::of(delivery) {
        Some(asked) => asked.text(),
        // The title only repeats the beginning of the description.
        None if one_line(&task.description, TITLE_CHARS) == task.title.as_str() => {
            task.description.to_string()
        }
        None => format!("{}\n\n{}", task.title, task.description),
    }
}

/// Performs a task with a progress bar and sends the result.
pub(super) async fn run(
    me: &Agent,
    delivery: &Delivery,
    task: &TaskRequest,
    pace: Pace,
    skill: &Skill,
) -> Result<(), SendError> {
    let text = text_of(delivery, task);
    // A question gets a plain message, no task.
    if text.trim_end().ends_with('?') {
        let answer = answer(&(skill.make)(&text)).directly();
        return send(me, delivery, me.write(delivery, answer)?).await.map(drop);
    }
    if !send(me, delivery, me.write(delivery, TaskAnswer::accepted())?).await? {
        return Ok(());
    }
    if !work_through(me, delivery, pace, skill.steps).await? {
        return Ok(());
    }
    let result = match GoalStep::named(&text) {
        Some(step) => step.result.to_owned(),
        None => (skill.make)(&text),
    };
    let answer = answer(&result).text_artifact(skill.artifact, result);
    send(me, delivery, me.write(delivery, answer)?).await.map(drop)
}

/// Reports every step as progress; `false` when the task is cancelled.
pub(super) async fn work_through(
    me: &Agent,
    delivery: &Delivery,
    pace: Pace,
    steps: &[&str],
) -> Result<bool, SendError> {
    let (bars, total) = (me.progress(delivery), steps.len() as f64);
    for (done, step) in (0_u32..).zip(steps) {
        bars.update("work", f64::from(done), Some(total), *step)?;
        // Flushed after every step so that each one is visible; the cast sends little.
        bars.flush().await;
        if !pause(delivery, pace.step).await {
            return Ok(false);
        }
    }
    bars.update("work", total, Some(total), "all steps are done")?;
    bars.done("work")?;
    bars.flush().await;
    Ok(true)
}

fn answer(text: &str) -> TaskAnswer {
    TaskAnswer::completed(one_line(text, 100)).message(text)
}
