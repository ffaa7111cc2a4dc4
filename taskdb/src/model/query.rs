//! Queries for pages of tasks and objectives, and the tokens between pages.
//!
//! A token contains the sort key of the last item of its page, so items that are created or changed
//! between two pages neither repeat nor hide others.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use a2a_protocol::opt::{ObjectiveId, ObjectiveStatus};
use a2a_protocol::task::{ContextId, OpaqueId, TaskState, UtcMillis};
use a2a_protocol::{AgentId, TaskId};
use chrono::DateTime;
use uuid::Uuid;

use super::page_token;
use super::{ObjectiveTree, StoredObjective, StoredTask};

/// The most items on a page.
pub const MAX_PAGE: usize = 100;

/// Selects a page of tasks. A filter that is `None` matches all.
#[derive(Debug, Clone, Default)]
pub struct ListQuery {
    /// Only of this owner; `None` for all owners.
    pub owner: Option<Arc<str>>,
    /// Only of this agent.
    pub agent: Option<AgentId>,
    /// Only in this context.
    pub context: Option<ContextId>,
    /// Only in this state.
    pub status: Option<TaskState>,
    /// Only with a status timestamp at or after this.
    pub after: Option<UtcMillis>,
    /// The most tasks on the page; clamped to 1 to [`MAX_PAGE`].
    pub page_size: usize,
    /// The end of the previous page; `None` for the first page.
    pub page_token: Option<PageToken>,
    /// The most messages of each history; `None` for all.
    pub history_length: Option<usize>,
    /// Whether to include artifacts.
    pub include_artifacts: bool,
}

/// A page of tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The tasks, newest status timestamp first.
    pub tasks: Vec<StoredTask>,
    /// The token for the next page; `None` on the last page.
    pub next_page_token: Option<PageToken>,
    /// The number of tasks on all pages.
    pub total_size: u64,
}

/// The end of a page of tasks. Its text is opaque to callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageToken {
    pub(crate) moment: UtcMillis,
    pub(crate) id: TaskId,
}

/// The text is no page token of this kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "this page token was not made by this server; use `nextPageToken` of the page before as it is"
)]
pub struct BadPageToken;

/// Kinds of tokens differ in their checksum.
const TASK_KIND: u64 = 0;

impl PageToken {
    pub(crate) fn of(stored: &StoredTask) -> Self {
        Self { moment: stored.task.status.timestamp, id: stored.task.id }
    }
}

impl fmt::Display for PageToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut content = self.moment.to_utc().timestamp_millis().to_be_bytes().to_vec();
        content.extend(self.id.as_uuid().as_bytes());
        page_token::write(f, TASK_KIND, content)
    }
}

impl FromStr for PageToken {
    type Err = BadPageToken;

    fn from_str(text: &str) -> Result<Self, BadPageToken> {
        let content = page_token::read(TASK_KIND, text).ok_or(BadPageToken)?;
        let (ms, id) = content.split_first_chunk().ok_or(BadPageToken)?;
        let moment =
            DateTime::from_timestamp_millis(i64::from_be_bytes(*ms)).ok_or(BadPageToken)?;
        let id = Uuid::from_slice(id).map_err(|_| BadPageToken)?;
        let id = TaskId::try_from(id).map_err(|_| BadPageToken)?;
        Ok(Self { moment: moment.into(), id })
    }
}

/// The end of a page of push configurations, which are sorted by id: the last id on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushToken(pub OpaqueId);

const PUSH_KIND: u64 = 2;

impl fmt::Display for PushToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        page_token::write(f, PUSH_KIND, self.0.as_str().as_bytes().to_vec())
    }
}

impl FromStr for PushToken {
    type Err = BadPageToken;

    fn from_str(text: &str) -> Result<Self, BadPageToken> {
        let content = page_token::read(PUSH_KIND, text).ok_or(BadPageToken)?;
        let name = std::str::from_utf8(&content).map_err(|_| BadPageToken)?;
        OpaqueId::try_from(name).map(Self).map_err(|_| BadPageToken)
    }
}

/// Selects a page of objectives. A filter that is `None` matches all.
#[derive(Debug, Clone, Default)]
pub struct ObjectiveQuery {
    /// Only of this owner; `None` for all owners.
    pub owner: Option<Arc<str>>,
    /// Only with this status.
    pub status: Option<ObjectiveStatus>,
    /// The most objectives on the page; clamped to 1 to [`MAX_PAGE`].
    pub limit: usize,
    /// The end of the previous page; `None` for the first page.
    pub after: Option<ObjectiveToken>,
    /// Whether to include plans and their tasks.
    pub with_plans: bool,
}

/// A page of objectives.
#[derive(Debug, Clone, PartialEq)]
pub struct Objectives {
    /// The objectives, newest first; without plans unless the query asked for them.
    pub objectives: Vec<ObjectiveTree>,
    /// The token for the next page; `None` on the last page.
    pub next: Option<ObjectiveToken>,
}

/// The end of a page of objectives. Its text is opaque to callers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectiveToken {
    pub(crate) created: UtcMillis,
    pub(crate) id: ObjectiveId,
}

const OBJECTIVE_KIND: u64 = 1;

impl ObjectiveToken {
    pub(crate) fn of(stored: &StoredObjective) -> Self {
        Self { created: stored.objective.created_at, id: stored.objective.id.clone() }
    }
}

impl fmt::Display for ObjectiveToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut content = self.created.to_utc().timestamp_millis().to_be_bytes().to_vec();
        content.extend(self.id.as_str().bytes());
        page_token::write(f, OBJECTIVE_KIND, content)
    }
}

impl FromStr for ObjectiveToken {
    type Err = BadPageToken;

    fn from_str(text: &str) -> Result<Self, BadPageToken> {
        let content = page_token::read(OBJECTIVE_KIND, text).ok_or(BadPageToken)?;
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
    use super::*;

    #[test]
    fn push_token_is_not_one_of_tasks() {
        let token = PushToken(OpaqueId::try_from("of 20 characters, é").unwrap());
        let text = token.to_string();
        assert_eq!(text.parse(), Ok(token));
        assert_eq!(text.parse::<PageToken>(), Err(BadPageToken));
        assert_eq!(text[2..].parse::<PushToken>(), Err(BadPageToken));
        let task = PageToken {
            moment: "2026-02-21T18:30:00.123Z".parse().unwrap(),
            id: "0192a4c8-7e1a-7b3c-9d4e-000000000003".parse().unwrap(),
        };
        assert_eq!(task.to_string().parse::<PushToken>(), Err(BadPageToken));
    }

    #[test]
    fn task_token_parses_only_its_own_text() {
        let token = PageToken {
            moment: "2026-02-21T18:30:00.123Z".parse().unwrap(),
            id: "0192a4c8-7e1a-7b3c-9d4e-000000000003".parse().unwrap(),
        };
        let text = token.to_string();
        assert_eq!(text.parse(), Ok(token));
        for at in 0..text.len() {
            let mut other = text.clone().into_bytes();
            other[at] = if other[at] == b'0' { b'1' } else { b'0' };
            assert_eq!(String::from_utf8(other).unwrap().parse::<PageToken>(), Err(BadPageToken));
        }
        for bad in ["", "1", &text[1..], &text.to_uppercase(), &"é".repeat(28), &"+1".repeat(28)] {
            assert_eq!(bad.parse::<PageToken>(), Err(BadPageToken), "{bad}");
        }
    }

    #[test]
    fn objective_token_parses_only_its_own_text() {
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
    fn token_of_tasks_is_not_one_of_objectives() {
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
