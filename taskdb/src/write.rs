//! Every change of the store, and every answer to one.

use a2a_protocol::TaskId;
use a2a_protocol::operation::PushConfig;
use a2a_protocol::task::{Label, Message, Moment};

use super::{Misfit, NewEvent, ObjectiveChange, SentMessage, StoredTask};

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// A new task, of version 1.
    Create {
        /// The task.
        stored: StoredTask,
        /// The message that asks for it, heard once per owner and agent.
        message: Option<SentMessage>,
        /// What happened to it already.
        events: Vec<NewEvent>,
        /// Whom to tell; each has an id.
        push: Vec<PushConfig>,
    },
    /// A task has changed.
    Update {
        /// How it is now; its version is `expected` and 1.
        stored: StoredTask,
        /// Its version before.
        expected: u64,
        /// What happened.
        events: Vec<NewEvent>,
        /// The message that goes on with it. One that was heard before stays with what came of
        /// it then: what happened to a task is never refused because of it.
        message: Option<SentMessage>,
    },
    /// The agent answered with a message instead of a task: the task goes, and the answer stays
    /// under the ids of the caller's messages, so that a repeat gets it again.
    Answer {
        /// The task that goes.
        id: TaskId,
        /// The answer.
        message: Box<Message>,
    },
    /// The agent answered with a message, and the task never was in the store.
    AnswerAtOnce {
        /// The task that never was.
        stored: StoredTask,
        /// The message that asked for it.
        message: SentMessage,
        /// The answer.
        answer: Box<Message>,
    },
    /// A task goes, with everything about it.
    Delete(TaskId),
    /// Somebody wants to be told of a task, or of another place than before. Only events after
    /// this are told.
    PutPush {
        /// The task.
        task: TaskId,
        /// The wish; it has an id.
        config: PushConfig,
    },
    /// Nobody there wants to be told any more; what waits for it in the outbox goes too.
    DeletePush {
        /// The task.
        task: TaskId,
        /// The wish.
        id: Label,
    },
    /// A webhook was told, or will not be.
    Pushed {
        /// The number in the outbox.
        outbox: u64,
    },
    /// A webhook could not be told and will be tried again.
    PushLater {
        /// The number in the outbox.
        outbox: u64,
        /// How often it was tried.
        attempts: u32,
        /// When to try again.
        next: Moment,
    },
    /// An objective is new or has changed, with its plans and their tasks.
    Objective(Box<ObjectiveChange>),
    /// All of these or none: one that does not fit takes the others back, and its answer is that
    /// of all of them.
    Together(Vec<Write>),
    /// Tasks that ended, and answers that were given, before this moment go: the oldest first.
    /// Then objectives that ended and were not changed since, once their last task is gone.
    Expire {
        /// The moment.
        older_than: Moment,
        /// How many at most.
        limit: usize,
    },
}

impl Write {
    /// Whether it is more than one row's change, and has to happen wholly or not at all.
    pub(super) const fn has_parts(&self) -> bool {
        matches!(self, Self::Together(_) | Self::Objective(_))
    }
}

/// What came of a change.
#[derive(Debug, Clone, PartialEq)]
pub enum Written {
    /// It is kept.
    Done,
    /// The message was heard before.
    Repeated(Repeated),
    /// The task or objective is not of the version that was expected, or exists already.
    Conflict {
        /// Its version or revision; `None` when there is no such one (any more).
        version: Option<u64>,
    },
    /// What is to be answered, deleted, watched or told does not exist (any more).
    Missing,
    /// It can never fit: whoever made it has a mistake.
    Refused(Misfit),
    /// So many tasks, answers and objectives went; as many as the limit means that there may be more.
    Expired(usize),
    /// All of them are kept; what came of each.
    Together(Vec<Written>),
}

impl Written {
    /// Whether it was done; what was not left no trace.
    #[must_use]
    pub const fn fits(&self) -> bool {
        match self {
            Self::Done | Self::Expired(_) | Self::Together(_) => true,
            Self::Repeated(_) | Self::Conflict { .. } | Self::Missing | Self::Refused(_) => false,
        }
    }
}

/// What came of a message that was heard before.
#[derive(Debug, Clone, PartialEq)]
pub enum Repeated {
    /// It began this task, or went on with it.
    Task(TaskId),
    /// It was answered without a task.
    Answer(Box<Message>),
    /// Its id was heard before, with other content.
    Other,
}
