//! Effects, refusals, and reading a tree back from the model.

use a2a_protocol::opt::{ObjectiveId, ObjectiveStatus, PlanStatus, PlanTask, PlanTaskStatus, key};
use a2a_protocol::task::{PlanId, PlanTaskId};
use serde_json::json;

use super::super::{CommandRefused, Effect, Tree};
use super::{objective, plan, task, tree};

#[test]
fn parent_change_is_reported_once_after_its_children() {
    let mut tree = tree("A: a | B<A: b");
    let text = |effects: Vec<Effect>| format!("{effects:?}");
    let (a, b) = (PlanId::try_from("A").unwrap(), PlanId::try_from("B").unwrap());
    let task = |id: &str| PlanTaskId::try_from(id).unwrap();
    assert_eq!(
        tree.settle(),
        [
            Effect::Begin { plan: a.clone(), task: task("a") },
            Effect::Plan { plan: a.clone(), status: PlanStatus::Working },
            Effect::Plan { plan: b.clone(), status: PlanStatus::Blocked },
            Effect::Objective { status: ObjectiveStatus::Working },
        ]
    );
    assert_eq!(
        tree.report(&task("a"), PlanTaskStatus::Completed),
        [
            Effect::Begin { plan: b.clone(), task: task("b") },
            Effect::Plan { plan: a.clone(), status: PlanStatus::Completed },
            Effect::Plan { plan: b.clone(), status: PlanStatus::Working },
        ]
    );
    let added = tree.add_plan(&plan("C: c")).unwrap();
    assert!(text(added).contains("Working"), "that an added plan begins is said as well");
    assert_eq!(tree.move_objective(ObjectiveStatus::Canceled).unwrap().len(), 2 + 2 + 1);
}

#[test]
fn invalid_mutation_is_refused_and_changes_nothing() {
    let mut tree = tree("A: a | B<A: b");
    tree.settle();
    let id = |text: &str| PlanId::try_from(text).unwrap();
    let tasks =
        |n: usize| -> Vec<PlanTask> { (0..n).map(|i| task(&format!("t{i}"), i, "A")).collect() };
    let before = tree.clone();
    let many: String = (0..51).map(|i| format!("t{i} ")).collect();
    let refused = [
        tree.move_plan(&id("Z"), PlanStatus::Skipped),
        tree.move_plan(&id("A"), PlanStatus::Pending),
        tree.move_objective(ObjectiveStatus::Submitted),
        tree.add_tasks(&id("Z"), &tasks(1)),
        tree.add_tasks(&id("A"), &tasks(50)),
        tree.set_dependencies(&id("A"), &[id("B")]),
        tree.set_dependencies(&id("A"), &[id("Z")]),
        tree.add_plan(&plan(&format!("C: {many}"))),
    ];
    for one in refused {
        let one = one.unwrap_err();
        assert_eq!(one.violations().len(), 1, "{one}");
    }
    assert_eq!(tree, before);

    tree.add_tasks(&id("A"), &tasks(49)).unwrap();
    assert!(matches!(
        tree.set_dependencies(&id("A"), &[id("B")]),
        Err(CommandRefused::Dependencies(_))
    ));
    tree.set_dependencies(&id("B"), &[]).unwrap();
    assert!(matches!(
        tree.set_dependencies(&id("B"), &[id("A")]),
        Err(CommandRefused::NotWaiting { status: PlanStatus::Working, .. })
    ));
    for i in 2..10 {
        tree.add_plan(&plan(&format!("P{i}:"))).unwrap();
    }
    let limit = tree.add_plan(&plan("X:")).unwrap_err();
    assert_eq!(limit, CommandRefused::TooManyPlans { limit: 10 });
    assert_eq!(limit.to_string(), "an objective has at most 10 plans, and this one has them");
    tree.move_plan(&id("A"), PlanStatus::Skipped).unwrap();
    assert!(matches!(tree.add_tasks(&id("A"), &tasks(1)), Err(CommandRefused::PlanEnded { .. })));
    tree.move_objective(ObjectiveStatus::Canceled).unwrap();
    assert!(matches!(tree.add_plan(&plan("X:")), Err(CommandRefused::ObjectiveEnded { .. })));
    assert!(matches!(
        tree.move_objective(ObjectiveStatus::Completed),
        Err(CommandRefused::Transition(_))
    ));
}

#[test]
fn tree_read_back_from_model_is_equal() {
    let mut model = objective("A?: a b<a c | B<A: d | C!: e");
    let mut tree = Tree::from(&model);
    tree.settle();
    let task = PlanTaskId::try_from("a").unwrap();
    tree.report(&task, PlanTaskStatus::Failed);
    tree.show_in(&mut model);
    assert_eq!(
        model.plans.as_ref().unwrap()[0].tasks.as_ref().unwrap()[1].status,
        PlanTaskStatus::Canceled
    );
    assert_eq!(Tree::from(&model), tree);
    assert_eq!(tree.id(), &ObjectiveId::try_from("obj").unwrap());
    assert!(tree.plans()[2].is_held());
}

#[test]
fn assignee_of_task_overrides_assignee_of_plan() {
    let mut model = objective("A: a b");
    let plan = &mut model.plans.as_mut().unwrap()[0];
    let metadata = |agent: &str| json!({key::ASSIGNEE: agent}).as_object().cloned();
    plan.metadata = metadata("ada");
    plan.tasks.as_mut().unwrap()[1].metadata = metadata("bob");
    let tree = Tree::from(&model);
    let plan = &tree.plans()[0];
    let who: Vec<_> =
        plan.tasks().iter().map(|task| plan.assignee(task).unwrap().as_str()).collect();
    assert_eq!(who, ["ada", "bob"]);
}
