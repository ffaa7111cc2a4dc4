//! Reads tasks: get one, list a page.

use std::sync::Arc;

use a2a_protocol::AgentId;
use a2a_protocol::fault::Fault;
use a2a_protocol::operation::{GetTask, ListTasks, TaskPage};
use a2a_protocol::task::Task;
use a2a_taskdb::{ListQuery, PageToken};

use super::{TaskCaller, TaskSystem, invalid};

impl TaskSystem {
    /// Returns a task of the caller.
    ///
    /// # Errors
    /// When there is none.
    pub async fn get(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        get: GetTask,
    ) -> Result<Task, Fault> {
        let mut task = Arc::unwrap_or_clone(self.owned(caller, agent, &get.id).await?.task);
        task.cut_history(get.history_length);
        Ok(task)
    }

    /// Returns a page of the caller's tasks.
    ///
    /// # Errors
    /// When the token was not made by this server.
    pub async fn list(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        list: ListTasks,
    ) -> Result<TaskPage, Fault> {
        let token = list.page_token.filter(|token| !token.is_empty());
        let token = token.map(|token| token.parse::<PageToken>()).transpose();
        let page_token = token.map_err(|error| invalid("/pageToken", &error.to_string()))?;
        let page_size = list.page_size.unwrap_or(50);
        let of_objective = match &list.context_id {
            Some(context) => self.find_objective(caller, context).await?.is_some(),
            None => false,
        };
        let query = ListQuery {
            owner: (!caller.sees_all).then(|| Arc::clone(&caller.owner)),
            agent: (!of_objective).then(|| agent.clone()),
            context: list.context_id,
            status: list.status,
            after: list.status_timestamp_after,
            page_size: page_size as usize,
            page_token,
            history_length: list.history_length,
            include_artifacts: list.include_artifacts,
        };
        self.await_store().await?;
        let page = self.read_store(move |reader| reader.list(&query)).await?;
        Ok(TaskPage {
            tasks: page.tasks.into_iter().map(|s| Arc::unwrap_or_clone(s.task)).collect(),
            next_page_token: page.next_page_token.map(|t| t.to_string()).unwrap_or_default(),
            page_size,
            total_size: page.total_size,
        })
    }
}
