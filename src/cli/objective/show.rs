//! `openclaw-a2a objective show`: draws an objective once, or follows it until it ends.

use std::io::IsTerminal;

use a2a_protocol::opt::{Objective, ObjectiveStatus};
use anyhow::bail;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use super::call::{OptClient, no_objective, print, read};
use super::tree::{changes, drawn};
use crate::cli::{Answer, Format};

/// Maximum consecutive reconnects without an event.
const TRIES: u32 = 3;

pub(super) fn once(client: &OptClient, id: &str, format: Format) -> anyhow::Result<Answer> {
    let Some(result) = get(client, id)? else { return Ok(no_objective(id)) };
    let lines = match format {
        Format::Json | Format::Jsonl => vec![result.to_string()],
        Format::Text => drawn(&objective(&result)?),
    };
    print(format, &lines)?;
    Ok(Answer::Yes)
}

/// Follows an objective; the result is whether it was completed.
pub(super) fn watch(client: &OptClient, id: &str, format: Format) -> anyhow::Result<Answer> {
    let mut renderer = ObjectiveRenderer::new(format);
    let mut silent = 0;
    while silent <= TRIES {
        let Some(mut events) = client.events(id)? else { return Ok(no_objective(id)) };
        silent += 1;
        while let Some(data) = events.next() {
            silent = 0;
            renderer.event(&data)?;
            // An event only signals a change. The whole objective is fetched, so that nothing is
            // missed.
            let Some(result) = get(client, id)? else { return Ok(no_objective(id)) };
            let now = objective(&result)?;
            let status = now.status;
            renderer.show(now)?;
            // JSON output includes every event to the last.
            if status.is_terminal() && format == Format::Text {
                return renderer.end(status);
            }
        }
        // The stream has ended: the objective has ended, or the server closed the connection.
        let Some(result) = get(client, id)? else { return Ok(no_objective(id)) };
        let now = objective(&result)?;
        let status = now.status;
        renderer.show(now)?;
        if status.is_terminal() {
            return renderer.end(status);
        }
    }
    bail!("the server closes the connection again and again; the objective continues")
}

fn get(client: &OptClient, id: &str) -> anyhow::Result<Option<Value>> {
    let params = json!({"id": id, "includePlans": true, "includeTasks": true});
    client.find("objectives/get", &params)
}

fn objective(result: &Value) -> anyhow::Result<Objective> {
    read(&result["objective"])
}

/// Renders an objective for one output mode.
struct ObjectiveRenderer {
    mode: WatchOutput,
    seen: Option<Objective>,
}

enum WatchOutput {
    Json,
    Lines,
    /// A drawing that is updated in place.
    Drawing(ProgressBar),
}

impl ObjectiveRenderer {
    fn new(format: Format) -> Self {
        let mode = match format {
            Format::Json | Format::Jsonl => WatchOutput::Json,
            Format::Text if std::io::stdout().is_terminal() => {
                let bar = ProgressBar::no_length();
                bar.set_draw_target(ProgressDrawTarget::stdout());
                if let Ok(style) = ProgressStyle::with_template("{msg}") {
                    bar.set_style(style);
                }
                WatchOutput::Drawing(bar)
            }
            Format::Text => WatchOutput::Lines,
        };
        Self { mode, seen: None }
    }

    /// JSON output: the event unchanged.
    fn event(&self, data: &str) -> anyhow::Result<()> {
        if matches!(self.mode, WatchOutput::Json) {
            let answer: Value = serde_json::from_str(data)?;
            print(Format::Json, &[answer["result"].to_string()])?;
        }
        Ok(())
    }

    /// Text output: what has changed.
    fn show(&mut self, now: Objective) -> anyhow::Result<()> {
        match (&self.mode, &self.seen) {
            (WatchOutput::Json, _) => {}
            (WatchOutput::Lines, None) => print(Format::Text, &drawn(&now))?,
            (WatchOutput::Lines, Some(before)) => print(Format::Text, &changes(before, &now))?,
            (WatchOutput::Drawing(bar), _) => {
                bar.set_message(drawn(&now).join("\n"));
                bar.tick();
            }
        }
        self.seen = Some(now);
        Ok(())
    }

    /// Prints the final drawing in full, also on a small terminal.
    fn end(&self, status: ObjectiveStatus) -> anyhow::Result<Answer> {
        if let (WatchOutput::Drawing(bar), Some(seen)) = (&self.mode, &self.seen) {
            bar.finish_and_clear();
            print(Format::Text, &drawn(seen))?;
        }
        Ok(if status == ObjectiveStatus::Completed { Answer::Yes } else { Answer::No })
    }
}
