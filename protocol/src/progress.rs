//! Task progress: the extension's payload, its schema and the rules no schema can say.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::checker::Checker;
use crate::document::Document;
use crate::limits::TRACKERS;
use crate::timestamp::any_rfc3339;
use crate::violation::{Code, Report, Violation};
use crate::{Timestamp, schema};

/// The extension's URI: its key in any `metadata`.
pub const PROGRESS_EXTENSION: &str = "https://a2a-protocol.org/extensions/task-progress/v1";

static SCHEMA: LazyLock<Checker> = LazyLock::new(|| Checker::new(schema::task_progress()));

/// A snapshot of everything that is progressing in a task.
///
/// ```
/// use a2a_protocol::Progress;
/// let ok = br#"{"trackers": [{"id": "download", "progress": 12, "total": 40}]}"#;
/// assert_eq!(Progress::parse(ok).unwrap().trackers[0].progress, Some(12.0));
/// let bad = br#"{"trackers": [{"id": "download", "progress": 41, "total": 40}]}"#;
/// assert_eq!(Progress::parse(bad).unwrap_err().violations()[0].path, "/trackers/0/progress");
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The units of work that are active, or just ended.
    pub trackers: Vec<ProgressTracker>,
    /// One bar for all of them; advisory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregate: Option<ProgressAggregate>,
}

/// One unit of work that progresses by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgressTracker {
    /// Stable within the task.
    pub id: String,
    /// How far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// How far it goes; absent when unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// A hint for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether it still runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<TrackerStatus>,
    /// When it began.
    #[serde(default, deserialize_with = "any_rfc3339", skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it last moved.
    #[serde(default, deserialize_with = "any_rfc3339", skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
}

closed_set! {
    /// Whether a tracker's work still runs.
    pub enum TrackerStatus {
        /// It runs.
        Running = "running",
        /// It is done.
        Completed = "completed",
        /// It failed; the task may go on.
        Failed = "failed",
    }
}

/// One bar for all trackers; need not agree with them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProgressAggregate {
    /// How far everything is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// How far everything goes; absent when unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// A hint for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Progress {
    /// Reads the payload of the extension, or lists everything that is wrong with it.
    ///
    /// # Errors
    /// A [`Report`] with every violation; paths start at the payload.
    pub fn parse(bytes: &[u8]) -> Result<Self, Report> {
        let document = Document::read(bytes)?;
        let mut violations = document.duplicate_keys;
        violations.extend(check(&document.value));
        if !violations.is_empty() {
            return Err(Report::new(violations));
        }
        serde_json::from_value(document.value).map_err(|error| {
            // Schema and types disagree: a leap second outside the end of a UTC day, at most.
            Violation::new("", Code::BadTimestamp, format!("The progress cannot be read: {error}."))
                .into()
        })
    }
}

fn check(payload: &Value) -> Vec<Violation> {
    let mut found = SCHEMA.faults(payload);
    let Some(trackers) = payload["trackers"].as_array() else { return found };
    // The schema allows 100, this server fewer; a list beyond both is one fault with one number.
    if trackers.len() > TRACKERS {
        found.retain(|violation| violation.code != Code::TooMany);
        let sentence = format!(
            "There are {} trackers; at most {TRACKERS} are allowed. Report coarser units of work.",
            trackers.len()
        );
        found.push(Violation::new("/trackers", Code::TooMany, sentence));
    }
    for (i, tracker) in trackers.iter().enumerate() {
        let (progress, total) = (tracker["progress"].as_f64(), tracker["total"].as_f64());
        for (name, value) in [("progress", progress), ("total", total)] {
            if value.is_some_and(|value| value < 0.0) {
                let sentence = format!("`{name}` is negative; it must be at least 0.");
                found.push(Violation::new(
                    format!("/trackers/{i}/{name}"),
                    Code::NotAllowed,
                    sentence,
                ));
            }
        }
        if let (Some(progress), Some(total)) = (progress, total)
            && progress > total
        {
            let sentence = format!(
                "`progress` is {progress}, above `total`, which is {total}. Raise `total`, or leave it out if it is unknown."
            );
            found.push(Violation::new(format!("/trackers/{i}/progress"), Code::Mismatch, sentence));
        }
    }
    found
}
