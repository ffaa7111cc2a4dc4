//! Validation of dependencies: they must exist and be acyclic.

use std::fmt;

use a2a_protocol::operation::{CreatePlan, NewPlanTask, TaskReference};
use a2a_protocol::task::{PlanId, PlanTaskId};
use a2a_protocol::{Code, Violation};

use super::tree::Tree;

/// An invalid dependency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadDependency {
    /// JSON Pointer to it in the parameters of the call.
    pub pointer: String,
    /// The reason.
    pub problem: Problem,
}

/// Why a dependency is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The objective has no such plan.
    #[error("the objective has no plan {0}; name plans of the same objective by their ids")]
    UnknownPlan(PlanId),
    /// The plan has no such task.
    #[error(
        "the plan has no task {0}; name a task of the same call `task-N`, counted from 0, \
         or one that the plan has by its id"
    )]
    UnknownTask(PlanTaskId),
    /// The task belongs to another plan.
    #[error("the task {task} belongs to {plan}; let the plan depend on that plan instead")]
    OtherPlan {
        /// The task.
        task: PlanTaskId,
        /// Its plan.
        plan: PlanId,
    },
    /// `task-N` beyond the last.
    #[error("there is no task-{n}; the tasks of this call are task-0 to task-{}", count.saturating_sub(1))]
    OutOfRange {
        /// The number in the reference.
        n: usize,
        /// The number of tasks.
        count: usize,
    },
    /// It depends on itself.
    #[error("{0} depends on itself")]
    Itself(String),
    /// It is part of a cycle.
    #[error("nothing of this could ever begin: {}", .0.join(" → "))]
    Cycle(
        /// The names in order, the first repeated at the end; each depends on the next.
        Vec<String>,
    ),
}

impl fmt::Display for BadDependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.pointer, self.problem)
    }
}

impl From<&BadDependency> for Violation {
    fn from(bad: &BadDependency) -> Self {
        let code = match bad.problem {
            Problem::Itself(_) | Problem::Cycle(_) => Code::Mismatch,
            _ => Code::NotAllowed,
        };
        Self::new(bad.pointer.clone(), code, bad.problem.to_string())
    }
}

/// Checks the dependencies of a new plan and of its tasks.
///
/// # Errors
///
/// All invalid dependencies; of cycles the first.
pub fn check_plan(tree: &Tree, create: &CreatePlan) -> Result<(), Vec<BadDependency>> {
    // Nothing can depend on a new plan yet, so no cycle contains it.
    let mut found = unknown_plans(tree, &create.dependencies);
    found.extend(bad_tasks(tree, None, &create.tasks));
    if found.is_empty() { Ok(()) } else { Err(found) }
}

/// Checks the dependencies of tasks to be added to a plan.
///
/// # Errors
///
/// All invalid dependencies; of cycles the first.
pub fn check_tasks(
    tree: &Tree,
    plan: &PlanId,
    tasks: &[NewPlanTask],
) -> Result<(), Vec<BadDependency>> {
    let found = bad_tasks(tree, Some(plan), tasks);
    if found.is_empty() { Ok(()) } else { Err(found) }
}

/// Checks new dependencies of an existing plan.
///
/// # Errors
///
/// All invalid dependencies; of cycles the first.
pub fn check_dependencies(
    tree: &Tree,
    plan: &PlanId,
    dependencies: &[PlanId],
) -> Result<(), Vec<BadDependency>> {
    let mut found = unknown_plans(tree, dependencies);
    let at = |i: usize| format!("/dependencies/{i}");
    let own = dependencies.iter().enumerate().filter(|(_, dependency)| *dependency == plan);
    found.extend(own.map(|(i, _)| bad(at(i), Problem::Itself(plan.to_string()))));
    if !found.is_empty() {
        return Err(found);
    }
    let Some(index) = tree.index(plan) else { return Ok(()) };
    let mut edges: Vec<Vec<usize>> =
        tree.plans.iter().map(|node| node.waits_for().collect()).collect();
    edges[index] = tree.indices(dependencies);
    edges[index].extend(&tree.plans[index].after);
    // The existing dependencies are acyclic, so any cycle contains this plan.
    let Some(cycle) = cycle(&edges, [index]) else { return Ok(()) };
    let next = cycle.get(1).map(|index| &tree.plans[*index].id);
    let i = dependencies.iter().position(|dependency| Some(dependency) == next).unwrap_or(0);
    let names = cycle.iter().map(|index| tree.plans[*index].id.to_string()).collect();
    Err(vec![bad(at(i), Problem::Cycle(names))])
}

/// The dependencies of new tasks as ids: `ids[n]` is the id of `task-n`.
#[must_use]
pub fn resolve(tasks: &[NewPlanTask], ids: &[PlanTaskId]) -> Vec<Vec<PlanTaskId>> {
    let id = |reference: &TaskReference| match reference {
        TaskReference::Nth(n) => ids.get(*n).cloned(),
        TaskReference::Known(id) => Some(id.clone()),
    };
    let resolved = |task: &NewPlanTask| {
        let mut seen = std::collections::HashSet::new();
        task.dependencies.iter().filter_map(id).filter(|id| seen.insert(id.clone())).collect()
    };
    tasks.iter().map(resolved).collect()
}

const fn bad(pointer: String, problem: Problem) -> BadDependency {
    BadDependency { pointer, problem }
}

fn unknown_plans(tree: &Tree, dependencies: &[PlanId]) -> Vec<BadDependency> {
    let unknown = dependencies.iter().enumerate().filter(|(_, id)| tree.index(id).is_none());
    unknown
        .map(|(i, id)| bad(format!("/dependencies/{i}"), Problem::UnknownPlan(id.clone())))
        .collect()
}

fn bad_tasks(tree: &Tree, plan: Option<&PlanId>, tasks: &[NewPlanTask]) -> Vec<BadDependency> {
    let mut found = Vec::new();
    let mut edges = vec![Vec::new(); tasks.len()];
    for (i, task) in tasks.iter().enumerate() {
        for (j, dependency) in task.dependencies.iter().enumerate() {
            let problem = match dependency {
                TaskReference::Nth(n) if *n >= tasks.len() => {
                    Problem::OutOfRange { n: *n, count: tasks.len() }
                }
                TaskReference::Nth(n) if *n == i => Problem::Itself(format!("task-{n}")),
                TaskReference::Nth(n) => {
                    edges[i].push(*n);
                    continue;
                }
                TaskReference::Known(id) => match tree.find(id) {
                    Some((there, _)) if plan == Some(there.id()) => continue,
                    Some((there, _)) => {
                        Problem::OtherPlan { task: id.clone(), plan: there.id().clone() }
                    }
                    None => Problem::UnknownTask(id.clone()),
                },
            };
            found.push(bad(format!("/tasks/{i}/dependencies/{j}"), problem));
        }
    }
    found.extend(task_cycle(tasks, &edges));
    found
}

/// The first cycle among new tasks; existing ones cannot depend on them.
fn task_cycle(tasks: &[NewPlanTask], edges: &[Vec<usize>]) -> Option<BadDependency> {
    let cycle = cycle(edges, 0..edges.len())?;
    let (first, second) = (*cycle.first()?, *cycle.get(1)?);
    let closes = |reference: &TaskReference| *reference == TaskReference::Nth(second);
    let j = tasks[first].dependencies.iter().position(closes)?;
    let names = cycle.iter().map(|n| format!("task-{n}")).collect();
    Some(bad(format!("/tasks/{first}/dependencies/{j}"), Problem::Cycle(names)))
}

/// The first cycle reachable from `starts`, with its first node repeated at the end.
fn cycle(edges: &[Vec<usize>], starts: impl IntoIterator<Item = usize>) -> Option<Vec<usize>> {
    let mut seen = vec![false; edges.len()];
    let mut on_way = vec![false; edges.len()];
    for start in starts {
        // The current path, each node with the index of its next dependency.
        let mut path = Vec::new();
        let mut arrived = Some(start);
        loop {
            if let Some(at) = arrived.take().filter(|at| !std::mem::replace(&mut seen[*at], true)) {
                on_way[at] = true;
                path.push((at, 0));
            }
            let Some((at, next)) = path.last_mut() else { break };
            let Some(to) = edges[*at].get(*next).copied() else {
                on_way[*at] = false;
                path.pop();
                continue;
            };
            *next += 1;
            if on_way[to] {
                let cycle_nodes =
                    path.iter().map(|(index, _)| *index).skip_while(|index| *index != to);
                return Some(cycle_nodes.chain([to]).collect());
            }
            arrived = Some(to);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objectives::tests::tree;

    fn id(text: &str) -> PlanId {
        PlanId::try_from(text).unwrap()
    }

    /// Each task's dependencies, separated by spaces.
    fn new_tasks(tasks: &[&str]) -> Vec<NewPlanTask> {
        let reference = |word: &str| match word.strip_prefix("task-").map(str::parse) {
            Some(Ok(n)) => TaskReference::Nth(n),
            _ => TaskReference::Known(PlanTaskId::try_from(word).unwrap()),
        };
        let task = |dependencies: &&str| NewPlanTask {
            name: "t".into(),
            description: None,
            dependencies: dependencies.split_whitespace().map(reference).collect(),
            metadata: None,
        };
        tasks.iter().map(task).collect()
    }

    fn create(dependencies: &[&str], tasks: &[&str]) -> CreatePlan {
        CreatePlan {
            objective_id: a2a_protocol::opt::ObjectiveId::try_from("obj").unwrap(),
            name: "p".into(),
            description: None,
            status: None,
            tasks: new_tasks(tasks),
            dependencies: dependencies.iter().map(|text| id(text)).collect(),
            metadata: None,
        }
    }

    fn messages(result: Result<(), Vec<BadDependency>>) -> Vec<String> {
        let found = result.err().unwrap_or_default();
        found.iter().map(|bad| Violation::from(bad).to_string()).collect()
    }

    #[test]
    fn new_plan_with_bad_dependencies_lists_them_with_pointers() {
        let tree = tree("A: a b<a | B<A: c");
        let table: &[(&[&str], &[&str], &[&str])] = &[
            (&[], &[], &[]),
            (&["A", "B", "A"], &["", "task-0", "task-0 task-1 task-0"], &[]),
            (&[], &["task-2", "", ""], &[]),
            (&["A", "Z"], &[], &["/dependencies/1: not_allowed: the objective has no plan Z"]),
            (
                &[],
                &["", "task-0 task-2"],
                &[
                    "/tasks/1/dependencies/1: not_allowed: there is no task-2; the tasks of this call are task-0 to task-1",
                ],
            ),
            (
                &[],
                &["task-18446744073709551615"],
                &["/tasks/0/dependencies/0: not_allowed: there is no"],
            ),
            (
                &[],
                &["", "task-1"],
                &["/tasks/1/dependencies/0: mismatch: task-1 depends on itself"],
            ),
            (&[], &["x"], &["/tasks/0/dependencies/0: not_allowed: the plan has no task x"]),
            (
                &[],
                &["", "task-0 b"],
                &["/tasks/1/dependencies/1: not_allowed: the task b belongs to A"],
            ),
            (
                &[],
                &["task-1", "task-0"],
                &[
                    "/tasks/0/dependencies/0: mismatch: nothing of this could ever begin: task-0 → task-1 → task-0",
                ],
            ),
            (
                &[],
                &["task-1", "task-3 task-2", "task-3", "task-1"],
                &[
                    "/tasks/1/dependencies/0: mismatch: nothing of this could ever begin: task-1 → task-3 → task-1",
                ],
            ),
            (
                &["Z"],
                &["task-9", "task-1", "task-3", "task-2"],
                &[
                    "/dependencies/0: not_allowed",
                    "/tasks/0/dependencies/0: not_allowed",
                    "/tasks/1/dependencies/0: mismatch: task-1 depends on itself",
                    "/tasks/2/dependencies/0: mismatch: nothing of this could ever begin: task-2 → task-3 → task-2",
                ],
            ),
        ];
        for (plans, tasks, expected) in table {
            let found = messages(check_plan(&tree, &create(plans, tasks)));
            assert_eq!(found.len(), expected.len(), "{plans:?} {tasks:?}: {found:?}");
            for (found, expected) in found.iter().zip(*expected) {
                assert!(found.starts_with(expected), "{found}\nis not\n{expected}");
            }
        }
    }

    #[test]
    fn added_tasks_depend_only_on_tasks_of_their_plan() {
        let tree = tree("A: a b<a | B<A: c");
        assert_eq!(
            messages(check_tasks(&tree, &id("A"), &new_tasks(&["a b", "task-0 b"]))),
            [""; 0]
        );
        let found = messages(check_tasks(&tree, &id("B"), &new_tasks(&["c a"])));
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("belongs to A; let the plan depend on that plan"), "{found:?}");
    }

    #[test]
    fn cycle_of_plans_is_listed_in_order() {
        let tree = tree("A: a | B<A: b | C<B: c | D: d");
        let table: &[(&str, &[&str], &str)] = &[
            ("A", &["D"], ""),
            ("C", &["A", "D"], ""),
            ("B", &[], ""),
            (
                "A",
                &["D", "C"],
                "/dependencies/1: mismatch: nothing of this could ever begin: A → C → B → A",
            ),
            ("B", &["C"], "/dependencies/0: mismatch: nothing of this could ever begin: B → C → B"),
            ("B", &["A", "B"], "/dependencies/1: mismatch: B depends on itself"),
            ("D", &["A", "Y"], "/dependencies/1: not_allowed: the objective has no plan Y"),
        ];
        for (plan, dependencies, expected) in table {
            let dependencies: Vec<_> = dependencies.iter().map(|text| id(text)).collect();
            let found = messages(check_dependencies(&tree, &id(plan), &dependencies)).concat();
            assert_eq!(found.is_empty(), expected.is_empty(), "{plan}: {found}");
            assert!(found.starts_with(expected), "{plan}: {found}");
        }
    }

    #[test]
    fn references_become_ids() {
        let ids = ["s0", "s1"].map(|text| PlanTaskId::try_from(text).unwrap());
        let resolved = resolve(&new_tasks(&["task-1 k", "task-0 task-0 task-7"]), &ids);
        let words: Vec<Vec<&str>> =
            resolved.iter().map(|ids| ids.iter().map(PlanTaskId::as_str).collect()).collect();
        assert_eq!(words, [vec!["s1", "k"], vec!["s0"]]);
    }
}
