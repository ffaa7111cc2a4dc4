//! Objectives under random operations in random order: parents never contradict their children,
//! nothing begins too early or twice, and nothing is stuck.

use std::collections::HashSet;

use a2a_policy::objectives::{CommandRefused, Effect, PlanNode, Tree};
use a2a_protocol::opt::{
    Objective, ObjectiveStatus, OnTaskFailure, Plan, PlanStatus, PlanTask, PlanTaskStatus, key,
};
use a2a_protocol::task::{PlanId, PlanTaskId};
use proptest::prelude::*;
use serde_json::json;

const TIME: &str = "2026-02-15T04:30:00Z";

/// A plan to create; the bits of the masks are the others it and its tasks depend on.
#[derive(Debug, Clone)]
struct Spec {
    held: bool,
    skip: bool,
    needs: u16,
    tasks: Vec<u16>,
    /// Tasks depend on later ones instead of earlier ones.
    forward: bool,
}

#[derive(Debug, Clone)]
enum Act {
    Report(usize, PlanTaskStatus),
    MovePlan(usize, PlanStatus),
    MoveObjective(ObjectiveStatus),
    AddPlan(Spec),
    AddTasks(usize, Vec<u16>),
    SetDependencies(usize, u16),
}

fn spec() -> impl Strategy<Value = Spec> {
    let tasks = prop::collection::vec(any::<u16>(), 0..6);
    (prop::bool::weighted(0.2), any::<bool>(), any::<u16>(), tasks, any::<bool>())
        .prop_map(|(held, skip, needs, tasks, forward)| Spec { held, skip, needs, tasks, forward })
}

fn act() -> impl Strategy<Value = Act> {
    let place = || 0..100usize;
    prop_oneof![
        30 => (place(), prop::sample::select(PlanTaskStatus::ALL)).prop_map(|(i, s)| Act::Report(i, s)),
        20 => place().prop_map(|i| Act::Report(i, PlanTaskStatus::Completed)),
        6 => (place(), prop::sample::select(PlanStatus::ALL)).prop_map(|(i, s)| Act::MovePlan(i, s)),
        4 => place().prop_map(|i| Act::MovePlan(i, PlanStatus::Working)),
        1 => prop::sample::select(ObjectiveStatus::ALL).prop_map(Act::MoveObjective),
        3 => spec().prop_map(Act::AddPlan),
        3 => (place(), prop::collection::vec(any::<u16>(), 0..4)).prop_map(|(i, t)| Act::AddTasks(i, t)),
        2 => (place(), any::<u16>()).prop_map(|(i, mask)| Act::SetDependencies(i, mask)),
    ]
}

fn task(plan: usize, place: usize, needs: Vec<String>) -> PlanTask {
    serde_json::from_value(json!({
        "id": format!("step-{plan}-{place}"), "planId": format!("plan-{plan}"), "objectiveId": "obj",
        "name": "t", "taskIndex": place, "dependencies": needs, "status": "pending",
    }))
    .unwrap()
}

fn plan(place: usize, spec: &Spec) -> Plan {
    let count = spec.tasks.len();
    let tasks: Vec<PlanTask> = spec
        .tasks
        .iter()
        .enumerate()
        .map(|(i, mask)| {
            let others = if spec.forward { i + 1..count } else { 0..i };
            let needs = others.filter(|j| mask & (1 << j) != 0 && mask & (256 << j) != 0);
            task(place, i, needs.map(|j| format!("step-{place}-{j}")).collect())
        })
        .collect();
    let needs = (0..place).filter(|j| spec.needs & (1 << j) != 0 && spec.needs & (8 << j) != 0);
    serde_json::from_value(json!({
        "id": format!("plan-{place}"), "objectiveId": "obj", "name": "p", "tasks": tasks,
        "status": if spec.held { "blocked" } else { "pending" },
        "dependencies": needs.map(|j| format!("plan-{j}")).collect::<Vec<_>>(),
        "metadata": {key::ON_TASK_FAILURE: if spec.skip { "skip" } else { "fail" }},
        "createdAt": TIME, "updatedAt": TIME,
    }))
    .unwrap()
}

/// The tree, the model as it would be persisted, and the tasks that began.
struct ObjectiveWorld {
    tree: Tree,
    model: Objective,
    begun: HashSet<PlanTaskId>,
    /// The caller has set an open status, which is shown whatever the plans' statuses are.
    was_set: bool,
}

impl ObjectiveWorld {
    fn new() -> Self {
        let model: Objective = serde_json::from_value(json!({
            "id": "obj", "name": "o", "status": "submitted", "plans": [],
            "createdAt": TIME, "updatedAt": TIME,
        }))
        .unwrap();
        Self { tree: Tree::from(&model), model, begun: HashSet::new(), was_set: false }
    }

    fn nth_plan(&self, n: usize) -> PlanId {
        let count = self.tree.plans().len().max(1);
        PlanId::try_from(format!("plan-{}", n % count).as_str()).unwrap()
    }

    fn nth_task(&self, n: usize) -> PlanTaskId {
        let all: Vec<_> = self.tree.plans().iter().flat_map(PlanNode::tasks).collect();
        all.get(n % all.len().max(1))
            .map_or_else(|| PlanTaskId::try_from("step-none").unwrap(), |task| task.id().clone())
    }

    /// Applies an action to the tree, and to the model what the task service would change.
    fn apply(&mut self, act: &Act) -> Result<Vec<Effect>, CommandRefused> {
        let plans = self.model.plans.get_or_insert_default().len();
        match act {
            Act::Report(n, status) => Ok(self.tree.report(&self.nth_task(*n), *status)),
            Act::MovePlan(n, status) => self.tree.move_plan(&self.nth_plan(*n), *status),
            Act::MoveObjective(status) => {
                let effects = self.tree.move_objective(*status)?;
                self.was_set |= !status.is_terminal();
                Ok(effects)
            }
            Act::AddPlan(spec) => {
                let plan = plan(plans, spec);
                let effects = self.tree.add_plan(&plan)?;
                self.model.plans.get_or_insert_default().push(plan);
                Ok(effects)
            }
            Act::AddTasks(n, masks) => {
                let id = self.nth_plan(*n);
                let (place, there) =
                    (n % plans.max(1), self.tree.plan(&id).map_or(0, |p| p.tasks().len()));
                let new: Vec<PlanTask> = masks
                    .iter()
                    .zip(there..)
                    .map(|(mask, i)| {
                        let needs = (0..i).filter(|j| {
                            mask & (1 << (j % 16)) != 0 && mask & (16 << (j % 12)) != 0
                        });
                        task(place, i, needs.map(|j| format!("step-{place}-{j}")).collect())
                    })
                    .collect();
                let effects = self.tree.add_tasks(&id, &new)?;
                self.model.plans.as_mut().unwrap()[place].tasks.as_mut().unwrap().extend(new);
                Ok(effects)
            }
            Act::SetDependencies(n, mask) => {
                let id = self.nth_plan(*n);
                let needs: Vec<PlanId> =
                    (0..plans).filter(|j| mask & (1 << j) != 0).map(|j| self.nth_plan(j)).collect();
                let effects = self.tree.set_dependencies(&id, &needs)?;
                self.model.plans.as_mut().unwrap()[n % plans.max(1)].dependencies = needs;
                Ok(effects)
            }
        }
    }

    /// Applies an action and checks all invariants afterwards.
    fn act(&mut self, act: &Act) {
        let before = self.tree.clone();
        match self.apply(act) {
            Err(_) => assert_eq!(self.tree, before, "a refused change changes nothing"),
            Ok(effects) => self.check_effects(&before, &effects, act),
        }
        check_ended(&before, &self.tree);
        check_plans(&self.tree);
        check_objective(&self.tree, self.was_set);
        let settled = self.tree.clone();
        assert_eq!(self.tree.settle(), [], "settled once is settled");
        assert_eq!(self.tree, settled);

        self.tree.show_in(&mut self.model);
        let metadata = self.model.metadata.get_or_insert_default();
        metadata.shift_remove(key::BLOCKED_BY);
        if self.tree.is_held() {
            metadata.insert(key::BLOCKED_BY.to_owned(), "approval".into());
        }
        let held = |plan: &Plan| self.tree.plan(&plan.id).unwrap().is_held();
        assert_eq!(Tree::new(&self.model, held), self.tree, "what was kept is what was");
    }

    fn check_effects(&mut self, before: &Tree, effects: &[Effect], act: &Act) {
        let mut plans = HashSet::new();
        for effect in effects {
            match effect {
                Effect::Begin { plan, task } => {
                    assert!(self.begun.insert(task.clone()), "{task} begins once");
                    self.check_may_begin(plan, task);
                    let tasks = self
                        .model
                        .plans
                        .iter_mut()
                        .flatten()
                        .flat_map(|p| p.tasks.iter_mut().flatten());
                    let kept = tasks.into_iter().find(|kept| kept.id == *task).unwrap();
                    kept.a2a_task_id =
                        Some("0192a4c8-7e1a-7b3c-9d4e-000000000003".parse().unwrap());
                }
                Effect::Cancel { task, .. } => {
                    let (plan, place) = before.find(task).unwrap();
                    assert!(
                        !plan.tasks()[place].status().is_terminal() && self.begun.contains(task)
                    );
                    assert!(self.tree.find(task).unwrap().0.status().is_terminal());
                }
                Effect::Plan { plan, status } => {
                    assert!(plans.insert(plan), "{plan} is said once");
                    assert_eq!(self.tree.plan(plan).unwrap().status(), *status);
                }
                Effect::Objective { status } => {
                    assert_eq!(*status, self.tree.status());
                    if !matches!(act, Act::MoveObjective(_)) {
                        check_end_by_itself(&self.tree);
                    }
                }
            }
        }
        for plan in self.tree.plans() {
            let came = if plan.is_held() { PlanStatus::Blocked } else { PlanStatus::Pending };
            let changed = plan.status() != before.plan(plan.id()).map_or(came, PlanNode::status);
            assert_eq!(
                changed,
                plans.contains(plan.id()),
                "every change is said, and nothing else"
            );
        }
        assert_eq!(
            self.tree.status() != before.status(),
            effects.iter().any(|effect| matches!(effect, Effect::Objective { .. })),
        );
    }

    fn check_may_begin(&self, plan: &PlanId, task: &PlanTaskId) {
        let (node, place) = self.tree.find(task).unwrap();
        assert_eq!(node.id(), plan);
        assert!(!node.is_held() && !self.tree.is_held());
        for need in self.tree.dependencies(node) {
            let status = self.tree.plan(need).unwrap().status();
            assert!(
                matches!(status, PlanStatus::Completed | PlanStatus::Skipped),
                "{need} {status}"
            );
            assert!(!self.builds_on_failure(need), "{need} was skipped because something failed");
        }
        for need in node.dependencies_of(&node.tasks()[place]) {
            let (_, place) = self.tree.find(need).unwrap();
            assert_eq!(node.tasks()[place].status(), PlanTaskStatus::Completed, "{need}");
        }
    }

    fn builds_on_failure(&self, plan: &PlanId) -> bool {
        let plan = self.tree.plan(plan).unwrap();
        let skipped = plan.status() == PlanStatus::Skipped;
        let below = || self.tree.dependencies(plan).any(|need| self.builds_on_failure(need));
        plan.status() == PlanStatus::Failed || (skipped && below())
    }

    /// Approves and replies to everything until no task runs any more.
    fn run_out(&mut self, mut ends: impl FnMut() -> PlanTaskStatus) {
        if self.tree.is_held() {
            self.act(&Act::MoveObjective(ObjectiveStatus::Working));
        }
        for place in 0..self.tree.plans().len() {
            self.act(&Act::MovePlan(place, PlanStatus::Working));
        }
        let open = |tree: &Tree| {
            let all = tree.plans().iter().flat_map(PlanNode::tasks);
            all.into_iter().position(|task| {
                task.status() != PlanTaskStatus::Pending && !task.status().is_terminal()
            })
        };
        while let Some(place) = open(&self.tree) {
            self.act(&Act::Report(place, ends()));
        }
    }
}

/// An ended status never changes.
fn check_ended(before: &Tree, after: &Tree) {
    if before.status().is_terminal() {
        assert_eq!(before, after);
    }
    for plan in before.plans() {
        let now = after.plan(plan.id()).unwrap();
        assert!(!plan.status().is_terminal() || plan == now, "{plan:?} became {now:?}");
        for (then, now) in plan.tasks().iter().zip(now.tasks()) {
            assert!(!then.status().is_terminal() || then == now, "{then:?} became {now:?}");
        }
    }
}

fn moves(plan: &PlanNode) -> bool {
    let moves = |status| matches!(status, PlanTaskStatus::Submitted | PlanTaskStatus::Working);
    plan.tasks().iter().any(|task| moves(task.status()))
}

/// No plan contradicts its tasks, or the plans it depends on.
fn check_plans(tree: &Tree) {
    for plan in tree.plans() {
        let all_over = plan.shown().all(|(_, status)| status.is_terminal());
        let asks = plan.tasks().iter().any(|task| task.status().is_interrupted());
        let waits =
            tree.dependencies(plan).any(|need| !tree.plan(need).unwrap().status().is_terminal());
        match plan.status() {
            PlanStatus::Completed | PlanStatus::Failed | PlanStatus::Skipped => {
                assert!(all_over, "{plan:?}")
            }
            PlanStatus::Working => {
                assert!(moves(plan) && !asks && !plan.is_held() && !waits, "{plan:?}")
            }
            PlanStatus::Blocked => assert!(asks || plan.is_held() || waits, "{plan:?}"),
            PlanStatus::Pending => {
                assert!(!plan.is_held() && !waits, "{plan:?}");
                assert!(tree.is_held() || !plan.has_begun(), "{plan:?}");
                let cannot = tree.is_held() || plan.tasks().is_empty();
                assert!(cannot, "nothing keeps {plan:?} from beginning");
            }
        }
        if !plan.status().is_terminal() {
            assert!(plan.tasks().is_empty() || !all_over, "{plan:?} should have ended");
            let failed = |need: &PlanId| tree.plan(need).unwrap().status() == PlanStatus::Failed;
            assert!(!tree.dependencies(plan).any(failed), "{plan:?} builds on what failed");
            // With `skip`, only those that can never begin are shown as cancelled.
            let undone =
                |task: &PlanTaskStatus| task.is_terminal() && *task != PlanTaskStatus::Completed;
            let fails = plan.shown().any(|(_, status)| undone(&status));
            assert!(!fails || skips(plan), "{plan:?}");
        }
        // Whatever can begin has begun.
        if !plan.status().is_terminal() && !plan.is_held() && !waits && !tree.is_held() {
            for task in plan.tasks() {
                let done = |need| {
                    let (plan, place) = tree.find(need).unwrap();
                    plan.tasks()[place].status() == PlanTaskStatus::Completed
                };
                let ready = plan.dependencies_of(task).all(done);
                assert!(!ready || task.status() != PlanTaskStatus::Pending, "{task:?}");
            }
        }
    }
}

fn skips(plan: &PlanNode) -> bool {
    plan.on_task_failure() == OnTaskFailure::Skip
}

/// The objective does not contradict its plans.
fn check_objective(tree: &Tree, was_set: bool) {
    let any = |status| tree.plans().iter().any(|plan| plan.status() == status);
    let over = tree.plans().iter().all(|plan| plan.status().is_terminal());
    let moves = tree.plans().iter().any(moves);
    let tasks = tree.plans().iter().any(|plan| !plan.tasks().is_empty());
    let asks = |plan: &PlanNode| plan.tasks().iter().any(|task| task.status().is_interrupted());
    let held = tree
        .plans()
        .iter()
        .any(|plan| plan.status() == PlanStatus::Blocked && (plan.is_held() || asks(plan)));
    if tree.is_held() {
        assert_eq!(tree.status(), ObjectiveStatus::Blocked);
    }
    match tree.status() {
        status if status.is_terminal() => assert!(over),
        _ if was_set => {}
        ObjectiveStatus::Submitted => assert!(tree.plans().is_empty()),
        ObjectiveStatus::Working => assert!(moves && !over),
        ObjectiveStatus::Blocked => assert!(held && !moves),
        _ => {
            assert!(!moves && (!held || !tasks));
            assert!(!over || !(any(PlanStatus::Failed) || any(PlanStatus::Completed)));
        }
    }
}

/// An objective without an explicit end ended as its plans did.
fn check_end_by_itself(tree: &Tree) {
    let any = |status| tree.plans().iter().any(|plan| plan.status() == status);
    match tree.status() {
        ObjectiveStatus::Failed => assert!(any(PlanStatus::Failed)),
        ObjectiveStatus::Completed => {
            assert!(any(PlanStatus::Completed) && !any(PlanStatus::Failed))
        }
        ObjectiveStatus::Canceled => panic!("nobody cancelled it"),
        _ => {}
    }
}

/// Nothing runs or waits for input, and all is approved: it is over, or waits for plans.
fn check_not_stuck(tree: &Tree, was_set: bool) {
    if tree.plans().is_empty() || tree.status().is_terminal() {
        return;
    }
    assert!(was_set || tree.status() == ObjectiveStatus::Planning);
    let skipped = tree.plans().iter().all(|plan| plan.status() == PlanStatus::Skipped);
    let open: Vec<_> = tree.plans().iter().filter(|plan| !plan.status().is_terminal()).collect();
    assert!(skipped || !open.is_empty());
    // Every waiting plan ultimately waits for one without tasks.
    for mut plan in open {
        for _ in tree.plans() {
            let mut needs = tree.dependencies(plan).map(|need| tree.plan(need).unwrap());
            plan = needs.find(|need| !need.status().is_terminal()).unwrap_or(plan);
        }
        assert!(plan.tasks().is_empty(), "{plan:?} is stuck");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn parents_agree_with_their_children_and_nothing_is_stuck(
        specs in prop::collection::vec(spec(), 0..5),
        acts in prop::collection::vec(act(), 0..60),
        ends in prop::collection::vec(prop::sample::select(&[
            PlanTaskStatus::Completed, PlanTaskStatus::Completed, PlanTaskStatus::Completed,
            PlanTaskStatus::Failed, PlanTaskStatus::Rejected, PlanTaskStatus::Canceled,
        ][..]), 1..8),
    ) {
        let mut world = ObjectiveWorld::new();
        specs.into_iter().map(Act::AddPlan).for_each(|act| world.act(&act));
        acts.iter().for_each(|act| world.act(act));
        let mut ends = ends.into_iter().cycle();
        world.run_out(|| ends.next().unwrap());
        check_not_stuck(&world.tree, world.was_set);
        // A plan without tasks ends only explicitly.
        for place in 0..world.tree.plans().len() {
            if !world.tree.plans()[place].status().is_terminal() {
                world.act(&Act::MovePlan(place, PlanStatus::Completed));
                world.run_out(|| ends.next().unwrap());
            }
        }
        let skipped = world.tree.plans().iter().all(|plan| plan.status() == PlanStatus::Skipped);
        prop_assert!(skipped || world.tree.status().is_terminal());
    }
}
