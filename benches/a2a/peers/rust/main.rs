//! The echo agent of `benches/a2a` on the official A2A server for Rust, in memory: `peer PORT`.
//!
//! It does what the other echo agents do: a task, one artifact with the text it received,
//! completed. With `peer PORT whole` it returns the finished task in one event.

use std::sync::Arc;

use a2a::{
    A2AError, Artifact, Part, StreamResponse, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus,
    TaskStatusUpdateEvent,
};
use a2a_server::{AgentExecutor, DefaultRequestHandler, ExecutorContext, InMemoryTaskStore};
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};

#[cfg(feature = "tuned")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    let whole = args.iter().any(|arg| arg == "whole");
    let handler = DefaultRequestHandler::new(Echo { whole }, InMemoryTaskStore::new());
    let router = a2a_server::jsonrpc::jsonrpc_router(Arc::new(handler));
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{}", args[1])).await;
    let listener = listener.unwrap_or_else(|error| panic!("{error}"));
    axum::serve(listener, router).await.unwrap_or_else(|error| panic!("{error}"));
}

struct Echo {
    /// Returns the finished task in one event, instead of task, artifact and end.
    whole: bool,
}

impl AgentExecutor for Echo {
    fn execute(
        &self,
        context: ExecutorContext,
    ) -> BoxStream<'static, Result<StreamResponse, A2AError>> {
        let text = context.message.as_ref().and_then(|message| message.text()).unwrap_or_default();
        let artifact = Artifact {
            artifact_id: a2a::new_artifact_id(),
            name: Some("answer".into()),
            description: None,
            parts: vec![Part::text(text)],
            metadata: None,
            extensions: None,
        };
        let (id, context_id) = context.task_info();
        let status =
            |state| TaskStatus { state, message: None, timestamp: Some(chrono::Utc::now()) };
        let task = |state, artifacts| Task {
            id: id.clone(),
            context_id: context_id.clone(),
            status: status(state),
            artifacts,
            history: context.message.clone().map(|message| vec![message]),
            metadata: None,
        };
        let events = if self.whole {
            vec![StreamResponse::Task(task(TaskState::Completed, Some(vec![artifact])))]
        } else {
            vec![
                StreamResponse::Task(task(TaskState::Working, None)),
                StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
                    task_id: id.clone(),
                    context_id: context_id.clone(),
                    artifact,
                    append: None,
                    last_chunk: None,
                    metadata: None,
                }),
                StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
                    task_id: id.clone(),
                    context_id: context_id.clone(),
                    status: status(TaskState::Completed),
                    metadata: None,
                }),
            ]
        };
        stream::iter(events.into_iter().map(Ok)).boxed()
    }

    fn cancel(&self, _: ExecutorContext) -> BoxStream<'static, Result<StreamResponse, A2AError>> {
        stream::empty().boxed()
    }
}
