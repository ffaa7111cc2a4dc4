//! Random writes in batches to a file and one by one to a database in memory: outcomes and state
//! must be equal.
//!
//! It checks what batches add: shared transactions, savepoints, reopening. Both sides run the same
//! SQL and row cache, whose results the conformance suite checks against written-out values.

use a2a_protocol::opt::{ObjectiveStatus, PlanStatus, PlanTaskStatus};
use a2a_protocol::task::{Role, TaskState};
use a2a_taskdb::{
    ListQuery, NewEvent, ObjectiveQuery, Queued, StoredTask, TaskDb, TaskReader, TaskWriter, Write,
    WriteOutcome,
};
use proptest::prelude::*;
use proptest::sample::select;

use super::setup::*;

const TASKS: u64 = 6;
const OBJECTIVES: u64 = 3;
const NAMES: [&str; 3] = ["a", "b", "c"];

/// A write without versions and event numbers, which depend on the state it is applied to.
#[derive(Debug, Clone)]
enum Draft {
    Create {
        n: u64,
        ms: i64,
        message: Option<&'static str>,
        pushes: Vec<&'static str>,
        events: u64,
    },
    Update {
        n: u64,
        ms: i64,
        message: Option<&'static str>,
        events: u64,
        change: Change,
    },
    Answer(u64),
    Delete(u64),
    PutPush(u64, &'static str, bool),
    DeletePush(u64, &'static str),
    PushDone(u64),
    PushRetry(u64, i64),
    Expire(i64, usize),
    Objective(Goal),
    Atomic(Vec<Draft>),
}

/// A change of an objective.
#[derive(Debug, Clone)]
struct Goal {
    n: u64,
    ms: i64,
    status: ObjectiveStatus,
    /// Position and status of plans.
    plans: Vec<(u32, PlanStatus)>,
    /// Plan, position, A2A task and status of plan tasks.
    steps: Vec<(u32, u32, Option<u64>, PlanTaskStatus)>,
    /// `true` for a wrong revision, `false` for another owner.
    wrong: Option<bool>,
}

fn goal() -> impl Strategy<Value = Goal> {
    let plan = (0..3_u32, select(PlanStatus::ALL));
    let step = (
        0..3_u32,
        0..2_u32,
        proptest::option::of(select(&[0, 0, 2, 2, 5_u64][..])),
        select(PlanTaskStatus::ALL),
    );
    let wrong = prop_oneof![8 => Just(None), 1 => any::<bool>().prop_map(Some)];
    let (plans, steps) =
        (proptest::collection::vec(plan, 0..3), proptest::collection::vec(step, 0..3));
    (0..OBJECTIVES, 0..40_i64, select(ObjectiveStatus::ALL), plans, steps, wrong).prop_map(
        |(n, ms, status, plans, steps, wrong)| Goal { n, ms, status, plans, steps, wrong },
    )
}

/// The write for the current state of the objective.
fn objective_write(goal: Goal, reader: &dyn TaskReader) -> Write {
    let Goal { n, ms, status, plans, steps, wrong } = goal;
    let mut stored = match reader.objective(&context(&format!("obj-{n}"))).unwrap() {
        Some(tree) => on(&tree.stored, status, ms),
        None => new_objective(n),
    };
    match wrong {
        Some(true) => stored.revision += 1,
        Some(false) => stored.owner = "client:other".into(),
        None => {}
    }
    let plans: Vec<_> = plans
        .into_iter()
        .map(|(order, status)| {
            let mut plan = new_plan(n, order);
            (plan.plan.status, plan.held) = (status, ms % 2 == 0);
            plan.plan.updated_at = at(ms);
            plan
        })
        .collect();
    let steps: Vec<_> = steps
        .into_iter()
        .map(|(plan, index, task, status)| {
            let mut step = new_step(n, plan, index);
            (step.a2a_task_id, step.status) = (task.map(id), status);
            step
        })
        .collect();
    super::setup::change(&stored, &plans, &steps)
}

#[derive(Debug, Clone)]
struct Change {
    state: TaskState,
    queued: Option<i64>,
    appends_message: bool,
    adds_artifact: bool,
    /// `true` for a wrong version, `false` for another principal.
    wrong: Option<bool>,
}

fn change() -> impl Strategy<Value = Change> {
    let wrong = prop_oneof![8 => Just(None), 1 => any::<bool>().prop_map(Some)];
    let queued = proptest::option::of(-3..3_i64);
    (select(TaskState::ALL), queued, any::<bool>(), any::<bool>(), wrong).prop_map(
        |(state, queued, appends_message, adds_artifact, wrong)| Change {
            state,
            queued,
            appends_message,
            adds_artifact,
            wrong,
        },
    )
}

fn draft() -> impl Strategy<Value = Draft> {
    let together = proptest::collection::vec(single(), 1..5).prop_map(Draft::Atomic);
    prop_oneof![4 => single(), 1 => together]
}

fn single() -> impl Strategy<Value = Draft> {
    let (n, ms, name) = (0..TASKS, 0..40_i64, select(&NAMES[..]));
    let message = proptest::option::of(name.clone());
    let pushes = proptest::sample::subsequence(&NAMES[..], 0..=2);
    prop_oneof![
        4 => (n.clone(), ms.clone(), message.clone(), pushes, 0..3_u64).prop_map(
            |(n, ms, message, pushes, events)| Draft::Create { n, ms, message, pushes, events }
        ),
        8 => (n.clone(), ms.clone(), message, 0..3_u64, change()).prop_map(
            |(n, ms, message, events, change)| Draft::Update { n, ms, message, events, change }
        ),
        1 => n.clone().prop_map(Draft::Answer),
        1 => n.clone().prop_map(Draft::Delete),
        2 => (n.clone(), name.clone(), any::<bool>()).prop_map(|(n, name, named)| Draft::PutPush(n, name, named)),
        1 => (n, name).prop_map(|(n, name)| Draft::DeletePush(n, name)),
        3 => (0..12_u64).prop_map(Draft::PushDone),
        2 => (0..12_u64, ms.clone()).prop_map(|(outbox, ms)| Draft::PushRetry(outbox, ms)),
        1 => (ms, 0..4_usize).prop_map(|(ms, limit)| Draft::Expire(ms, limit)),
        6 => goal().prop_map(Draft::Objective),
    ]
}

/// A new task; owner, agent and context depend on its number.
fn created(n: u64, ms: i64) -> StoredTask {
    let mut stored = if n < 4 { task_in(n % 2, n) } else { new_task(n) };
    stored.created = at(ms);
    stored.updated = at(ms);
    stored.owner = if n.is_multiple_of(2) { "client:acme".into() } else { "client:other".into() };
    stored.agent = agent(if n.is_multiple_of(3) { "tim" } else { "ann" });
    stored
}

fn with_events(stored: &mut StoredTask, count: u64) -> Vec<NewEvent> {
    let first = stored.last_event + 1;
    stored.last_event += count;
    (first..=stored.last_event).map(|number| event(stored, number)).collect()
}

/// The write for the current state of the store.
fn write(draft: &Draft, reader: &dyn TaskReader) -> Write {
    match draft.clone() {
        Draft::Create { n, ms, message, pushes, events } => {
            let mut stored = created(n, ms);
            let events = with_events(&mut stored, events);
            let push = pushes.into_iter().map(push).collect();
            Write::Create { stored, message: message.map(|text| label(text).into()), events, push }
        }
        Draft::Update { n, ms, message, events, change } => {
            let before = reader.get(id(n)).unwrap().unwrap_or_else(|| created(n, 0));
            let mut stored = then(&before, change.state, ms);
            stored.queued = change.queued.map(|order| Queued { order, at: at(ms) });
            stored.dispatched = change.appends_message;
            stored.working_since = change.adds_artifact.then(|| at(ms));
            let task = std::sync::Arc::make_mut(&mut stored.task);
            if change.appends_message {
                task.history.push(text_message(Role::Agent, &format!("said {ms}")).into());
            }
            if change.adds_artifact {
                task.artifacts.push(artifact(&format!("made {ms}")));
            }
            let events = with_events(&mut stored, events);
            let mut expected = before.version;
            match change.wrong {
                Some(true) => expected += 1,
                Some(false) => stored.principal = agent("mallory"),
                None => {}
            }
            Write::Update {
                stored,
                expected,
                events,
                message: message.map(|text| label(text).into()),
            }
        }
        Draft::Answer(n) => Write::Answer {
            id: id(n),
            message: Box::new(text_message(Role::Agent, &format!("answer {n}"))),
        },
        Draft::Delete(n) => Write::Delete(id(n)),
        Draft::PutPush(n, name, named) => {
            let mut config = push(name);
            config.id.take_if(|_| !named);
            Write::PutPush { task: id(n), config }
        }
        Draft::DeletePush(n, name) => Write::DeletePush { task: id(n), id: label(name) },
        Draft::PushDone(outbox) => Write::PushDone { outbox },
        Draft::PushRetry(outbox, ms) => Write::PushRetry { outbox, attempts: 2, next: at(ms) },
        Draft::Expire(ms, limit) => Write::Expire { older_than: at(ms), limit },
        Draft::Objective(goal) => objective_write(goal, reader),
        Draft::Atomic(drafts) => {
            Write::Atomic(drafts.iter().map(|draft| write(draft, reader)).collect())
        }
    }
}

/// Everything that the readers return, as text.
fn dump(reader: &dyn TaskReader) -> Vec<String> {
    let mut seen = vec![format!("{:#?}", reader.open().unwrap())];
    for n in 0..TASKS {
        let id = id(n);
        seen.push(format!("{n}: {:#?}", reader.get(id).unwrap()));
        seen.push(format!("{:?}", reader.events(id, 1, 5).unwrap()));
        seen.push(format!("{:?}", reader.pushes(id).unwrap()));
    }
    for owner in ["client:acme", "client:other"] {
        for (name, message) in ["tim", "ann"].into_iter().flat_map(|a| NAMES.map(|m| (a, m))) {
            let repeat = reader.message(owner, &agent(name), &label(message).into()).unwrap();
            seen.push(format!("{owner} {name} {message} {repeat:?}"));
        }
        let history = reader.history_of_context(owner, &agent("tim"), &context("ctx"), 3);
        seen.push(format!("{:?}", history.unwrap()));
        let mut query = ListQuery {
            owner: Some(owner.into()),
            page_size: 2,
            history_length: Some(1),
            ..ListQuery::default()
        };
        loop {
            let page = reader.list(&query).unwrap();
            seen.push(format!("{page:#?}"));
            query.page_token = page.next_page_token;
            if query.page_token.is_none() {
                break;
            }
        }
    }
    let status = Some(TaskState::Working);
    let query = ListQuery { status, after: Some(at(9)), page_size: 9, ..ListQuery::default() };
    seen.push(format!("{:#?}", reader.list(&query).unwrap()));
    seen.push(format!("{:?}", reader.find_by_context(&context("ctx"), 4).unwrap()));
    seen.push(format!("{:?}", reader.pending_by_context(&agent("ann"), &context("ctx")).unwrap()));
    seen.push(format!("{:?}", reader.outbox_due(at(20), 4).unwrap()));
    seen.push(format!("{:?}", reader.next_due().unwrap()));
    seen.extend(dump_objectives(reader));
    seen
}

fn dump_objectives(reader: &dyn TaskReader) -> Vec<String> {
    let mut seen = vec![format!("{:#?}", reader.open_objectives().unwrap())];
    for n in 0..OBJECTIVES {
        let id = context(&format!("obj-{n}"));
        seen.push(format!("{:#?}", reader.objective(&id).unwrap()));
        seen.push(format!("{:?}", reader.history_of_objective(&id, 3).unwrap()));
        seen.push(format!("{:?}", reader.plan(&plan_id(n, 0)).unwrap()));
        seen.push(format!("{:?}", reader.history_of_plan(&plan_id(n, 0), 3).unwrap()));
    }
    for n in 0..TASKS {
        seen.push(format!("{n}: {:?}", reader.plan_task_of(id(n)).unwrap()));
    }
    let mut query = ObjectiveQuery { limit: 2, with_plans: true, ..ObjectiveQuery::default() };
    loop {
        let page = reader.objectives(&query).unwrap();
        seen.push(format!("{page:#?}"));
        query.after = page.next;
        if query.after.is_none() {
            return seen;
        }
    }
}

fn run(steps: &[(Vec<Draft>, bool)]) {
    let mut file = on_disk();
    let mut memory = TaskDb::open_in_memory().unwrap();
    for (drafts, reopen) in steps {
        let reader = memory.reader();
        let writes: Vec<Write> = drafts.iter().map(|draft| write(draft, &*reader)).collect();
        let expected: Vec<WriteOutcome> =
            writes.iter().map(|write| one(&mut memory, write.clone())).collect();
        assert_eq!(file.tasks.commit(writes).unwrap(), expected);
        if *reopen {
            let OnDisk { dir, tasks } = file;
            drop(tasks);
            file = OnDisk { tasks: open(dir.path()), dir };
        }
        let (ours, expected) = (dump(&*file.tasks.reader()), dump(&*reader));
        assert_eq!(ours.len(), expected.len());
        for (ours, expected) in ours.iter().zip(expected) {
            assert_eq!(*ours, expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 300, ..ProptestConfig::default() })]

    #[test]
    fn batches_on_file_equal_single_writes_in_memory(
        steps in proptest::collection::vec((proptest::collection::vec(draft(), 1..8), proptest::bool::weighted(0.1)), 1..16)
    ) {
        run(&steps);
    }
}
