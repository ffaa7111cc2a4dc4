//! Push dispatcher: delivers the outbox of the task store to webhooks, in order for each, with
//! retries. The outbox is durable, so a crash loses nothing; a notification may be sent twice.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use a2a_actors::tasks::TaskSystem;
use a2a_protocol::PROGRESS_EXTENSION;
use a2a_protocol::task::UtcMillis;
use a2a_protocol::wire::{Version, push_body};
use a2a_taskdb::OutboxEntry;
use chrono::Utc;
use tokio::task::JoinSet;
use tracing::field::display;
use uuid::Uuid;

use super::call::secrets;
use super::extensions::without_progress;
use a2a_webhooks::{
    ContentType, DeliveryOutcome, NotificationId, RetryDecision, WebhookRequest, Webhooks,
    after_failure,
};

/// Calls looked up beyond those in flight.
const LOOK_AHEAD: usize = 128;
/// Longest wait between two polls of the outbox without a notification.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Longest wait between two polls of the outbox while calls are in flight.
const WHILE_CALLING: Duration = Duration::from_secs(1);

/// Delivers push notifications as long as it runs.
pub struct PushDispatcher {
    tasks: TaskSystem,
    webhooks: Arc<Webhooks>,
}

impl PushDispatcher {
    /// For this task service.
    #[must_use]
    pub fn new(tasks: TaskSystem, webhooks: Arc<Webhooks>) -> Self {
        Self { tasks, webhooks }
    }

    /// Runs until it is dropped.
    pub async fn run(self) {
        let (mut calling, mut calls) = (HashSet::new(), JoinSet::new());
        loop {
            let due = self.tasks.due_pushes(calling.len() + LOOK_AHEAD).await.unwrap_or_default();
            for due in due {
                if calling.insert(due.outbox) {
                    let (tasks, webhooks) = (self.tasks.clone(), Arc::clone(&self.webhooks));
                    calls.spawn(async move {
                        let outbox = due.outbox;
                        one(&tasks, &webhooks, due).await;
                        outbox
                    });
                }
            }
            let wait = self.until_next(calling.is_empty()).await;
            tokio::select! {
                Some(done) = calls.join_next() => {
                    match done {
                        Ok(outbox) => drop(calling.remove(&outbox)),
                        Err(error) => {
                            // Which call panicked is unknown; all that are due are looked up again.
                            tracing::error!(%error, "a call of a webhook broke off");
                            calls.abort_all();
                            while calls.join_next().await.is_some() {}
                            calling.clear();
                        }
                    }
                }
                () = self.tasks.pushes_changed() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    async fn until_next(&self, idle: bool) -> Duration {
        if !idle {
            return WHILE_CALLING;
        }
        let Ok(Some(next)) = self.tasks.next_push().await else { return LONGEST_WAIT };
        let wait = (next.to_utc() - Utc::now()).to_std().unwrap_or_default();
        wait.clamp(Duration::from_millis(10), LONGEST_WAIT)
    }
}

/// Performs one call and records its outcome.
async fn one(tasks: &TaskSystem, webhooks: &Webhooks, due: OutboxEntry) {
    let Some(call) = call(tasks, &due).await else {
        return tasks.push_done(due.outbox).await;
    };
    let Err(error) = webhooks.deliver(&call).await else {
        webhooks.count(DeliveryOutcome::Delivered);
        return tasks.push_done(due.outbox).await;
    };
    let attempt = due.attempts + 1;
    let trace = call.trace.as_ref().map(|trace| display(trace.id()));
    // The last bits of a version 7 UUID are random.
    let random = (Uuid::now_v7().as_u128() & u128::from(u32::MAX)) as u32;
    match after_failure(attempt, &error, webhooks.settings(), random) {
        RetryDecision::Retry { after } => {
            webhooks.count(DeliveryOutcome::Retried);
            let at = Utc::now() + after;
            tasks.push_later(due.outbox, attempt, UtcMillis::from(at)).await;
        }
        RetryDecision::GiveUp => {
            webhooks.count(DeliveryOutcome::GivenUp);
            tracing::warn!(task = %due.task, trace, attempt, %error, "webhook delivery dropped after the last attempt");
            tasks.push_done(due.outbox).await;
        }
        RetryDecision::Disable => {
            webhooks.count(DeliveryOutcome::Disabled);
            tracing::warn!(task = %due.task, trace, %error, "a webhook is gone; it is called no more");
            if let Some(id) = due.config.id.clone() {
                tasks.drop_push(due.task, id).await;
            }
        }
    }
}

/// The call for an event; `None` when its task is gone, the secrets cannot be sent, or the event is
/// not visible to the owner of the push config.
async fn call(tasks: &TaskSystem, due: &OutboxEntry) -> Option<WebhookRequest> {
    let version = if due.config.legacy { Version::V0_3 } else { Version::V1_0 };
    let stored = tasks.get_any(due.task).await.ok()?;
    let trace = Some(stored.trace());
    let mut task = Arc::unwrap_or_clone(stored.task);
    let mut event = Cow::Borrowed(&*due.event);
    if !due.config.opt {
        event = due.event.without_opt()?;
        task.strip_opt();
    }
    if !due.config.progress {
        event = without_progress(event);
        task.hide_extension(PROGRESS_EXTENSION);
    }
    let body = push_body(version, &event, &task);
    let (authorization, token) = secrets(&due.config).ok()?;
    // The same for every attempt, so that a receiver can detect repetitions.
    let id = Uuid::from_u128(due.task.as_uuid().as_u128() ^ u128::from(due.outbox));
    Some(WebhookRequest {
        id: NotificationId(id),
        owner: stored.owner.to_string(),
        url: due.config.url.clone(),
        body: body.into(),
        content_type: match version {
            Version::V0_3 => ContentType::Json,
            Version::V1_0 => ContentType::A2aJson,
        },
        authorization,
        token,
        trace,
    })
}
