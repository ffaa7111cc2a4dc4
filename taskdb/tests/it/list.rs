//! Pages of tasks: order, filters, tokens, omitted fields.

use std::sync::Arc;

use a2a_protocol::task::{Role, TaskState};
use a2a_taskdb::{ListQuery, MAX_PAGE, Page, StoredTask, TaskReader};
use serde_json::json;

use super::setup::*;

fn of_acme() -> ListQuery {
    ListQuery { owner: Some("client:acme".into()), page_size: 50, ..ListQuery::default() }
}

fn found(reader: &dyn TaskReader, query: &ListQuery) -> Vec<u64> {
    let page = reader.list(query).unwrap();
    let numbers: Vec<u64> = page.tasks.iter().map(number).collect();
    assert_eq!(page.total_size, numbers.len() as u64, "all on one page");
    assert_eq!(page.next_page_token, None);
    numbers
}

fn number(stored: &StoredTask) -> u64 {
    (stored.task.id.as_uuid().as_u128() & 0xffff) as u64
}

#[test]
fn tasks_are_sorted_by_status_timestamp_and_id() {
    on_each(|tasks, reader| {
        let all: Vec<_> = (1..=4).map(new_task).collect();
        done(tasks, all.iter().map(create).collect());
        assert_eq!(found(&*reader, &of_acme()), [4, 3, 2, 1]);
        done(tasks, vec![update(&then(&all[1], TaskState::Working, 50))]);
        done(tasks, vec![update(&then(&all[0], TaskState::Working, 50))]);
        assert_eq!(found(&*reader, &of_acme()), [2, 1, 4, 3]);
    });
}

#[test]
fn filters_combine() {
    on_each(|tasks, reader| {
        let mut foreign = new_task(1);
        foreign.owner = "client:other".into();
        let mut of_ann = new_task(2);
        of_ann.agent = agent("ann");
        let mut elsewhere = new_task(3);
        Arc::make_mut(&mut elsewhere.task).context_id = context("other");
        let mut working = new_task(4);
        Arc::make_mut(&mut working.task).status.state = TaskState::Working;
        done(
            tasks,
            [foreign, of_ann, elsewhere, working, new_task(5)].iter().map(create).collect(),
        );
        let with = |change: fn(&mut ListQuery)| {
            let mut query = of_acme();
            change(&mut query);
            found(&*reader, &query)
        };
        assert_eq!(with(|_| ()), [5, 4, 3, 2]);
        assert_eq!(with(|query| query.owner = None), [5, 4, 3, 2, 1]);
        assert_eq!(with(|query| query.owner = Some("client:none".into())), [] as [u64; 0]);
        assert_eq!(with(|query| query.agent = Some(agent("ann"))), [2]);
        assert_eq!(with(|query| query.context = Some(context("other"))), [3]);
        assert_eq!(with(|query| query.status = Some(TaskState::Working)), [4]);
        assert_eq!(with(|query| query.after = Some(at(4))), [5, 4], "its own moment is not older");
        assert_eq!(
            with(|query| query.after = "9999-12-31T23:59:59-14:00".parse().ok()),
            [] as [u64; 0]
        );
        let all = |query: &mut ListQuery| {
            query.agent = Some(agent("tim"));
            query.context = Some(context("ctx"));
            query.status = Some(TaskState::Submitted);
            query.after = Some(at(1));
        };
        assert_eq!(with(all), [5]);
    });
}

/// Every page from the first to the last.
fn pages(reader: &dyn TaskReader, mut query: ListQuery, mut between: impl FnMut()) -> Vec<Page> {
    let mut pages = Vec::new();
    loop {
        let page = reader.list(&query).unwrap();
        let next = page.next_page_token;
        pages.push(page);
        let Some(token) = next else { return pages };
        // As a client sends it back.
        query.page_token = Some(token.to_string().parse().unwrap());
        between();
    }
}

#[test]
fn pages_are_stable_while_tasks_are_inserted() {
    on_each(|tasks, reader| {
        // Several tasks share a timestamp.
        let all: Vec<_> = (1..=25)
            .map(|n| {
                let mut stored = new_task(n);
                Arc::make_mut(&mut stored.task).status.timestamp = at((n / 10) as i64);
                stored
            })
            .collect();
        done(tasks, all.iter().map(create).collect());
        for size in [1, 4, 5, 25, 26] {
            let listed = pages(&*reader, ListQuery { page_size: size, ..of_acme() }, || ());
            assert_eq!(listed.len(), 25_usize.div_ceil(size), "no empty page at the end");
            assert!(listed.iter().all(|page| page.total_size == 25));
            let numbers: Vec<_> =
                listed.iter().flat_map(|page| page.tasks.iter().map(number)).collect();
            assert!(numbers.iter().copied().eq((1..=25).rev()), "{numbers:?}");
        }
        let mut newcomer = 100;
        let listed = pages(&*reader, ListQuery { page_size: 4, ..of_acme() }, || {
            newcomer += 1;
            done(tasks, vec![create(&new_task(newcomer))]);
        });
        let numbers: Vec<_> =
            listed.iter().flat_map(|page| page.tasks.iter().map(number)).collect();
        assert!(numbers.iter().copied().eq((1..=25).rev()), "{numbers:?}");
        assert_eq!(listed.last().unwrap().total_size, 31);
    });
}

#[test]
fn page_size_is_clamped() {
    on_each(|tasks, reader| {
        done(tasks, (1..=110).map(|n| create(&new_task(n))).collect());
        let size =
            |page_size| reader.list(&ListQuery { page_size, ..of_acme() }).unwrap().tasks.len();
        assert_eq!([size(0), size(MAX_PAGE), size(usize::MAX)], [1, MAX_PAGE, MAX_PAGE]);
    });
}

#[test]
fn artifacts_and_history_length_follow_query() {
    on_each(|tasks, reader| {
        let mut stored = new_task(1);
        let task = Arc::make_mut(&mut stored.task);
        task.artifacts = vec![artifact("a")];
        task.history.push(text_message(Role::Agent, "did 1").into());
        done(tasks, vec![create(&stored)]);
        let seen = |history_length, include_artifacts| {
            let query = ListQuery { history_length, include_artifacts, ..of_acme() };
            let task = Arc::clone(&reader.list(&query).unwrap().tasks[0].task);
            (task.history.iter().map(|m| m.text()).collect::<Vec<_>>(), task.artifacts.len())
        };
        assert_eq!(seen(None, true), (vec!["do 1".to_owned(), "did 1".to_owned()], 1));
        assert_eq!(seen(Some(1), false), (vec!["did 1".to_owned()], 0));
        assert_eq!(seen(Some(0), true), (vec![], 1));
    });
}

#[test]
fn queued_tasks_have_positions_on_every_page() {
    on_each(|tasks, reader| {
        let mut all: Vec<_> = (1..=6).map(|n| waiting(n, -(n as i64))).collect();
        Arc::make_mut(&mut all[1].task).context_id = context("other");
        all.push(new_task(7));
        done(tasks, all.iter().map(create).collect());
        let listed = pages(&*reader, ListQuery { page_size: 2, ..of_acme() }, || ());
        let places: Vec<_> = listed
            .iter()
            .flat_map(|page| &page.tasks)
            .map(|stored| (number(stored), metadata(stored)["queuePosition"].clone()))
            .collect();
        let expected = [
            (7, json!(null)),
            (6, json!(1)),
            (5, json!(2)),
            (4, json!(3)),
            (3, json!(4)),
            (2, json!(1)),
            (1, json!(5)),
        ];
        assert_eq!(places, expected);
    });
}
