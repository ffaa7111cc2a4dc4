//! How values stand in the columns, so that people who look with `sqlite3` can read them.
//!
//! States are the lower-case words of A2A 0.3, as in the seed of the schema: `input-required`,
//! not `TASK_STATE_INPUT_REQUIRED`. Moments are RFC 3339 in UTC with milliseconds, whose texts
//! sort as the moments do. The rest of A2A's shapes are JSON of A2A 1.0.

use a2a_protocol::task::{Moment, TaskState};

/// The states a task never leaves, as SQL; the same text as in the schema's partial index.
pub(super) const ENDED: &str = "('completed','failed','canceled','rejected')";

/// The others.
pub(super) const OPEN: &str = "('submitted','working','input-required','auth-required')";

/// The states an objective never leaves, as SQL; the same text as in the schema's partial index.
pub(super) const OBJECTIVE_ENDED: &str = "('completed','failed','canceled')";

/// The others.
pub(super) const OBJECTIVE_OPEN: &str = "('submitted','planning','working','blocked')";

/// The first and the last moment whose texts sort: years have four digits between them.
const FIRST: &str = "0000-01-01T00:00:00.000Z";
const LAST: &str = "9999-12-31T23:59:59.999Z";

pub(super) const fn of_state(state: TaskState) -> &'static str {
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

pub(super) fn to_state(word: &str) -> Option<TaskState> {
    TaskState::ALL.iter().copied().find(|state| of_state(*state) == word)
}

pub(super) fn of_moment(moment: Moment) -> String {
    let text = moment.to_string();
    match text.as_bytes().first() {
        Some(b'+') => LAST.to_owned(),
        Some(b'-') => FIRST.to_owned(),
        _ => text,
    }
}

/// SQLite's integers have a sign. Numbers of events are checked before; nothing else gets there.
pub(super) fn of_number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// All bits of a hash, in an integer with a sign.
pub(super) const fn of_hash(hash: u64) -> i64 {
    hash.cast_signed()
}

pub(super) const fn to_hash(kept: i64) -> u64 {
    kept.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use a2a_protocol::opt::ObjectiveStatus;

    use super::*;

    #[test]
    fn every_state_has_a_word_of_its_own() {
        for state in TaskState::ALL {
            assert_eq!(to_state(of_state(*state)), Some(*state));
            assert_eq!(ENDED.contains(&format!("'{}'", of_state(*state))), state.is_terminal());
            assert_eq!(OPEN.contains(&format!("'{}'", of_state(*state))), !state.is_terminal());
        }
        assert_eq!(to_state("TASK_STATE_WORKING"), None);
    }

    #[test]
    fn every_state_of_an_objective_is_open_or_ended() {
        for status in ObjectiveStatus::ALL {
            let word = format!("'{status}'");
            assert_eq!(OBJECTIVE_ENDED.contains(&word), status.is_terminal());
            assert_eq!(OBJECTIVE_OPEN.contains(&word), !status.is_terminal());
        }
    }

    #[test]
    fn texts_of_moments_sort_as_they_do() {
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
