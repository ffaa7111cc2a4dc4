//! Text and integer forms of column values, readable with the `sqlite3` shell.
//!
//! - States are the lower-case names of A2A 0.3: `input-required`, not
//!   `TASK_STATE_INPUT_REQUIRED`.
//! - Timestamps are RFC 3339 in UTC with milliseconds, so that their texts sort chronologically.
//! - The other A2A types are JSON of A2A 1.0.

use a2a_protocol::task::{TaskState, UtcMillis};

/// The terminal states of a task, as SQL; the same text as in the schema's partial index.
pub(crate) const ENDED: &str = "('completed','failed','canceled','rejected')";

/// The other states of a task.
pub(crate) const OPEN: &str = "('submitted','working','input-required','auth-required')";

/// The terminal states of an objective, as SQL; the same text as in the schema's partial index.
pub(crate) const OBJECTIVE_ENDED: &str = "('completed','failed','canceled')";

/// The other states of an objective.
pub(crate) const OBJECTIVE_OPEN: &str = "('submitted','planning','working','blocked')";

/// The first and the last timestamp whose year has four digits. Others are clamped to them.
const FIRST: &str = "0000-01-01T00:00:00.000Z";
const LAST: &str = "9999-12-31T23:59:59.999Z";

pub(crate) const fn of_state(state: TaskState) -> &'static str {
    match state {
        TaskState::Submitted => "submitted",
        TaskState::Working => "working",
        TaskState::Completed => "completed",
        TaskState::Failed => "failed",
        TaskState::Canceled => "canceled",
        TaskState::InputRequired => "input-required",
        TaskState::Rejected => "rejected",
        TaskState::AuthRequired => "auth-required",
    }
}

pub(crate) fn to_state(name: &str) -> Option<TaskState> {
    TaskState::ALL.iter().copied().find(|state| of_state(*state) == name)
}

pub(crate) fn of_moment(moment: UtcMillis) -> String {
    let text = moment.to_string();
    match text.as_bytes().first() {
        Some(b'+') => LAST.to_owned(),
        Some(b'-') => FIRST.to_owned(),
        _ => text,
    }
}

/// SQLite's integers are signed. Event numbers are validated before; other numbers stay small.
pub(crate) fn of_number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// All 64 bits of a hash, in a signed integer.
pub(crate) const fn of_hash(hash: u64) -> i64 {
    hash.cast_signed()
}

pub(crate) const fn to_hash(stored: i64) -> u64 {
    stored.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use a2a_protocol::opt::ObjectiveStatus;

    use super::*;

    #[test]
    fn task_state_round_trips_and_is_open_or_ended() {
        for state in TaskState::ALL {
            assert_eq!(to_state(of_state(*state)), Some(*state));
            assert_eq!(ENDED.contains(&format!("'{}'", of_state(*state))), state.is_terminal());
            assert_eq!(OPEN.contains(&format!("'{}'", of_state(*state))), !state.is_terminal());
        }
        assert_eq!(to_state("TASK_STATE_WORKING"), None);
    }

    #[test]
    fn objective_status_is_open_or_ended() {
        for status in ObjectiveStatus::ALL {
            let quoted = format!("'{status}'");
            assert_eq!(OBJECTIVE_ENDED.contains(&quoted), status.is_terminal());
            assert_eq!(OBJECTIVE_OPEN.contains(&quoted), !status.is_terminal());
        }
    }

    #[test]
    fn timestamp_texts_sort_chronologically() {
        let moments = [
            "0000-01-01T00:00:00+14:00",
            "0000-01-01T00:00:00Z",
            "1999-12-31T23:59:59.999Z",
            "2026-02-21T18:30:00Z",
            "2026-02-21T18:30:00.001Z",
            "9999-12-31T23:59:59.999Z",
            "9999-12-31T23:59:59-14:00",
        ];
        let texts = moments.map(|moment| of_moment(moment.parse().unwrap()));
        assert!(texts.is_sorted(), "{texts:?}");
        assert!(texts.iter().all(|text| text.len() == 24), "{texts:?}");
    }
}
