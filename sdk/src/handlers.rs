//! One handler for each kind of message.

use std::pin::Pin;
use std::sync::Arc;

use a2a_actors::Delivery;
use a2a_protocol::Body;
use a2a_protocol::body::{
    Broadcast, KnowledgeShare, ReviewRequest, ReviewResponse, StatusUpdate, TaskRequest,
    TaskResponse,
};

use super::{Agent, Handler, HandlerResult};

type Running = Pin<Box<dyn Future<Output = Option<String>> + Send>>;
type Taker<B> = Box<dyn Fn(Agent, Delivery, B) -> Running + Send + Sync>;

/// Handlers of an agent, one for each kind of message.
///
/// Each handler is an async function of the agent itself, the delivery and its payload, with the
/// rules of every [`Handler`]. Other messages go to [`otherwise`](Self::otherwise), or are
/// acknowledged.
///
/// ```
/// # #[tokio::main(flavor = "multi_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use a2a_sdk::{Agent, Broadcast, Bus, Handlers, Delivery, SendError, TaskRequest};
///
/// async fn work(tim: Agent, delivery: Delivery, task: TaskRequest) -> Result<(), SendError> {
///     tim.complete(&delivery, format!("Did {}", task.title)).await?;
///     Ok(())
/// }
///
/// let bus = Bus::builder().in_memory().start()?;
/// let handlers = Handlers::new()
///     .on_task_request(work)
///     .on_broadcast(|_, delivery: Delivery, news: Broadcast| async move {
///         println!("{}: {}", delivery.sender, news.message);
///     })
///     .otherwise(|delivery: Delivery| async move { println!("{delivery:?}") });
/// let tim = bus.attach("tim", handlers).await?;
/// # bus.stop().await;
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Handlers {
    task_request: Option<Taker<TaskRequest>>,
    task_response: Option<Taker<TaskResponse>>,
    status_update: Option<Taker<StatusUpdate>>,
    knowledge_share: Option<Taker<KnowledgeShare>>,
    review_request: Option<Taker<ReviewRequest>>,
    review_response: Option<Taker<ReviewResponse>>,
    broadcast: Option<Taker<Broadcast>>,
    otherwise: Option<Box<dyn Fn(Agent, Delivery) -> Running + Send + Sync>>,
}

macro_rules! on {
    ($( $(#[$doc:meta])+ $method:ident, $field:ident, $body:ident; )+) => { $(
        $(#[$doc])+
        #[must_use]
        pub fn $method<F, Fut>(mut self, handler: F) -> Self
        where
            F: Fn(Agent, Delivery, $body) -> Fut + Send + Sync + 'static,
            Fut: Future<Output: HandlerResult> + Send + 'static,
        {
            self.$field = Some(taker(handler));
            self
        }
    )+ };
}

impl Handlers {
    /// No handlers: every message is acknowledged.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    on! {
        /// Handles a task request.
        on_task_request, task_request, TaskRequest;
        /// Handles an answer to a task of this agent that no [`TaskHandle`](super::TaskHandle)
        /// watches.
        on_task_response, task_response, TaskResponse;
        /// Handles a status update that no [`TaskHandle`](super::TaskHandle) watches.
        on_status_update, status_update, StatusUpdate;
        /// Handles shared knowledge.
        on_knowledge_share, knowledge_share, KnowledgeShare;
        /// Handles a review request.
        on_review_request, review_request, ReviewRequest;
        /// Handles the verdict of a review this agent requested.
        on_review_response, review_response, ReviewResponse;
        /// Handles an announcement.
        on_broadcast, broadcast, Broadcast;
    }

    /// Handles every message that no other handler takes; any [`Handler`].
    #[must_use]
    pub fn otherwise<Args: Send + 'static>(mut self, handler: impl Handler<Args>) -> Self {
        let handler = Arc::new(handler);
        self.otherwise = Some(Box::new(move |me, delivery| {
            let handler = Arc::clone(&handler);
            Box::pin(async move { handler.handle(me, delivery).await })
        }));
        self
    }

    /// Starts the handler of the delivery, if there is one.
    fn start(&self, me: Agent, delivery: Delivery) -> Option<Running> {
        macro_rules! start {
            ($field:ident, $body:expr) => {
                if let Some(handler) = &self.$field {
                    let body = $body.clone();
                    return Some(handler(me, delivery, body));
                }
            };
        }
        match &delivery.message.body {
            Body::TaskRequest(body) => start!(task_request, body),
            Body::TaskResponse(body) => start!(task_response, body),
            Body::StatusUpdate(body) => start!(status_update, body),
            Body::KnowledgeShare(body) => start!(knowledge_share, body),
            Body::ReviewRequest(body) => start!(review_request, body),
            Body::ReviewResponse(body) => start!(review_response, body),
            Body::Broadcast(body) => start!(broadcast, body),
            // A kind that this version does not have goes to `otherwise`.
            _ => {}
        }
        self.otherwise.as_ref().map(|handler| handler(me, delivery))
    }
}

fn taker<B, F, Fut>(handler: F) -> Taker<B>
where
    F: Fn(Agent, Delivery, B) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: HandlerResult> + Send + 'static,
{
    Box::new(move |me, delivery, body| {
        let work = handler(me, delivery, body);
        Box::pin(async move { work.await.error() })
    })
}

impl Handler<Handlers> for Handlers {
    async fn handle(&self, me: Agent, delivery: Delivery) -> Option<String> {
        match self.start(me, delivery) {
            Some(work) => work.await,
            None => None,
        }
    }
}
