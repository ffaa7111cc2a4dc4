//! Objectives with their plans and tasks: writes, revisions, trees, histories, expiry.

use std::sync::Arc;

use a2a_protocol::opt::{ObjectiveStatus, PlanStatus, PlanTask, PlanTaskStatus};
use a2a_protocol::task::{Role, TaskState};
use a2a_taskdb::{
    InvalidWrite, ObjectiveQuery, ObjectiveTree, PlanTree, StoredObjective, StoredPlan, TaskReader,
    Write, WriteOutcome,
};
use serde_json::json;

use super::objective_pages::numbers;
use super::setup::*;

fn tree(stored: &StoredObjective, plans: &[(StoredPlan, &[PlanTask])]) -> ObjectiveTree {
    let plans = plans.iter().cloned();
    let plans = plans.map(|(stored, tasks)| PlanTree { stored, tasks: tasks.to_vec() });
    ObjectiveTree { stored: stored.clone(), plans: plans.collect() }
}

#[test]
fn empty_store_finds_no_objective() {
    on_each(|_, reader| {
        assert_eq!(reader.objective(&context("obj-1")).unwrap(), None);
        assert!(reader.open_objectives().unwrap().is_empty());
        let page = reader.objectives(&ObjectiveQuery::default()).unwrap();
        assert_eq!((page.objectives, page.next), (vec![], None));
        assert_eq!(reader.plan(&plan_id(1, 0)).unwrap(), None);
        assert_eq!(reader.plan_task_of(id(1)).unwrap(), None);
        assert!(reader.history_of_plan(&plan_id(1, 0), 9).unwrap().is_empty());
        assert!(reader.history_of_objective(&context("obj-1"), 9).unwrap().is_empty());
    });
}

#[test]
fn every_objective_field_round_trips_and_can_change() {
    on_each(|tasks, reader| {
        let bare = new_objective(1);
        done(tasks, vec![change(&bare, &[], &[])]);
        assert_eq!(reader.objective(&context("obj-1")).unwrap(), Some(tree(&bare, &[])));

        let metadata = json!({"k": [1, null, {"ü": "\u{1F600} ' \" \\ \0"}]}).as_object().cloned();
        let mut full = on(&bare, ObjectiveStatus::Blocked, 20);
        full.objective.name = "another \u{1F600} '".to_owned();
        full.objective.description = Some("in\nmore words".to_owned());
        full.objective.metadata = metadata.clone();
        let mut second = new_plan(1, 1);
        second.held = true;
        second.plan.status = PlanStatus::Blocked;
        second.plan.description = Some("longer".to_owned());
        second.plan.dependencies = vec![plan_id(1, 0)];
        second.plan.metadata = metadata.clone();
        let mut step = done_by(new_step(1, 1, 1), 7, PlanTaskStatus::InputRequired);
        step.description = Some("how".to_owned());
        step.dependencies = vec![step_id(1, 1, 0)];
        step.metadata = metadata;
        let steps = [new_step(1, 1, 0), step];
        // The order within the change does not matter.
        let (first, reversed) = (new_plan(1, 0), [steps[1].clone(), steps[0].clone()]);
        let plans = [second.clone(), first.clone()];
        done(tasks, vec![create(&task_in(1, 7)), change(&full, &plans, &reversed)]);
        let expected = tree(&full, &[(first.clone(), &[]), (second.clone(), &steps)]);
        assert_eq!(reader.objective(&context("obj-1")).unwrap(), Some(expected));
        assert_eq!(reader.plan(&plan_id(1, 1)).unwrap(), Some(context("obj-1")));
        let found = reader.plan_task_of(id(7)).unwrap();
        assert_eq!(found, Some((context("obj-1"), step_id(1, 1, 1))));

        // Optional fields can be cleared; plans that the change leaves out stay.
        let mut last = on(&full, ObjectiveStatus::Working, 30);
        last.objective.description = None;
        last.objective.metadata = None;
        let plain = StoredPlan { held: false, ..new_plan(1, 1) };
        let steps = [steps[0].clone(), new_step(1, 1, 1)];
        let writes = change(&last, std::slice::from_ref(&plain), &steps[1..]);
        done(tasks, vec![writes]);
        let expected = tree(&last, &[(first, &[]), (plain, &steps)]);
        assert_eq!(reader.objective(&context("obj-1")).unwrap(), Some(expected));
        assert_eq!(reader.plan_task_of(id(7)).unwrap(), None);
    });
}

#[test]
fn every_status_round_trips() {
    on_each(|tasks, reader| {
        let mut stored = new_objective(1);
        let (mut plan, mut step) = (new_plan(1, 0), new_step(1, 0, 0));
        let longest = PlanTaskStatus::ALL.len();
        for at in 0..longest {
            stored.objective.status = ObjectiveStatus::ALL[at % ObjectiveStatus::ALL.len()];
            plan.plan.status = PlanStatus::ALL[at % PlanStatus::ALL.len()];
            step.status = PlanTaskStatus::ALL[at];
            done(tasks, vec![change(&stored, &[plan.clone()], &[step.clone()])]);
            let expected = tree(&stored, &[(plan.clone(), &[step.clone()])]);
            assert_eq!(reader.objective(&context("obj-1")).unwrap(), Some(expected.clone()));
            let open = if stored.objective.status.is_terminal() { vec![] } else { vec![expected] };
            assert_eq!(reader.open_objectives().unwrap(), open);
            stored.revision += 1;
        }
    });
}

#[test]
fn nested_plans_and_tasks_are_not_stored_twice() {
    on_each(|tasks, reader| {
        let (mut stored, mut plan) = (new_objective(1), new_plan(1, 0));
        plan.plan.tasks = Some(vec![new_step(1, 0, 0)]);
        stored.objective.plans = Some(vec![plan.plan.clone()]);
        done(tasks, vec![change(&stored, &[plan], &[])]);
        let kept = reader.objective(&context("obj-1")).unwrap();
        assert_eq!(kept, Some(tree(&new_objective(1), &[(new_plan(1, 0), &[])])));
    });
}

#[test]
fn change_with_other_revision_conflicts() {
    on_each(|tasks, reader| {
        let first = new_objective(1);
        let second = on(&first, ObjectiveStatus::Working, 10);
        let none = WriteOutcome::Conflict { version: None };
        assert_eq!(one(tasks, change(&second, &[], &[])), none);
        done(tasks, vec![change(&first, &[], &[]), change(&second, &[], &[])]);
        let late = on(&first, ObjectiveStatus::Failed, 20);
        let conflict = WriteOutcome::Conflict { version: Some(2) };
        assert_eq!(one(tasks, change(&late, &[new_plan(1, 0)], &[])), conflict);
        assert_eq!(one(tasks, change(&first, &[], &[])), conflict);
        let kept = reader.objective(&context("obj-1")).unwrap();
        assert_eq!(kept, Some(tree(&second, &[])));
    });
}

#[test]
fn invalid_change_is_refused_and_changes_nothing() {
    on_each(|tasks, reader| {
        let (first, other) = (new_objective(1), new_objective(2));
        let step = done_by(new_step(1, 0, 0), 1, PlanTaskStatus::Working);
        let mut foreign = task_in(1, 2);
        foreign.owner = "client:other".into();
        done(tasks, vec![create(&task_in(1, 1)), create(&foreign), create(&new_task(3))]);
        done(tasks, vec![change(&first, &[new_plan(1, 0)], &[step]), change(&other, &[], &[])]);
        let before = reader.objective(&context("obj-1")).unwrap();
        let next = on(&first, ObjectiveStatus::Working, 10);
        let with = |edit: fn(&mut StoredObjective)| {
            let mut stored = next.clone();
            edit(&mut stored);
            let mut write = change(&stored, &[new_plan(1, 1)], &[]);
            let Write::Objective(change) = &mut write else { unreachable!() };
            change.expected = Some(1);
            write
        };
        let plan = |edit: fn(&mut StoredPlan)| {
            let mut plan = new_plan(1, 0);
            edit(&mut plan);
            change(&next, &[new_plan(1, 1), plan], &[])
        };
        let step = |index, edit: fn(&mut PlanTask)| {
            let mut step = new_step(1, 0, index);
            edit(&mut step);
            change(&next, &[new_plan(1, 1)], &[new_step(1, 1, 0), step])
        };
        let cases = [
            (with(|it| it.revision = 3), InvalidWrite::Revision),
            (with(|it| it.revision = 1), InvalidWrite::Revision),
            (with(|it| it.owner = "client:other".into()), InvalidWrite::ObjectiveIdentity),
            (with(|it| it.principal = agent("mallory")), InvalidWrite::ObjectiveIdentity),
            (with(|it| it.agent = agent("ann")), InvalidWrite::ObjectiveIdentity),
            (with(|it| it.objective.created_at = at(5)), InvalidWrite::ObjectiveIdentity),
            (plan(|it| it.plan.objective_id = context("obj-2")), InvalidWrite::WrongParent),
            (plan(|it| it.order = 5), InvalidWrite::ObjectiveIdentity),
            (plan(|it| it.plan.created_at = at(99)), InvalidWrite::ObjectiveIdentity),
            (plan(|it| it.plan.id = plan_id(9, 9)), InvalidWrite::PositionTaken),
            (step(1, |it| it.objective_id = context("obj-2")), InvalidWrite::WrongParent),
            (step(1, |it| it.plan_id = plan_id(1, 7)), InvalidWrite::WrongParent),
            (step(0, |it| it.plan_id = plan_id(1, 1)), InvalidWrite::ObjectiveIdentity),
            (step(0, |it| it.task_index = 3), InvalidWrite::ObjectiveIdentity),
            (step(0, |it| it.id = step_id(9, 9, 9)), InvalidWrite::PositionTaken),
            // A2A tasks that do not exist, of another owner, in another context, and already
            // linked.
            (step(1, |it| it.a2a_task_id = Some(id(9))), InvalidWrite::TaskLink),
            (step(1, |it| it.a2a_task_id = Some(id(2))), InvalidWrite::TaskLink),
            (step(1, |it| it.a2a_task_id = Some(id(3))), InvalidWrite::TaskLink),
            (step(1, |it| it.a2a_task_id = Some(id(1))), InvalidWrite::TaskLink),
        ];
        for (write, misfit) in cases {
            let refused = WriteOutcome::Refused(misfit);
            assert_eq!(one(tasks, write.clone()), refused, "{write:?}");
            assert_eq!(reader.objective(&context("obj-1")).unwrap(), before, "{write:?}");
        }
        let new = StoredObjective { revision: 2, ..new_objective(3) };
        let mut write = change(&new, &[], &[]);
        let Write::Objective(change) = &mut write else { unreachable!() };
        change.expected = None;
        assert_eq!(one(tasks, write), WriteOutcome::Refused(InvalidWrite::Revision));
        assert_eq!(reader.objective(&context("obj-3")).unwrap(), None);
    });
}

#[test]
fn plans_and_tasks_belong_to_one_objective() {
    on_each(|tasks, reader| {
        done(tasks, vec![change(&new_objective(1), &[new_plan(1, 0)], &[new_step(1, 0, 0)])]);
        let other = new_objective(2);
        let stolen = StoredPlan { plan: new_plan(1, 0).plan, ..new_plan(2, 0) };
        let mut renamed = stolen.clone();
        renamed.plan.objective_id = context("obj-2");
        let step = PlanTask { id: step_id(1, 0, 0), ..new_step(2, 0, 0) };
        let beyond = PlanTask { plan_id: plan_id(1, 0), ..new_step(2, 0, 1) };
        for (plan, step, misfit) in [
            (Some(stolen), None, InvalidWrite::WrongParent),
            (Some(renamed), None, InvalidWrite::ObjectiveIdentity),
            (Some(new_plan(2, 0)), Some(step), InvalidWrite::ObjectiveIdentity),
            (None, Some(beyond), InvalidWrite::WrongParent),
        ] {
            let (plans, steps): (Vec<_>, Vec<_>) =
                (plan.into_iter().collect(), step.into_iter().collect());
            let written = one(tasks, change(&other, &plans, &steps));
            assert_eq!(written, WriteOutcome::Refused(misfit), "{plans:?} {steps:?}");
            assert_eq!(reader.objective(&context("obj-2")).unwrap(), None);
        }
    });
}

#[test]
fn plan_task_outlives_its_a2a_task() {
    on_each(|tasks, reader| {
        let first = new_objective(1);
        let ended = done_by(new_step(1, 0, 0), 1, PlanTaskStatus::Failed);
        let open = done_by(new_step(1, 0, 1), 2, PlanTaskStatus::Working);
        let steps = [ended.clone(), open.clone()];
        done(tasks, vec![create(&task_in(1, 1)), create(&task_in(1, 2))]);
        done(tasks, vec![change(&first, &[new_plan(1, 0)], &steps)]);
        let failed = then(&task_in(1, 1), TaskState::Failed, 5);
        done(tasks, vec![update(&failed)]);
        assert_eq!(
            one(tasks, Write::Expire { older_than: at(9), limit: 9 }),
            WriteOutcome::Expired(1)
        );
        let alone = PlanTask { a2a_task_id: None, ..ended.clone() };
        let expected = tree(&first, &[(new_plan(1, 0), &[alone.clone(), open.clone()])]);
        assert_eq!(reader.objective(&context("obj-1")).unwrap(), Some(expected));
        assert_eq!(reader.plan_task_of(id(1)).unwrap(), None);
        // A change that still references the deleted A2A task.
        let next = on(&first, ObjectiveStatus::Working, 20);
        done(tasks, vec![change(&next, &[], &[ended, open.clone()])]);
        let expected = tree(&next, &[(new_plan(1, 0), &[alone, open])]);
        assert_eq!(reader.objective(&context("obj-1")).unwrap(), Some(expected));
        done(tasks, vec![Write::Delete(id(2))]);
        assert_eq!(reader.plan_task_of(id(2)).unwrap(), None);
    });
}

#[test]
fn histories_cover_a_plan_or_the_owners_whole_objective() {
    on_each(|tasks, reader| {
        let mut sent_more = task_in(1, 1);
        Arc::make_mut(&mut sent_more.task).history.push(text_message(Role::Agent, "did 1").into());
        let mut foreign = task_in(1, 2);
        foreign.owner = "client:other".into();
        let mut of_ann = task_in(1, 3);
        of_ann.agent = agent("ann");
        let mut silent = task_in(1, 4);
        Arc::make_mut(&mut silent.task).history.clear();
        // Task 5 belongs to no plan, task 7 to no objective.
        let all = [sent_more, foreign, of_ann, silent, task_in(1, 5), task_in(1, 6), new_task(7)];
        done(tasks, all.iter().map(create).collect());
        let steps: Vec<_> = [(0, 0, 3), (0, 1, 4), (0, 2, 1), (1, 0, 6)]
            .map(|(plan, at, n)| done_by(new_step(1, plan, at), n, PlanTaskStatus::Working))
            .into();
        let plans = [new_plan(1, 0), new_plan(1, 1)];
        done(tasks, vec![change(&new_objective(1), &plans, &steps)]);
        let texts = |messages: Vec<a2a_protocol::task::Message>| -> Vec<String> {
            messages.iter().map(|message| message.text()).collect()
        };
        let plan = |order, limit| texts(reader.history_of_plan(&plan_id(1, order), limit).unwrap());
        assert_eq!(plan(0, 9), ["do 1", "did 1", "do 3"], "in the order of creation");
        assert_eq!(plan(0, 2), ["did 1", "do 3"]);
        assert_eq!(plan(1, 9), ["do 6"]);
        assert!(plan(0, 0).is_empty());
        let whole = |limit| texts(reader.history_of_objective(&context("obj-1"), limit).unwrap());
        assert_eq!(whole(9), ["do 1", "did 1", "do 3", "do 5", "do 6"]);
        assert_eq!(whole(2), ["do 5", "do 6"]);
        assert!(reader.history_of_objective(&context("ctx"), 9).unwrap().is_empty());
    });
}

#[test]
fn ended_objective_expires_after_its_last_task() {
    on_each(|tasks, reader| {
        let ends = [ObjectiveStatus::Completed, ObjectiveStatus::Failed, ObjectiveStatus::Canceled];
        for (status, n) in ends.into_iter().zip(1..) {
            let mut stored = new_objective(n);
            stored.objective.status = status;
            done(tasks, vec![change(&stored, &[new_plan(n, 0)], &[new_step(n, 0, 0)])]);
        }
        // One is open, one has an open task, and one shares its context with another owner's task.
        done(tasks, vec![change(&new_objective(4), &[], &[])]);
        let mut busy = new_objective(5);
        busy.objective.status = ObjectiveStatus::Completed;
        let mut foreign = task_in(1, 21);
        foreign.owner = "client:other".into();
        done(tasks, vec![create(&task_in(5, 20)), create(&foreign), change(&busy, &[], &[])]);
        let expire = |ms, limit| Write::Expire { older_than: at(ms), limit };
        assert_eq!(
            one(tasks, expire(1, 9)),
            WriteOutcome::Expired(0),
            "its own moment is not older"
        );
        assert_eq!(one(tasks, expire(99, 0)), WriteOutcome::Expired(0));
        assert_eq!(one(tasks, expire(99, 2)), WriteOutcome::Expired(2));
        let left = |reader: &dyn TaskReader| {
            let page = reader.objectives(&ObjectiveQuery { limit: 9, ..ObjectiveQuery::default() });
            numbers(&page.unwrap().objectives)
        };
        assert_eq!(left(&*reader), [5, 4, 3], "the oldest first");
        assert_eq!(reader.plan(&plan_id(1, 0)).unwrap(), None);
        assert_eq!(reader.plan(&plan_id(3, 0)).unwrap(), Some(context("obj-3")));
        assert_eq!(one(tasks, expire(99, 9)), WriteOutcome::Expired(1));
        assert_eq!(left(&*reader), [5, 4]);
        // Its ids can be used again.
        done(tasks, vec![change(&new_objective(1), &[new_plan(1, 0)], &[new_step(1, 0, 0)])]);
        // One write deletes the task and then the objective.
        done(tasks, vec![update(&then(&task_in(5, 20), TaskState::Completed, 50))]);
        assert_eq!(one(tasks, expire(50, 9)), WriteOutcome::Expired(0));
        assert_eq!(one(tasks, expire(51, 9)), WriteOutcome::Expired(2));
        assert_eq!(left(&*reader), [4, 1]);
    });
}
