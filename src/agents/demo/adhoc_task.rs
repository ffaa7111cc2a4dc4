//! What anybody may ask of the cast: an A2A client, a step of an objective, an agent of the bus.
//!
//! None of the cast has a model. A step of a goal gets its written result; whatever else is asked
//! gets what can be made of its text alone, and says so.

use a2a_actors::Delivery;
use a2a_protocol::body::TaskRequest;

use super::script::GoalStep;
use super::{Pace, pause, send};
use crate::agents::host::one_line;
use crate::{A2aRequest, Agent, SendError, TaskAnswer};

/// How many characters of a text are its title when it is handed on.
pub(super) const TITLE_CHARS: usize = 100;

/// What an agent makes of a text that is no step of a goal.
pub(super) struct Skill {
    /// What its results are called.
    pub(super) artifact: &'static str,
    /// What it does on the way, as its bar says it.
    pub(super) steps: &'static [&'static str],
    /// What comes of a text.
    pub(super) make: fn(&str) -> String,
}

/// The text that a task is about.
pub(super) fn text_of(delivery: &Delivery, task: &TaskRequest) -> String {
    match A2aRequest::of(delivery) {
        Some(asked) => asked.text(),
        // A title that is only the beginning of the description says nothing more.
        None if one_line(&task.description, TITLE_CHARS) == task.title.as_str() => {
            task.description.to_string()
        }
        None => format!("{}\n\n{}", task.title, task.description),
    }
}

/// Does what is asked, with a bar, and gives what came of it.
pub(super) async fn run(
    me: &Agent,
    delivery: &Delivery,
    task: &TaskRequest,
    pace: Pace,
    skill: &Skill,
) -> Result<(), SendError> {
    let text = text_of(delivery, task);
    // A question gets a plain answer at once.
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
    let said = match GoalStep::named(&text) {
        Some(step) => step.result.to_owned(),
        None => (skill.make)(&text),
    };
    let answer = answer(&said).text_artifact(skill.artifact, said);
    send(me, delivery, me.write(delivery, answer)?).await.map(drop)
}

/// Goes through the steps, with a bar that everybody sees; `false` when the task is called off.
pub(super) async fn work_through(
    me: &Agent,
    delivery: &Delivery,
    pace: Pace,
    steps: &[&str],
) -> Result<bool, SendError> {
    let (bars, total) = (me.progress(delivery), steps.len() as f64);
    for (done, step) in (0_u32..).zip(steps) {
        bars.update("work", f64::from(done), Some(total), *step)?;
        // The cast says little, and what it says shall be seen: each step goes out by itself.
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

fn answer(said: &str) -> TaskAnswer {
    TaskAnswer::completed(one_line(said, 100)).saying(said)
}
