//! A task from the record of the request that asked its agent.
//!
//! A caller may hear how its task ended before the store does ([`super::ahead`]). After a crash in
//! that moment the journal still has both the request, which carries everything, and the answer,
//! which nobody has acknowledged: the task is made anew from the first, and hears the second again.

use std::sync::Arc;

use a2a_journal::{MAX_PAGE, Query, Read, ReadError};
use a2a_policy::tasks::dispatch_id;
use a2a_protocol::task::{ContextId, Label, Message, Moment, Task, TaskState, TaskStatus};
use a2a_protocol::{Body, Envelope, Kind, TaskId, Trace};
use a2a_taskdb::StoredTask;
use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The task as it was when its agent was first asked; `None` when no request in the journal says
/// that it carries everything.
pub(super) fn from_journal(
    journal: &dyn Read,
    task: TaskId,
) -> Result<Option<StoredTask>, ReadError> {
    // The oldest: it may have been handed on since.
    let (kind, limit) = (Some(Kind::TaskRequest), MAX_PAGE);
    let (since, until) = around(task);
    let mut query = Query { task: Some(task), kind, since, until, limit, ..Query::default() };
    let mut first = None;
    loop {
        let page = journal.query(&query)?;
        let oldest_first = page.records.iter().rev();
        first =
            oldest_first.map(|record| &record.line).find_map(|line| from_record(line)).or(first);
        query.before = page.next;
        if page.next.is_none() {
            return Ok(first);
        }
    }
}

/// When the request of a task was sent that was handed over when it was made, whatever the clock
/// did meanwhile: the whole journal need not be looked through.
fn around(task: TaskId) -> (Option<DateTime<Utc>>, Option<DateTime<Utc>>) {
    let made = task.as_uuid().get_timestamp().and_then(|made| {
        let (seconds, nanos) = made.to_unix();
        DateTime::from_timestamp(i64::try_from(seconds).ok()?, nanos)
    });
    let beside = |days| made.and_then(|made| made.checked_add_signed(TimeDelta::days(days)));
    (beside(-1), beside(1))
}

fn from_record(line: &RawValue) -> Option<StoredTask> {
    #[derive(Deserialize)]
    struct Record<'a> {
        via: Option<Arc<str>>,
        trace: Option<String>,
        #[serde(borrow)]
        message: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Context {
        a2a: Message,
        context_id: ContextId,
        a2a_version: Option<Arc<str>>,
        #[serde(default)]
        a2a_whole: bool,
    }
    let record: Record<'_> = serde_json::from_str(line.get()).ok()?;
    let request = Envelope::parse(record.message?.get().as_bytes()).ok()?;
    let Body::TaskRequest(body) = &request.body else { return None };
    let context: Context = serde_json::from_str(body.context.as_ref()?.as_json()).ok()?;
    // Others may have copied the words; only the service sends them under this id.
    let sent = dispatch_id(body.task_id, &context.a2a.message_id, 0);
    if !context.a2a_whole || request.message_id != sent {
        return None;
    }
    let asked = Moment::from(request.timestamp.to_utc());
    let status = TaskStatus { state: TaskState::Working, message: None, timestamp: asked };
    let task = Task {
        id: body.task_id,
        context_id: context.context_id,
        status,
        artifacts: Vec::new(),
        history: vec![Arc::new(context.a2a)],
        metadata: None,
    };
    Some(StoredTask {
        task: Arc::new(task),
        owner: record.via?,
        principal: request.from.agent_id.clone(),
        agent: request.to?.agent_id,
        spoken_version: context.a2a_version,
        correlation: request.correlation_id,
        trace: record.trace.and_then(|trace| trace.parse::<Trace>().ok()).map(Arc::new),
        version: 1,
        last_event: 0,
        queued: None,
        dispatched: true,
        worked_ms: 0,
        working_since: Some(asked),
        heard: Vec::new(),
        created: asked,
        updated: asked,
    })
}

/// The id of the message that began it.
pub(super) fn message_of(stored: &StoredTask) -> Option<Label> {
    stored.task.history.last().map(|message| message.message_id.clone())
}
