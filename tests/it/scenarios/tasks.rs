//! The ordinary way of a task, which everything else departs from: if the ledger were wrong
//! here, no agent could rely on it anywhere.

use std::sync::Arc;

use a2a_protocol::AssignmentState;
use openclaw_a2a::{Delivery, TaskError, TaskHandle, TaskUpdate};
use tokio::sync::Semaphore;

use super::*;

async fn update(work: &mut TaskHandle) -> TaskUpdate {
    tokio::time::timeout(SOON, work.next()).await.expect("in time").expect("another update")
}

#[tokio::test]
async fn the_ledger_follows_a_task_from_the_request_to_its_end_through_a_restart() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (roman, mut inbox) = listener(&bus, "roman").await;
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    let asked = roman.send_task_request("tony", small_task()).await.unwrap();
    let id = asked.task_id().unwrap();
    let delivery = next(&mut tony_inbox).await;
    let at_first = task(&bus, id).await;
    assert_eq!(at_first.state, AssignmentState::Requested);
    assert_eq!((at_first.requester.as_str(), at_first.assignee.as_str()), ("roman", "tony"));
    assert_eq!(Some(at_first.record), asked.seq());
    assert_eq!(at_first.correlation_id, asked.correlation_id());

    tony.accept(&delivery).await.unwrap();
    assert_eq!(state(&bus, id).await, AssignmentState::Accepted);
    tony.report(&delivery, "The stages stand").await.unwrap();
    let before = task(&bus, id).await;
    assert_eq!(before.state, AssignmentState::Working);
    assert_eq!(payload(&next(&mut inbox).await)["action"], "accepted");
    assert_eq!(payload(&next(&mut inbox).await)["status"], "in_progress");

    let bus = restart(bus, &folder, quick()).await;
    assert_eq!(task(&bus, id).await, before, "nothing about the task was lost");
    let (_roman, mut inbox) = listener(&bus, "roman").await;
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    tony.complete(&delivery, "Every message passes it.").await.unwrap();
    assert_eq!(state(&bus, id).await, AssignmentState::Completed);
    let answer = next(&mut inbox).await;
    assert_eq!(answer.message.correlation_id, asked.correlation_id());
    assert_eq!(payload(&answer)["result"]["summary"], "Every message passes it.");

    let bus = restart(bus, &folder, quick()).await;
    assert_eq!(state(&bus, id).await, AssignmentState::Completed);
    assert_eq!(bus.tasks(Some(&super::id("tony")), 10).await.len(), 1);
    assert!(tony_inbox.try_recv().is_err(), "the request was handed out once");
    bus.stop().await;
}

#[tokio::test]
async fn watched_task_reports_that_the_bus_stopped_and_its_answer_reaches_the_handler() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (roman, _) = listener(&bus, "roman").await;
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    let mut work = roman.request_task("tony", small_task()).await.unwrap();
    let delivery = next(&mut tony_inbox).await;
    assert_eq!(state(&bus, work.task_id()).await, AssignmentState::Requested);
    tony.accept(&delivery).await.unwrap();
    assert_eq!(update(&mut work).await, TaskUpdate::Accepted);
    assert_eq!(state(&bus, work.task_id()).await, AssignmentState::Accepted);
    tony.report(&delivery, "Half way").await.unwrap();
    assert!(
        matches!(update(&mut work).await, TaskUpdate::Progress { text, .. } if text == "Half way")
    );
    assert_eq!(state(&bus, work.task_id()).await, AssignmentState::Working);

    let bus = restart(bus, &folder, quick()).await;
    assert_eq!(work.result_within(SOON).await, Err(TaskError::Stopped));
    assert_eq!(state(&bus, work.task_id()).await, AssignmentState::Working);
    let (roman, mut inbox) = listener(&bus, "roman").await;
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    tony.complete(&delivery, "Done").await.unwrap();
    assert_eq!(payload(&next(&mut inbox).await)["action"], "completed");
    assert_eq!(state(&bus, work.task_id()).await, AssignmentState::Completed);

    // And the next one is watched to its end on the bus that was started again.
    let mut work = roman.request_task("tony", small_task()).await.unwrap();
    let delivery = next(&mut tony_inbox).await;
    tony.complete(&delivery, "Done as well").await.unwrap();
    assert_eq!(work.result_within(SOON).await.unwrap().summary(), "Done as well");
    assert_eq!(state(&bus, work.task_id()).await, AssignmentState::Completed);
    bus.stop().await;
}

/// Takes a task, and finishes it only when the gate is open.
async fn work_behind(
    gate: Arc<Semaphore>,
    me: Agent,
    delivery: Delivery,
) -> Result<(), openclaw_a2a::SendError> {
    // Refused if it was accepted before the restart, and then there is nothing to do.
    let _ = me.accept(&delivery).await;
    me.report(&delivery, "At it").await?;
    if let Ok(permit) = gate.acquire().await {
        permit.forget();
    }
    me.complete(&delivery, "Done").await?;
    Ok(())
}

/// How the task ended, whatever updates came before.
async fn ended(inbox: &mut UnboundedReceiver<Delivery>) -> String {
    loop {
        let delivery = next(inbox).await;
        match payload(&delivery)["action"].as_str() {
            None | Some("accepted") => {}
            Some(action) => return action.to_owned(),
        }
    }
}

#[tokio::test]
async fn a_handler_cut_short_by_a_restart_gets_its_task_again_and_finishes_it() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (roman, mut inbox) = listener(&bus, "roman").await;
    let shut = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&shut);
    bus.attach("tony", move |me, delivery| work_behind(Arc::clone(&held), me, delivery))
        .await
        .unwrap();
    let asked = roman.send_task_request("tony", small_task()).await.unwrap();
    let id = asked.task_id().unwrap();
    assert_eq!(payload(&next(&mut inbox).await)["action"], "accepted");
    assert_eq!(payload(&next(&mut inbox).await)["progress"], "At it");
    let stopped = bus.stop_within(Duration::from_millis(10)).await;
    assert_eq!(stopped.interrupted, 1);

    let bus = start(&folder, quick());
    assert_eq!(state(&bus, id).await, AssignmentState::Working);
    let (_roman, mut inbox) = listener(&bus, "roman").await;
    let open = Arc::new(Semaphore::new(1));
    bus.attach("tony", move |me, delivery| work_behind(Arc::clone(&open), me, delivery))
        .await
        .unwrap();
    assert_eq!(ended(&mut inbox).await, "completed");
    assert_eq!(state(&bus, id).await, AssignmentState::Completed);
    bus.stop().await;
}

/// As the documentation shows a handler: accept, report, complete, and return any error.
async fn as_documented(
    gate: Arc<Semaphore>,
    me: Agent,
    delivery: Delivery,
) -> Result<(), openclaw_a2a::SendError> {
    me.accept(&delivery).await?;
    me.report(&delivery, "At it").await?;
    if let Ok(permit) = gate.acquire().await {
        permit.forget();
    }
    me.complete(&delivery, "Done").await?;
    Ok(())
}

/// Delivery is at least once, so a handler may begin anew; its task must not fail by that.
#[tokio::test]
async fn a_handler_that_begins_anew_after_a_restart_can_accept_its_task_again() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (roman, mut inbox) = listener(&bus, "roman").await;
    let shut = Arc::new(Semaphore::new(0));
    bus.attach("tony", move |me, delivery| as_documented(Arc::clone(&shut), me, delivery))
        .await
        .unwrap();
    let asked = roman.send_task_request("tony", small_task()).await.unwrap();
    assert_eq!(payload(&next(&mut inbox).await)["action"], "accepted");
    assert_eq!(payload(&next(&mut inbox).await)["progress"], "At it");
    assert_eq!(bus.stop_within(Duration::from_millis(10)).await.interrupted, 1);

    let bus = start(&folder, quick());
    let (_roman, mut inbox) = listener(&bus, "roman").await;
    let open = Arc::new(Semaphore::new(1));
    bus.attach("tony", move |me, delivery| as_documented(Arc::clone(&open), me, delivery))
        .await
        .unwrap();
    assert_eq!(ended(&mut inbox).await, "completed");
    assert_eq!(state(&bus, asked.task_id().unwrap()).await, AssignmentState::Completed);
    bus.stop().await;
}

#[tokio::test]
async fn first_requester_gets_the_answer_of_a_delegated_task() {
    let folder = folder();
    let bus = start(&folder, quick());
    let roman = bus.connect("roman").await.unwrap();
    let (tim, mut tim_inbox) = listener(&bus, "tim").await;
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    let mut work = roman.request_task("tim", small_task()).await.unwrap();
    let asked = next(&mut tim_inbox).await;
    tim.accept(&asked).await.unwrap();
    let mut on = tim.write("tony", small_task()).unwrap();
    if let a2a_protocol::Body::TaskRequest(body) = &mut on.body {
        body.task_id = work.task_id();
    }
    tim.post(on).await.unwrap();
    let handed_on = next(&mut tony_inbox).await;
    tony.complete(&handed_on, "By Tony").await.unwrap();
    assert_eq!(work.result_within(SOON).await.unwrap().summary(), "By Tony");
    assert_eq!(payload(&next(&mut tim_inbox).await)["action"], "completed", "tim hears it, too");
    bus.stop().await;
}
