//! Which tasks to list, and where a page ends.
//!
//! A page ends at a task, not at a count: tasks that are made or change meanwhile neither repeat
//! nor hide another one.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use a2a_protocol::task::{ContextId, Label, Moment, TaskState};
use a2a_protocol::{AgentId, TaskId};
use chrono::DateTime;
use uuid::Uuid;

use super::{StoredTask, token};

/// The most tasks on a page.
pub const MAX_PAGE: usize = 100;

/// Which tasks to list.
#[derive(Debug, Clone, Default)]
pub struct ListQuery {
    /// Of this owner; of everybody without one.
    pub owner: Option<Arc<str>>,
    /// Of this agent.
    pub agent: Option<AgentId>,
    /// Of this conversation.
    pub context: Option<ContextId>,
    /// In this state.
    pub status: Option<TaskState>,
    /// Whose status is not older than this.
    pub after: Option<Moment>,
    /// How many; taken as 1 to [`MAX_PAGE`].
    pub page_size: usize,
    /// Where the page before ended.
    pub page_token: Option<PageToken>,
    /// How many messages of the history of each; all without a number.
    pub history_length: Option<usize>,
    /// With what came of them.
    pub include_artifacts: bool,
}

/// Some of the tasks that were asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The tasks, the one whose status changed last first.
    pub tasks: Vec<StoredTask>,
    /// Where the next page begins; `None` at the end.
    pub next_page_token: Option<PageToken>,
    /// How many there are on all pages.
    pub total_size: u64,
}

/// Where a page ended. Its text means nothing to anybody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageToken {
    pub(super) moment: Moment,
    pub(super) id: TaskId,
}

/// The text is no page token of this server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "this page token was not made by this server; use `nextPageToken` of the page before as it is"
)]
pub struct BadPageToken;

/// The first kind of token there was.
const KIND: u64 = 0;

impl PageToken {
    pub(super) fn of(stored: &StoredTask) -> Self {
        Self { moment: stored.task.status.timestamp, id: stored.task.id }
    }
}

impl fmt::Display for PageToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut content = self.moment.to_utc().timestamp_millis().to_be_bytes().to_vec();
        content.extend(self.id.as_uuid().as_bytes());
        token::write(f, KIND, content)
    }
}

impl FromStr for PageToken {
    type Err = BadPageToken;

    fn from_str(text: &str) -> Result<Self, BadPageToken> {
        let content = token::read(KIND, text).ok_or(BadPageToken)?;
        let (ms, id) = content.split_first_chunk().ok_or(BadPageToken)?;
        let moment =
            DateTime::from_timestamp_millis(i64::from_be_bytes(*ms)).ok_or(BadPageToken)?;
        let id = Uuid::from_slice(id).map_err(|_| BadPageToken)?;
        let id = TaskId::try_from(id).map_err(|_| BadPageToken)?;
        Ok(Self { moment: moment.into(), id })
    }
}

/// Where a page of wishes to be told ended: at the one of this name. They are listed by their
/// names, so that none is shown twice or left out when others come and go in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushToken(pub Label);

/// So that no other token is taken for one of these.
const PUSH_KIND: u64 = 2;

impl fmt::Display for PushToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        token::write(f, PUSH_KIND, self.0.as_str().as_bytes().to_vec())
    }
}

impl FromStr for PushToken {
    type Err = BadPageToken;

    fn from_str(text: &str) -> Result<Self, BadPageToken> {
        let content = token::read(PUSH_KIND, text).ok_or(BadPageToken)?;
        let name = std::str::from_utf8(&content).map_err(|_| BadPageToken)?;
        Label::try_from(name).map(Self).map_err(|_| BadPageToken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_wishes_is_one_of_nothing_else() {
        let token = PushToken(Label::try_from("of 20 characters, é").unwrap());
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
    fn only_its_own_text_is_a_token() {
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
}
