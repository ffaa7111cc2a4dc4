//! Task progress: the extension's payload, its schema and the rules no schema can say.
//!
//! The schema that its specification prints is published as it is. This server takes a little less
//! (fewer trackers, nothing negative), and what it takes stands in one place: [`accepted_schema`], the printed
//! schema made narrower, which reading, the report and the schema of `status_update` all use.

use std::borrow::Cow;
use std::sync::LazyLock;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Value, json};

use crate::fields::timestamp::any_rfc3339;
use crate::limits::TRACKERS;
use crate::validate::checker::Checker;
use crate::validate::document::{Document, push_token};
use crate::{Code, Report, Violation};
use crate::{Timestamp, schema};

/// The extension's URI: its key in any `metadata`.
pub const PROGRESS_EXTENSION: &str = "https://a2a-protocol.org/extensions/task-progress/v1";

static ACCEPTED: LazyLock<Checker> = LazyLock::new(|| Checker::new(accepted_schema()));

/// A snapshot of everything that is progressing in a task.
///
/// ```
/// use a2a_protocol::Progress;
/// let ok = br#"{"trackers": [{"id": "download", "progress": 12, "total": 40}]}"#;
/// assert_eq!(Progress::parse(ok).unwrap().trackers[0].progress, Some(12.0));
/// let bad = br#"{"trackers": [{"id": "download", "progress": 41, "total": 40}]}"#;
/// assert_eq!(Progress::parse(bad).unwrap_err().violations()[0].path, "/trackers/0/progress");
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
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
    #[serde(default, serialize_with = "number", skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// How far it goes; absent when unknown.
    #[serde(default, serialize_with = "number", skip_serializing_if = "Option::is_none")]
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
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ProgressAggregate {
    /// How far everything is.
    #[serde(default, serialize_with = "number", skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// How far everything goes; absent when unknown.
    #[serde(default, serialize_with = "number", skip_serializing_if = "Option::is_none")]
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
        violations.extend(violations_in(&document.value));
        if !violations.is_empty() {
            return Err(Report::new(violations));
        }
        Self::read(document.value).map_err(|error| {
            // Schema and types disagree: a defect of this crate that the property tests look for.
            Violation::new("", Code::WrongType, format!("The progress cannot be read: {error}."))
                .into()
        })
    }

    fn read(checked: Value) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct Checked {
            trackers: Vec<ProgressTracker>,
            #[serde(default)]
            aggregate: Option<ProgressAggregate>,
        }
        let Checked { trackers, aggregate } = Checked::deserialize(checked)?;
        Ok(Self { trackers, aggregate })
    }

    /// Whether it keeps the rules; one that was read does.
    ///
    /// # Errors
    /// A [`Report`] with every violation; paths start at the payload.
    pub fn check(&self) -> Result<(), Report> {
        let value = serde_json::to_value(self)
            .unwrap_or_else(|error| unreachable!("numbers and strings are writable: {error}"));
        let found = violations_in(&value);
        if found.is_empty() { Ok(()) } else { Err(Report::new(found)) }
    }
}

impl ProgressTracker {
    /// A tracker of which nothing is known but its name.
    #[must_use]
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            progress: None,
            total: None,
            message: None,
            status: None,
            started_at: None,
            updated_at: None,
        }
    }
}

impl TrackerStatus {
    /// Whether it stays like this, so that the tracker may be left out from now on.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

impl<'de> Deserialize<'de> for Progress {
    /// Reads what keeps the rules and nothing else.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        match violations_in(&value).first() {
            Some(fault) => Err(de::Error::custom(fault)),
            None => Self::read(value).map_err(de::Error::custom),
        }
    }
}

impl JsonSchema for Progress {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Progress".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        Schema::try_from(accepted_schema()).unwrap_or_default()
    }
}

/// A number as people write it: without a fraction where it has none.
fn number<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Some(value) if value.fract() == 0.0 && value.abs() < EXACT => {
            #[allow(clippy::cast_possible_truncation)] // whole, and within what is exact
            serializer.serialize_i64(*value as i64)
        }
        value => value.serialize(serializer),
    }
}

/// The schema of what this server takes: the printed one without its name, its parts in their
/// places, and narrower where this server is.
fn accepted_schema() -> Value {
    let mut printed = schema::task_progress();
    let mut tracker = printed["definitions"]["tracker"].take();
    let aggregate = printed["definitions"]["aggregate"].take();
    for field in ["progress", "total"] {
        tracker["properties"][field]["minimum"] = json!(0);
    }
    for field in ["startedAt", "updatedAt"] {
        // As for every other timestamp a pattern says it all, since many validators skip formats.
        tracker["properties"][field] =
            json!({ "type": "string", "pattern": Timestamp::ANY_PATTERN });
    }
    json!({
        "type": "object",
        "required": ["trackers"],
        "properties": {
            "trackers": { "type": "array", "items": tracker, "maxItems": TRACKERS },
            "aggregate": aggregate,
        },
        "additionalProperties": false,
    })
}

/// Everything that is wrong with a payload; paths start at the payload.
fn violations_in(payload: &Value) -> Vec<Violation> {
    let mut found = ACCEPTED.violations(payload);
    let Some(trackers) = payload["trackers"].as_array() else { return found };
    for fault in found.iter_mut().filter(|fault| fault.code == Code::TooMany) {
        // The rest cannot follow in another message: each is a snapshot of all.
        fault.message = format!(
            "There are {} trackers; at most {TRACKERS} are allowed. Report coarser units of work.",
            trackers.len()
        );
    }
    for (i, tracker) in trackers.iter().enumerate() {
        if let (Some(progress), Some(total)) =
            (tracker["progress"].as_f64(), tracker["total"].as_f64())
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

/// What is wrong with the progress in the `metadata` of a `status_update`, in its own words instead
/// of those that the schema of the whole message found.
pub(crate) fn replace_violations(message: &Value, found: &mut Vec<Violation>) {
    let mut place = "/payload/metadata".to_owned();
    push_token(&mut place, PROGRESS_EXTENSION);
    let Some(payload) = message.pointer(&place) else { return };
    if message["type"] != "status_update" {
        return;
    }
    let is_inside = |path: &str| {
        path.strip_prefix(&place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    found.retain(|violation| violation.code == Code::DuplicateKey || !is_inside(&violation.path));
    found.extend(
        violations_in(payload)
            .into_iter()
            .map(|fault| Violation { path: format!("{place}{}", fault.path), ..fault }),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_that_is_taken_and_a_little_more() {
        let tracker = |fields: Value| {
            let mut tracker = json!({ "id": "a" });
            tracker.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            json!({ "trackers": [tracker] })
        };
        let many = |count: usize| {
            let all: Vec<_> = (0..count).map(|n| json!({ "id": n.to_string() })).collect();
            json!({ "trackers": all })
        };
        let cases = [
            (many(20), None),
            (many(21), Some(("/trackers", Code::TooMany))),
            (many(101), Some(("/trackers", Code::TooMany))),
            (tracker(json!({ "id": "é".repeat(128) })), None),
            (tracker(json!({ "id": "é".repeat(129) })), Some(("/trackers/0/id", Code::TooLong))),
            (tracker(json!({ "id": "" })), Some(("/trackers/0/id", Code::Blank))),
            (tracker(json!({ "message": "é".repeat(512) })), None),
            (
                tracker(json!({ "message": "x".repeat(513) })),
                Some(("/trackers/0/message", Code::TooLong)),
            ),
            (tracker(json!({ "progress": 0, "total": 0 })), None),
            (
                tracker(json!({ "progress": 1, "total": 0 })),
                Some(("/trackers/0/progress", Code::Mismatch)),
            ),
            (tracker(json!({ "total": -1 })), Some(("/trackers/0/total", Code::NotAllowed))),
            (
                tracker(json!({ "progress": -0.5 })),
                Some(("/trackers/0/progress", Code::NotAllowed)),
            ),
            (tracker(json!({ "status": "done" })), Some(("/trackers/0/status", Code::NotAllowed))),
            (tracker(json!({ "startedAt": "2026-02-21t18:30:00z" })), None),
            (
                tracker(json!({ "startedAt": "2026-02-21 18:30:00Z" })),
                Some(("/trackers/0/startedAt", Code::BadTimestamp)),
            ),
            (
                tracker(json!({ "updatedAt": "2016-12-31T23:58:60Z" })),
                Some(("/trackers/0/updatedAt", Code::BadTimestamp)),
            ),
            (tracker(json!({ "eta": 3 })), Some(("/trackers/0/eta", Code::UnknownField))),
            (json!({ "trackers": [], "aggregate": { "progress": -1, "total": -2 } }), None),
            (json!({ "trackers": [], "aggregate": null }), Some(("/aggregate", Code::WrongType))),
            (json!([]), Some(("", Code::WrongType))),
        ];
        for (payload, fault) in cases {
            let found = match Progress::parse(payload.to_string().as_bytes()) {
                Ok(_) => Vec::new(),
                Err(report) => report.into_violations(),
            };
            let found: Vec<_> = found.iter().map(|v| (v.path.as_str(), v.code)).collect();
            assert_eq!(found, fault.into_iter().collect::<Vec<_>>(), "{payload}");
            // The printed schema allows more, never less.
            if fault.is_none() {
                let printed = jsonschema::options().should_validate_formats(true);
                let printed = printed.build(&schema::task_progress()).unwrap();
                assert!(printed.is_valid(&payload), "{payload}");
            }
        }
    }

    #[test]
    fn whole_numbers_are_written_as_people_write_them() {
        let tracker = ProgressTracker {
            progress: Some(12.0),
            total: Some(40.5),
            ..ProgressTracker::new("download")
        };
        let progress = Progress { trackers: vec![tracker], aggregate: None };
        let expected = json!({"trackers": [{"id": "download", "progress": 12, "total": 40.5}]});
        assert_eq!(serde_json::to_value(&progress).unwrap(), expected);
    }
}
