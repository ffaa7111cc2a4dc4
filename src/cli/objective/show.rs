//! `openclaw-a2a objective show`: once, or until the objective ends.

use std::io::IsTerminal;

use a2a_protocol::opt::{Objective, ObjectiveStatus};
use anyhow::bail;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use super::call::{Calls, no_objective, print, read};
use super::tree::{changes, drawn};
use crate::cli::{Answer, Format};

/// How often a stream that broke is taken up again without anything having come.
const TRIES: u32 = 3;

pub(super) fn once(calls: &Calls, id: &str, format: Format) -> anyhow::Result<Answer> {
    let Some(result) = get(calls, id)? else { return Ok(no_objective(id)) };
    let lines = match format {
        Format::Json | Format::Jsonl => vec![result.to_string()],
        Format::Text => drawn(&objective(&result)?),
    };
    print(format, &lines)?;
    Ok(Answer::Yes)
}

/// The answer says how it ended.
pub(super) fn watch(calls: &Calls, id: &str, format: Format) -> anyhow::Result<Answer> {
    let mut screen = Screen::new(format);
    let mut silent = 0;
    while silent <= TRIES {
        let Some(mut events) = calls.events(id)? else { return Ok(no_objective(id)) };
        silent += 1;
        while let Some(data) = events.next() {
            silent = 0;
            screen.event(&data)?;
            // Events say that something is new; the whole is asked for, so that nothing is missed.
            let Some(result) = get(calls, id)? else { return Ok(no_objective(id)) };
            let now = objective(&result)?;
            let status = now.status;
            screen.show(now)?;
            // Programs get every event to the last.
            if status.is_terminal() && format == Format::Text {
                return screen.end(status);
            }
        }
        // The stream is over: with the objective, or because the server broke off.
        let Some(result) = get(calls, id)? else { return Ok(no_objective(id)) };
        let now = objective(&result)?;
        let status = now.status;
        screen.show(now)?;
        if status.is_terminal() {
            return screen.end(status);
        }
    }
    bail!("the server breaks off; the objective goes on without us")
}

fn get(calls: &Calls, id: &str) -> anyhow::Result<Option<Value>> {
    let params = json!({"id": id, "includePlans": true, "includeTasks": true});
    calls.find("objectives/get", &params)
}

fn objective(result: &Value) -> anyhow::Result<Objective> {
    read(&result["objective"])
}

/// Where the tree is drawn.
struct Screen {
    look: Look,
    seen: Option<Objective>,
}

enum Look {
    Json,
    Lines,
    /// One drawing that changes in its place.
    Drawing(ProgressBar),
}

impl Screen {
    fn new(format: Format) -> Self {
        let look = match format {
            Format::Json | Format::Jsonl => Look::Json,
            Format::Text if std::io::stdout().is_terminal() => {
                let bar = ProgressBar::no_length();
                bar.set_draw_target(ProgressDrawTarget::stdout());
                if let Ok(style) = ProgressStyle::with_template("{msg}") {
                    bar.set_style(style);
                }
                Look::Drawing(bar)
            }
            Format::Text => Look::Lines,
        };
        Self { look, seen: None }
    }

    /// For programs: the event as it came.
    fn event(&self, data: &str) -> anyhow::Result<()> {
        if matches!(self.look, Look::Json) {
            let answer: Value = serde_json::from_str(data)?;
            print(Format::Json, &[answer["result"].to_string()])?;
        }
        Ok(())
    }

    /// For people: what is new.
    fn show(&mut self, now: Objective) -> anyhow::Result<()> {
        match (&self.look, &self.seen) {
            (Look::Json, _) => {}
            (Look::Lines, None) => print(Format::Text, &drawn(&now))?,
            (Look::Lines, Some(before)) => print(Format::Text, &changes(before, &now))?,
            (Look::Drawing(bar), _) => {
                bar.set_message(drawn(&now).join("\n"));
                bar.tick();
            }
        }
        self.seen = Some(now);
        Ok(())
    }

    /// The drawing stays as it was last, whole even if the terminal is small.
    fn end(&self, status: ObjectiveStatus) -> anyhow::Result<Answer> {
        if let (Look::Drawing(bar), Some(seen)) = (&self.look, &self.seen) {
            bar.finish_and_clear();
            print(Format::Text, &drawn(seen))?;
        }
        Ok(if status == ObjectiveStatus::Completed { Answer::Yes } else { Answer::No })
    }
}
