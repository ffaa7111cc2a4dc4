//! Sending: one method for each of the seven kinds, and shortcuts for answers to tasks.

use a2a_actors::Delivery;
use a2a_protocol::{Body, Envelope, Report};

use super::draft::{self, Addressee, BuildError};
use super::{
    Agent, Announcement, Draft, Knowledge, NewReview, NewTask, ReviewAnswer, SendError, Sent,
    StatusReport, TaskAnswer, TaskHandle,
};

/// Parses and validates one message.
///
/// ```
/// let report = a2a_sdk::parse_message(b"{}").unwrap_err();
/// assert!(report.violations().iter().any(|violation| violation.path == "/payload"));
/// ```
///
/// # Errors
/// A [`Report`] with every violation.
pub fn parse_message(bytes: &[u8]) -> Result<Envelope, Report> {
    Envelope::parse(bytes)
}

impl Agent {
    /// Writes a draft as a message without sending it: sender, ids and time are filled in.
    ///
    /// Use it to [`post`](Self::post) the very same message several times.
    ///
    /// # Errors
    /// When the draft breaks rules; the error lists every violation.
    pub fn write(
        &self,
        to: impl Into<Addressee>,
        draft: impl Draft,
    ) -> Result<Envelope, BuildError> {
        draft::write(self.id(), &to.into(), draft)
    }

    /// Sends a message and waits until it is on disk, or refused.
    ///
    /// A message that was accepted before is no error: the outcome is `duplicate`.
    ///
    /// # Errors
    /// When the bus refuses it; the error contains the reason and what to do.
    pub async fn post(&self, message: Envelope) -> Result<Sent, SendError> {
        if let Body::TaskResponse(response) = &message.body {
            // Pending progress is sent before the answer.
            self.flush_progress(response.task_id).await;
        }
        let ids = Sent::ids(&message);
        Sent::from_receipt(ids, self.send(message).await)
    }

    async fn write_and_post(
        &self,
        to: impl Into<Addressee>,
        draft: impl Draft,
    ) -> Result<Sent, SendError> {
        let message = self.write(to, draft)?;
        self.post(message).await
    }

    /// Requests a task from another agent; its answers go to this agent's handler.
    ///
    /// To await them at the call site, see [`request_task`](Self::request_task).
    ///
    /// # Errors
    /// When the draft breaks rules or the bus refuses the message.
    pub async fn send_task_request(
        &self,
        to: impl Into<Addressee>,
        task: NewTask,
    ) -> Result<Sent, SendError> {
        self.write_and_post(to, task).await
    }

    /// Answers a task: usually that of the delivery.
    ///
    /// ```
    /// use a2a_sdk::{Agent, Delivery, SendError, TaskAnswer};
    ///
    /// async fn work(tim: Agent, delivery: Delivery) -> Result<(), SendError> {
    ///     let answer = TaskAnswer::completed("There are seven.").next_step("Inform the team");
    ///     tim.send_task_response(&delivery, answer).await?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// When the draft breaks rules, no task is answered, or the bus refuses the message.
    pub async fn send_task_response(
        &self,
        to: impl Into<Addressee>,
        answer: TaskAnswer,
    ) -> Result<Sent, SendError> {
        self.write_and_post(to, answer).await
    }

    /// Requests a review from another agent.
    ///
    /// # Errors
    /// When the draft breaks rules or the bus refuses the message.
    pub async fn send_review_request(
        &self,
        to: impl Into<Addressee>,
        review: NewReview,
    ) -> Result<Sent, SendError> {
        self.write_and_post(to, review).await
    }

    /// Answers a review request with a verdict.
    ///
    /// # Errors
    /// When the draft breaks rules, the delivery is no review request, or the bus refuses the
    /// message.
    pub async fn send_review_response(
        &self,
        request: &Delivery,
        verdict: ReviewAnswer,
    ) -> Result<Sent, SendError> {
        self.write_and_post(request, verdict).await
    }

    /// Reports the status of work: of the task of a delivery, or in general to an agent by name.
    ///
    /// # Errors
    /// When the draft breaks rules or the bus refuses the message.
    pub async fn send_status_update(
        &self,
        to: impl Into<Addressee>,
        status: StatusReport,
    ) -> Result<Sent, SendError> {
        self.write_and_post(to, status).await
    }

    /// Shares knowledge with other agents.
    ///
    /// # Errors
    /// When the draft breaks rules or the bus refuses the message.
    pub async fn share_knowledge(&self, knowledge: Knowledge) -> Result<Sent, SendError> {
        self.write_and_post((), knowledge).await
    }

    /// Announces something to many agents.
    ///
    /// ```
    /// # #[tokio::main(flavor = "multi_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use a2a_sdk::{Announcement, Bus, Scope};
    ///
    /// let bus = Bus::builder().in_memory().start()?;
    /// let (_tim, roman) = (bus.connect("tim").await?, bus.connect("roman").await?);
    /// let sent = roman.broadcast(Announcement::new(Scope::Org, "freeze", "No merges")).await?;
    /// assert_eq!(sent.recipients()[0].agent_id.as_str(), "tim");
    /// # bus.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the draft breaks rules or the bus refuses the message.
    pub async fn broadcast(&self, announcement: Announcement) -> Result<Sent, SendError> {
        self.write_and_post((), announcement).await
    }

    /// Requests a task and watches it: its updates go to the handle instead of this agent's
    /// handler. See [`TaskHandle`].
    ///
    /// # Errors
    /// When the draft breaks rules or the bus refuses the message.
    pub async fn request_task(
        &self,
        to: impl Into<Addressee>,
        task: NewTask,
    ) -> Result<TaskHandle, SendError> {
        TaskHandle::begin(self, self.write(to, task)?).await
    }

    /// Accepts the task of a delivery.
    ///
    /// ```
    /// use a2a_sdk::{Agent, Delivery, SendError};
    ///
    /// async fn work(tim: Agent, delivery: Delivery) -> Result<(), SendError> {
    ///     tim.accept(&delivery).await?;
    ///     tim.report(&delivery, "Half way through").await?;
    ///     tim.complete(&delivery, "There are seven.").await?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`send_task_response`](Self::send_task_response).
    pub async fn accept(&self, delivery: &Delivery) -> Result<Sent, SendError> {
        self.send_task_response(delivery, TaskAnswer::accepted()).await
    }

    /// Declines the task of a delivery, with a reason.
    ///
    /// # Errors
    /// As [`send_task_response`](Self::send_task_response).
    pub async fn decline(
        &self,
        delivery: &Delivery,
        reason: impl Into<String>,
    ) -> Result<Sent, SendError> {
        self.send_task_response(delivery, TaskAnswer::declined(reason)).await
    }

    /// Reports progress on the task of a delivery.
    ///
    /// # Errors
    /// As [`send_status_update`](Self::send_status_update).
    pub async fn report(
        &self,
        delivery: &Delivery,
        progress: impl Into<String>,
    ) -> Result<Sent, SendError> {
        self.send_status_update(delivery, StatusReport::in_progress(progress)).await
    }

    /// Reports that the task of a delivery is blocked.
    ///
    /// # Errors
    /// As [`send_task_response`](Self::send_task_response).
    pub async fn block(
        &self,
        delivery: &Delivery,
        reason: impl Into<String>,
    ) -> Result<Sent, SendError> {
        self.send_task_response(delivery, TaskAnswer::blocked(reason)).await
    }

    /// Completes the task of a delivery, with a summary.
    ///
    /// # Errors
    /// As [`send_task_response`](Self::send_task_response).
    pub async fn complete(
        &self,
        delivery: &Delivery,
        summary: impl Into<String>,
    ) -> Result<Sent, SendError> {
        self.send_task_response(delivery, TaskAnswer::completed(summary)).await
    }

    /// Fails the task of a delivery, with a reason.
    ///
    /// # Errors
    /// As [`send_task_response`](Self::send_task_response).
    pub async fn fail(
        &self,
        delivery: &Delivery,
        reason: impl Into<String>,
    ) -> Result<Sent, SendError> {
        self.send_task_response(delivery, TaskAnswer::failed(reason)).await
    }
}
