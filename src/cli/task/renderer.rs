//! Renderer of a watched task: moving bars on a terminal, a line per change elsewhere, or raw
//! events.
//!
//! Texts of agents are sanitized.

use std::collections::HashMap;
use std::io::{IsTerminal, Write};

use a2a_protocol::operation::StreamEvent;
use a2a_protocol::task::{Metadata, TaskState, TaskStatus};
use a2a_protocol::{PROGRESS_EXTENSION, Progress, ProgressTracker};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::lookup::a2a_state;
use crate::cli::Format;
use crate::cli::stdout::sanitize;

/// Bars count in whole steps; this many make one unit of progress.
const STEPS: f64 = 1_000.0;

pub(super) struct TaskRenderer {
    mode: RenderMode,
    last_shown: LastShown,
}

enum RenderMode {
    Json,
    Lines,
    Bars { all: MultiProgress, bars: HashMap<String, ProgressBar> },
}

/// State shown last.
#[derive(Default)]
struct LastShown {
    status: Option<(TaskState, String)>,
    trackers: Vec<ProgressTracker>,
}

impl TaskRenderer {
    pub(super) fn new(format: Format) -> Self {
        let mode = match format {
            Format::Json | Format::Jsonl => RenderMode::Json,
            Format::Text if std::io::stdout().is_terminal() => RenderMode::Bars {
                all: MultiProgress::with_draw_target(ProgressDrawTarget::stdout()),
                bars: HashMap::new(),
            },
            Format::Text => RenderMode::Lines,
        };
        Self { mode, last_shown: LastShown::default() }
    }

    /// Shows an event; `data` is its JSON.
    pub(super) fn show(&mut self, data: &str, event: &StreamEvent) -> anyhow::Result<()> {
        let changes = self.last_shown.changes(event);
        match &mut self.mode {
            RenderMode::Json => print(&[data.to_owned()])?,
            RenderMode::Lines => print(&changes.lines)?,
            RenderMode::Bars { all, bars } => {
                for line in changes.lines.iter().filter(|line| !line.starts_with(' ')) {
                    all.println(line)?;
                }
                if let Some(trackers) = changes.snapshot {
                    move_bars(all, bars, &trackers);
                }
            }
        }
        Ok(())
    }

    /// Ends the rendering and leaves the bars on the screen.
    pub(super) fn end(&mut self) {
        if let RenderMode::Bars { bars, .. } = &mut self.mode {
            bars.values().filter(|bar| !bar.is_finished()).for_each(ProgressBar::abandon);
            if !bars.is_empty() {
                // Further output goes below the bars.
                anstream::println!();
            }
        }
    }
}

fn print(lines: &[String]) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    Ok(())
}

/// Changes of an event as lines; those of trackers are indented.
struct Changes {
    lines: Vec<String>,
    snapshot: Option<Vec<ProgressTracker>>,
}

impl LastShown {
    fn changes(&mut self, event: &StreamEvent) -> Changes {
        let (status, metadata) = match event {
            StreamEvent::Task(task) => (&task.status, None),
            StreamEvent::StatusUpdate(update) => (&update.status, update.metadata.as_ref()),
            // This stream was not subscribed for objectives.
            StreamEvent::Objective(_) => return Changes { lines: Vec::new(), snapshot: None },
            StreamEvent::Message(message) => {
                let lines = vec![format!("message  {}", sanitize(&message.text()))];
                return Changes { lines, snapshot: None };
            }
            StreamEvent::ArtifactUpdate(update) => {
                let artifact = &update.artifact;
                let name = artifact.name.as_deref().unwrap_or(artifact.artifact_id.as_str());
                let more = if update.append { " (more)" } else { "" };
                let lines = vec![format!("artifact  {}{more}", sanitize(name))];
                return Changes { lines, snapshot: None };
            }
        };
        let snapshot = progress(status, metadata).map(|progress| progress.trackers);
        let mut lines = Vec::new();
        for tracker in snapshot.iter().flatten() {
            if !self.trackers.contains(tracker) {
                lines.push(line(tracker));
            }
        }
        let text = status.message.as_ref().map(|message| message.text()).unwrap_or_default();
        let now = (status.state, text);
        let same_state = self.status.as_ref().is_some_and(|(state, _)| *state == now.0);
        // The text beside a bar that moved is redundant.
        if self.status.as_ref() != Some(&now) && (lines.is_empty() || !same_state) {
            lines.insert(0, status_line(&now));
        }
        self.status = Some(now);
        if let Some(snapshot) = &snapshot {
            self.trackers.clone_from(snapshot);
        }
        Changes { lines, snapshot }
    }
}

fn progress(status: &TaskStatus, metadata: Option<&Metadata>) -> Option<Progress> {
    let of_message = status.message.as_ref().and_then(|message| message.metadata.as_ref());
    let payload = metadata.and_then(|all| all.get(PROGRESS_EXTENSION));
    let payload = payload.or_else(|| of_message?.get(PROGRESS_EXTENSION))?;
    serde_json::from_value(payload.clone()).ok()
}

fn status_line((state, text): &(TaskState, String)) -> String {
    let word = a2a_state(*state);
    if text.is_empty() { word } else { format!("{word}  {}", sanitize(text)) }
}

fn line(tracker: &ProgressTracker) -> String {
    let parts = [Some(sanitize(&tracker.id)), Some(how_far(tracker)), tracker_words(tracker)];
    let parts: Vec<_> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    format!("  {}", parts.join("  "))
}

fn how_far(tracker: &ProgressTracker) -> String {
    match (tracker.progress, tracker.total) {
        (Some(progress), Some(total)) if total > 0.0 => {
            format!("{progress}/{total} ({:.0}%)", progress / total * 100.0)
        }
        (Some(progress), Some(total)) => format!("{progress}/{total}"),
        (Some(progress), None) => progress.to_string(),
        (None, _) => String::new(),
    }
}

fn tracker_words(tracker: &ProgressTracker) -> Option<String> {
    let status = tracker.status.map(|status| status.to_string());
    let message = tracker.message.as_deref().map(sanitize);
    match (status, message) {
        (Some(status), Some(message)) => Some(format!("{status}  {message}")),
        (status, message) => status.or(message),
    }
}

/// A bar if the total is known, otherwise text.
fn style(tracker: &ProgressTracker) -> ProgressStyle {
    let has_total = tracker.total.is_some_and(|total| total > 0.0);
    let template = if has_total { "{prefix:20} [{bar:30}] {msg}" } else { "{prefix:20} {msg}" };
    let style = ProgressStyle::with_template(template);
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}

/// Updates the bars. A bar whose tracker is missing is no longer active.
fn move_bars(
    all: &MultiProgress,
    bars: &mut HashMap<String, ProgressBar>,
    trackers: &[ProgressTracker],
) {
    for tracker in trackers {
        let bar = bars.entry(tracker.id.clone()).or_insert_with(|| {
            // The style must be set before the bar is drawn.
            let bar = ProgressBar::no_length().with_prefix(sanitize(&tracker.id));
            all.add(bar.with_style(style(tracker)))
        });
        bar.set_style(style(tracker));
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // never negative
        let steps = |amount: Option<f64>| (amount.unwrap_or_default() * STEPS) as u64;
        bar.set_length(steps(tracker.total));
        bar.set_position(steps(tracker.progress));
        let words = tracker_words(tracker).unwrap_or_default();
        bar.set_message(format!("{}  {words}", how_far(tracker)));
        if tracker.status.is_some_and(|status| status.is_terminal()) {
            bar.abandon();
        } else {
            bar.tick();
        }
    }
    let is_active = |id: &String| trackers.iter().any(|tracker| tracker.id == *id);
    bars.iter().filter(|(id, bar)| !is_active(id) && !bar.is_finished()).for_each(|(_, bar)| {
        bar.abandon();
    });
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(state: &str, text: &str, trackers: Option<Value>) -> StreamEvent {
        let mut update = json!({
            "taskId": "0192a4c8-7e1a-7b3c-9d4e-000000000003", "contextId": "c",
            "status": {"state": state, "timestamp": "2026-02-21T18:30:00Z", "message":
                {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": text}]}},
        });
        if let Some(trackers) = trackers {
            update["metadata"] = json!({ PROGRESS_EXTENSION: { "trackers": trackers } });
        }
        serde_json::from_value(json!({ "statusUpdate": update })).unwrap()
    }

    #[test]
    fn changes_are_listed_one_per_line() {
        let mut last_shown = LastShown::default();
        let mut lines = |event| last_shown.changes(&event).lines;
        let working = |text, trackers| event("TASK_STATE_WORKING", text, trackers);
        assert_eq!(lines(working("begun", None)), ["working  begun"]);
        let a =
            json!({"id": "a", "progress": 1, "total": 4, "status": "running", "message": "one"});
        let b = json!({"id": "b\u{1b}[31m", "progress": 2.5});
        let both = Some(json!([a, b]));
        let expected = ["  a  1/4 (25%)  running  one", "  b\\u{1b}[31m  2.5"];
        assert_eq!(lines(working("one", both.clone())), expected);
        assert!(lines(working("one", both)).is_empty());
        assert_eq!(
            lines(working("one", Some(json!([{"id": "a", "progress": 0, "total": 0}])))),
            ["  a  0/0"]
        );
        assert_eq!(lines(event("TASK_STATE_COMPLETED", "done\n", None)), ["completed  done\\n"]);
    }
}
