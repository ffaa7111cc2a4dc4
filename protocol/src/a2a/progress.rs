//! Task-progress extension: payload, schema, and the rules that a schema cannot express.
//!
//! The schema of the specification is published unchanged. This server accepts less: fewer trackers
//! and no negative numbers. [`accepted_schema`] is the narrowed schema, which parsing, the report and
//! the schema of `status_update` all use.

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
    /// The units of work that are running or have just ended.
    pub trackers: Vec<ProgressTracker>,
    /// Overall progress; advisory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregate: Option<ProgressAggregate>,
}

/// Progress of one unit of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgressTracker {
    /// Id of the tracker, stable within the task.
    pub id: String,
    /// Amount of work done.
    #[serde(default, serialize_with = "number", skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// Total amount of work; `None` if unknown.
    #[serde(default, serialize_with = "number", skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// Short message for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// State of the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<TrackerStatus>,
    /// When the work started.
    #[serde(default, deserialize_with = "any_rfc3339", skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When the tracker last changed.
    #[serde(default, deserialize_with = "any_rfc3339", skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
}

closed_set! {
    /// State of a tracker's work.
    pub enum TrackerStatus {
        /// Running.
        Running = "running",
        /// Completed.
        Completed = "completed",
        /// Failed; the task may continue.
        Failed = "failed",
    }
}

/// Overall progress; need not equal the sum of the trackers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ProgressAggregate {
    /// Amount of work done.
    #[serde(default, serialize_with = "number", skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// Total amount of work; `None` if unknown.
    #[serde(default, serialize_with = "number", skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// Short message for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Progress {
    /// Parses the payload of the extension, or lists all violations.
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

    /// Checks the rules. A parsed payload satisfies them.
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
    /// A tracker with an id and no other field.
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
    /// Whether no further state follows, so that later updates may omit the tracker.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

impl<'de> Deserialize<'de> for Progress {
    /// Refuses a payload with a violation.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        match violations_in(&value).first() {
            Some(violation) => Err(de::Error::custom(violation)),
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

/// Writes a whole number without a fraction.
fn number<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Some(value) if value.fract() == 0.0 && value.abs() < EXACT => {
            #[allow(clippy::cast_possible_truncation)] // whole, and within the exact range
            serializer.serialize_i64(*value as i64)
        }
        value => value.serialize(serializer),
    }
}

/// The schema of the payloads that this server accepts: the specification's schema with inlined
/// definitions and narrower limits.
fn accepted_schema() -> Value {
    let mut printed = schema::task_progress();
    let mut tracker = printed["definitions"]["tracker"].take();
    let aggregate = printed["definitions"]["aggregate"].take();
    for field in ["progress", "total"] {
        tracker["properties"][field]["minimum"] = json!(0);
    }
    for field in ["startedAt", "updatedAt"] {
        // A pattern instead of a format, as for other timestamps: many validators skip formats.
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

/// All violations of a payload; paths start at the payload.
fn violations_in(payload: &Value) -> Vec<Violation> {
    let mut found = ACCEPTED.violations(payload);
    let Some(trackers) = payload["trackers"].as_array() else { return found };
    for violation in found.iter_mut().filter(|violation| violation.code == Code::TooMany) {
        // The general advice does not fit: each message is a snapshot of all trackers, so the rest
        // cannot follow in another message.
        violation.message = format!(
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

/// Replaces the violations that the message schema found in the progress of a `status_update` by
/// those of the progress schema, whose advice is more specific.
pub(crate) fn replace_violations(message: &Value, found: &mut Vec<Violation>) {
    let mut prefix = "/payload/metadata".to_owned();
    push_token(&mut prefix, PROGRESS_EXTENSION);
    let Some(payload) = message.pointer(&prefix) else { return };
    if message["type"] != "status_update" {
        return;
    }
    let is_inside = |path: &str| {
        path.strip_prefix(&prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    found.retain(|violation| violation.code == Code::DuplicateKey || !is_inside(&violation.path));
    found.extend(
        violations_in(payload).into_iter().map(|violation| Violation {
            path: format!("{prefix}{}", violation.path),
            ..violation
        }),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_at_and_beyond_each_limit() {
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
            // The specification's schema allows more, never less.
            if fault.is_none() {
                let printed = jsonschema::options().should_validate_formats(true);
                let printed = printed.build(&schema::task_progress()).unwrap();
                assert!(printed.is_valid(&payload), "{payload}");
            }
        }
    }

    #[test]
    fn whole_number_is_written_without_fraction() {
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
