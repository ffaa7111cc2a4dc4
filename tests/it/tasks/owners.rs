//! The owners of tasks: no other caller sees them, waits for them or learns that they exist.

use a2a_actors::tasks::TaskSettings;
use a2a_protocol::operation::{CancelTask, GetTask, ListTasks, Subscribe};
use a2a_protocol::task::{OpaqueId, TaskState};
use a2a_taskdb::{Options, TaskDb, TaskWriter};
use openclaw_a2a::Bus;
use serde_json::json;

use super::{asked, place, states, tim};
use crate::a2a_side::{
    Side, acme, at_once, caller, id, in_context, label, message, settings, task,
};

#[tokio::test]
async fn two_callers_who_name_their_conversations_alike_do_not_wait_for_each_other() {
    for on_disk in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let store: Box<dyn TaskWriter> = if on_disk {
            let options = Options::new(folder.path());
            Box::new(TaskDb::open(&options).unwrap())
        } else {
            Box::new(TaskDb::open_in_memory().unwrap())
        };
        let bus = Bus::builder().in_memory().settings(settings()).start().unwrap();
        let side = Side::on(bus, TaskSettings::default(), store);
        let (_tim, mut inbox) = tim(&side).await;
        for who in [acme(), caller("eve")] {
            for expected in [None, Some(1), Some(2)] {
                let message = at_once(in_context("main", "x"));
                let sent = side.tasks.send(&who, &id("tim"), message).await.unwrap();
                let task = task(sent);
                assert_eq!(place(&task), expected, "{}", who.owner);
                let get = GetTask { id: label(&task), history_length: None };
                let task = side.tasks.get(&who, &id("tim"), get).await.unwrap();
                assert_eq!(place(&task), expected, "{}", who.owner);
            }
            let page = side.tasks.list(&who, &id("tim"), ListTasks::default()).await.unwrap();
            let mut places: Vec<_> = page.tasks.iter().map(place).collect();
            places.sort();
            assert_eq!(places, [None, Some(1), Some(2)]);
            asked(&mut inbox).await;
        }
        side.stop().await;
    }
}

#[tokio::test]
async fn foreign_task_looks_like_none() {
    let side = Side::start();
    let (_tim, mut inbox) = tim(&side).await;
    let task = side.task("tim", at_once(in_context("talk", "mine"))).await;
    let _delivery = asked(&mut inbox).await;
    let (theirs, nowhere) = (label(&task), OpaqueId::from(uuid::Uuid::now_v7()));
    // By another caller, and by the right one at another agent's door.
    for (who, agent) in [(caller("eve"), "tim"), (acme(), "roman")] {
        side.bus.connect("roman").await.unwrap();
        let agent = id(agent);
        let faults = async |task: &OpaqueId| {
            let named = message(json!({"taskId": task, "messageId": "m"}));
            let get = GetTask { id: task.clone(), history_length: None };
            let cancel = CancelTask { id: task.clone(), metadata: None };
            let watch = Subscribe { id: task.clone(), after: None };
            let all = [
                side.tasks.get(&who, &agent, get).await.unwrap_err(),
                side.tasks.cancel(&who, &agent, cancel).await.unwrap_err(),
                side.tasks.subscribe(&who, &agent, watch).await.map(drop).unwrap_err(),
                side.tasks.send(&who, &agent, named.clone()).await.unwrap_err(),
                side.tasks.stream(&who, &agent, named, None).await.map(drop).unwrap_err(),
            ];
            all.map(|fault| format!("{fault:?}").replace(task.as_str(), "?"))
        };
        assert_eq!(faults(&theirs).await, faults(&nowhere).await);
        let listed = side.tasks.list(&who, &agent, ListTasks::default()).await.unwrap();
        assert_eq!((listed.tasks.len(), listed.total_size), (0, 0));
    }
    assert_eq!(states(&side, &[task]).await, [TaskState::Working]);
    side.stop().await;
}
