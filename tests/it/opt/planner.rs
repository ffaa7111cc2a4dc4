//! Another planner in place of the built-in one, and questions that need none.

use std::sync::Arc;

use a2a_planner::{Draft, PlanDraft, PlanRequest, Planner, TaskDraft};
use a2a_protocol::operation::Reply;
use a2a_protocol::opt::OptHints;
use openclaw_a2a::agents::host;

use crate::a2a_side::{Side, acme, id, soon, text};

/// Plans the same for every caller.
struct Stubborn;

impl Planner for Stubborn {
    fn plan(&self, asked: &PlanRequest<'_>) -> Draft {
        let task = |name: &str, dependencies| TaskDraft {
            name: name.to_owned(),
            description: None,
            dependencies,
        };
        let tasks = vec![task("echo look", vec![]), task("echo leap", vec![0])];
        let plan = PlanDraft { name: asked.text.to_owned(), tasks, depends_on: vec![] };
        Draft::Objective { name: "As always".to_owned(), plans: vec![plan] }
    }
}

#[tokio::test]
async fn another_planner_decides() {
    let side = Side::start();
    host::attach(&side.bus).await.unwrap();
    let tasks = side.tasks.clone().with_planner(Arc::new(Stubborn));
    let (caller, agent) = (acme(), id(host::NAME));
    let send = tasks.send_with_opt(&caller, &agent, text("Why?"), OptHints::default());
    let Reply::Planned { task, objective } = soon(send).await.unwrap() else { panic!() };
    let objective = objective.unwrap();
    assert_eq!((objective.name.as_str(), &objective.id), ("As always", &task.context_id));
    let steps = objective.plans.unwrap()[0].tasks.clone().unwrap();
    let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["echo look", "echo leap"]);
    assert_eq!(steps[0].a2a_task_id, Some(task.id));
    side.stop().await;
}

#[tokio::test]
async fn a_plain_question_gets_a_plain_answer() {
    let side = Side::start();
    host::attach(&side.bus).await.unwrap();
    let (caller, agent) = (acme(), id(host::NAME));
    let send =
        side.tasks.send_with_opt(&caller, &agent, text("What is 2 + 2?"), OptHints::default());
    let Reply::Answered(message) = soon(send).await.unwrap() else { panic!() };
    assert_eq!(message.text(), "2 + 2 = 4");
    side.stop().await;
}
