//! Which objectives to list, and where a page ends: at an objective, as with tasks.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use a2a_protocol::opt::{ObjectiveId, ObjectiveStatus};
use a2a_protocol::task::Moment;
use chrono::DateTime;

use super::super::{BadPageToken, token};
use super::{ObjectiveTree, StoredObjective};

/// Which objectives to list.
#[derive(Debug, Clone, Default)]
pub struct ObjectiveQuery {
    /// Of this owner; of everybody without one.
    pub owner: Option<Arc<str>>,
    /// In this state.
    pub status: Option<ObjectiveStatus>,
    /// How many; taken as 1 to [`super::super::MAX_PAGE`].
    pub limit: usize,
    /// Where the page before ended.
    pub after: Option<ObjectiveToken>,
    /// With their plans and the tasks of those.
    pub with_plans: bool,
}

/// Some of the objectives that were asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Objectives {
    /// The objectives, the one made last first; without plans unless they were asked for.
    pub objectives: Vec<ObjectiveTree>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<ObjectiveToken>,
}

/// Where a page of objectives ended. Its text means nothing to anybody else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectiveToken {
    pub(crate) created: Moment,
    pub(crate) id: ObjectiveId,
}

/// So that no page token of tasks is taken for one of objectives.
const KIND: u64 = 1;

impl ObjectiveToken {
    pub(crate) fn of(stored: &StoredObjective) -> Self {
        Self { created: stored.objective.created_at, id: stored.objective.id.clone() }
    }
}

impl fmt::Display for ObjectiveToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut content = self.created.to_utc().timestamp_millis().to_be_bytes().to_vec();
        content.extend(self.id.as_str().bytes());
        token::write(f, KIND, content)
    }
}

impl FromStr for ObjectiveToken {
    type Err = BadPageToken;

    fn from_str(text: &str) -> Result<Self, BadPageToken> {
        let content = token::read(KIND, text).ok_or(BadPageToken)?;
        let (ms, id) = content.split_first_chunk().ok_or(BadPageToken)?;
        let created =
            DateTime::from_timestamp_millis(i64::from_be_bytes(*ms)).ok_or(BadPageToken)?;
        let id = std::str::from_utf8(id).map_err(|_| BadPageToken)?;
        let id = ObjectiveId::try_from(id).map_err(|_| BadPageToken)?;
        Ok(Self { created: created.into(), id })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::PageToken;
    use super::*;

    #[test]
    fn only_its_own_text_is_a_token() {
        for id in ["o", "obj-0192a4c8-7e1a-7b3c-9d4e-000000000003", &"é".repeat(256)] {
            let token = ObjectiveToken {
                created: "2026-02-21T18:30:00.123Z".parse().unwrap(),
                id: ObjectiveId::try_from(id).unwrap(),
            };
            let text = token.to_string();
            assert_eq!(text.parse(), Ok(token));
            for at in 0..text.len() {
                let mut other = text.clone().into_bytes();
                other[at] = if other[at] == b'0' { b'1' } else { b'0' };
                let other = String::from_utf8(other).unwrap();
                assert_eq!(other.parse::<ObjectiveToken>(), Err(BadPageToken), "{other}");
            }
            for bad in [&text[1..], &text[2..], &text.to_uppercase(), &format!("{text}00")] {
                assert_eq!(bad.parse::<ObjectiveToken>(), Err(BadPageToken), "{bad}");
            }
        }
    }

    #[test]
    fn a_token_of_tasks_is_none_of_objectives() {
        let task = PageToken {
            moment: "2026-02-21T18:30:00.123Z".parse().unwrap(),
            id: "61626364-6566-7768-a96a-6b6c6d6e6f70".parse().unwrap(),
        };
        assert_eq!(task.to_string().parse::<ObjectiveToken>(), Err(BadPageToken));
        let objective = ObjectiveToken {
            created: "2026-02-21T18:30:00.123Z".parse().unwrap(),
            id: ObjectiveId::try_from("of 16 characters").unwrap(),
        };
        assert_eq!(objective.to_string().parse::<PageToken>(), Err(BadPageToken));
    }
}
