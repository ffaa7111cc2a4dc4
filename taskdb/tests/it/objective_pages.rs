//! Pages of objectives: order, filters, tokens, with and without plans.

use a2a_protocol::opt::ObjectiveStatus;
use a2a_taskdb::{
    MAX_PAGE, ObjectiveQuery, ObjectiveTree, PlanTree, TaskReader, Write, WriteOutcome,
};

use super::setup::*;

pub fn numbers(trees: &[ObjectiveTree]) -> Vec<u64> {
    let id = |tree: &ObjectiveTree| tree.stored.objective.id.to_string();
    trees.iter().map(|tree| id(tree).strip_prefix("obj-").unwrap().parse().unwrap()).collect()
}

fn of_acme(limit: usize) -> ObjectiveQuery {
    ObjectiveQuery { owner: Some("client:acme".into()), limit, ..ObjectiveQuery::default() }
}

fn found(reader: &dyn TaskReader, query: &ObjectiveQuery) -> Vec<u64> {
    let page = reader.objectives(query).unwrap();
    assert_eq!(page.next, None, "all on one page");
    numbers(&page.objectives)
}

#[test]
fn objectives_are_sorted_newest_first_and_filtered() {
    on_each(|tasks, reader| {
        let mut all: Vec<_> = (1..=5).map(new_objective).collect();
        all[0].owner = "client:other".into();
        all[1].objective.status = ObjectiveStatus::Working;
        all[3].objective.created_at = at(3);
        all[4].objective.status = ObjectiveStatus::Completed;
        done(tasks, all.iter().map(|stored| change(stored, &[], &[])).collect());
        let all_owners = ObjectiveQuery { limit: 9, ..ObjectiveQuery::default() };
        assert_eq!(found(&*reader, &all_owners), [5, 4, 3, 2, 1]);
        assert_eq!(found(&*reader, &of_acme(9)), [5, 4, 3, 2]);
        let working = Some(ObjectiveStatus::Working);
        assert_eq!(found(&*reader, &ObjectiveQuery { status: working, ..of_acme(9) }), [2]);
        assert_eq!(found(&*reader, &ObjectiveQuery { status: working, ..all_owners }), [2]);
        let no_owner = ObjectiveQuery { owner: Some("client:none".into()), ..of_acme(9) };
        assert!(found(&*reader, &no_owner).is_empty());
        assert_eq!(numbers(&reader.open_objectives().unwrap()), [1, 2, 3, 4]);
        // An update does not change the order.
        done(tasks, vec![change(&on(&all[2], ObjectiveStatus::Planning, 99), &[], &[])]);
        assert_eq!(found(&*reader, &of_acme(9)), [5, 4, 3, 2]);
    });
}

/// Every page from the first to the last.
fn pages(
    reader: &dyn TaskReader,
    mut query: ObjectiveQuery,
    mut between: impl FnMut(),
) -> Vec<Vec<u64>> {
    let mut pages = Vec::new();
    loop {
        let page = reader.objectives(&query).unwrap();
        pages.push(numbers(&page.objectives));
        assert!(pages.len() < 100, "it never ends: {pages:?}");
        let Some(token) = page.next else { return pages };
        // As a client sends it back.
        query.after = Some(token.to_string().parse().unwrap());
        between();
    }
}

#[test]
fn pages_are_stable_while_objectives_are_inserted_and_deleted() {
    on_each(|tasks, reader| {
        // Several share a timestamp; ids of two digits sort as text.
        for n in 10..35 {
            let mut stored = new_objective(n);
            stored.objective.created_at = at((n / 10) as i64);
            done(tasks, vec![change(&stored, &[], &[])]);
        }
        for size in [1, 4, 5, 25, 26] {
            let listed = pages(&*reader, of_acme(size), || ());
            assert_eq!(listed.len(), 25_usize.div_ceil(size), "no empty page at the end");
            assert!(listed.concat().into_iter().eq((10..35).rev()), "{listed:?}");
        }
        let mut newcomer = 50;
        let listed = pages(&*reader, of_acme(4), || {
            newcomer += 1;
            let mut gone = new_objective(newcomer);
            gone.objective.status = ObjectiveStatus::Canceled;
            done(tasks, vec![change(&gone, &[], &[])]);
        });
        assert!(listed.concat().into_iter().eq((10..35).rev()), "{listed:?}");
        // A token stays valid when the objective it names is deleted.
        let page = reader.objectives(&of_acme(1)).unwrap();
        assert_eq!(numbers(&page.objectives), [newcomer]);
        let expire = Write::Expire { older_than: at(100), limit: 99 };
        assert_eq!(one(tasks, expire), WriteOutcome::Expired(6));
        let rest = ObjectiveQuery { after: page.next, ..of_acme(2) };
        assert_eq!(numbers(&reader.objectives(&rest).unwrap().objectives), [34, 33]);
    });
}

#[test]
fn page_size_is_clamped_and_plans_follow_query() {
    on_each(|tasks, reader| {
        let all = (1..=110).map(|n| change(&new_objective(n), &[new_plan(n, 0)], &[]));
        done(tasks, all.collect());
        let size = |limit| reader.objectives(&of_acme(limit)).unwrap().objectives.len();
        assert_eq!([size(0), size(MAX_PAGE), size(usize::MAX)], [1, MAX_PAGE, MAX_PAGE]);
        let plans = |with_plans| {
            let page = reader.objectives(&ObjectiveQuery { with_plans, ..of_acme(2) }).unwrap();
            page.objectives.into_iter().map(|tree| tree.plans).collect::<Vec<_>>()
        };
        assert_eq!(plans(false), [vec![], vec![]]);
        let with = |n| vec![PlanTree { stored: new_plan(n, 0), tasks: vec![] }];
        assert_eq!(plans(true), [with(110), with(109)]);
    });
}

/// Objectives of a megabyte and a half each, large in themselves or in their plans, and one that is
/// larger than a page.
#[test]
fn page_is_bounded_in_bytes() {
    on_each(|tasks, reader| {
        let large = |megabytes: f64| Some("x".repeat((megabytes * 1048576.0) as usize));
        let mut all: Vec<_> = (1..=6).map(new_objective).collect();
        all[0].objective.description = large(9.0);
        for stored in &mut all[1..4] {
            stored.objective.description = large(1.5);
        }
        let mut plan = new_plan(5, 0);
        plan.plan.description = large(3.0);
        done(
            tasks,
            all.iter()
                .map(|stored| match stored.objective.id.as_str() {
                    "obj-5" => change(stored, std::slice::from_ref(&plan), &[]),
                    _ => change(stored, &[], &[]),
                })
                .collect(),
        );
        assert_eq!(pages(&*reader, of_acme(100), || {}), [vec![6, 5, 4, 3], vec![2], vec![1]]);
        let with_plans = ObjectiveQuery { with_plans: true, ..of_acme(100) };
        assert_eq!(pages(&*reader, with_plans, || {}), [vec![6, 5], vec![4, 3], vec![2], vec![1]]);
    });
}
