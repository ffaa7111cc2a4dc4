//! A handler that breaks: the requester is notified, the task is over, and a person can give it
//! another chance once the handler is mended.

use a2a_protocol::AssignmentState;
use openclaw_a2a::TaskError;

use super::*;

async fn broken(_: Delivery) {
    let works = false;
    assert!(works, "tony has a bug");
}

#[tokio::test]
async fn task_whose_handler_panics_has_failed_until_its_dead_letter_is_retried() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (roman, mut inbox) = listener(&bus, "roman").await;
    bus.attach("tony", broken).await.unwrap();
    let asked = roman.send_task_request("tony", small_task()).await.unwrap();
    let id = asked.task_id().unwrap();
    let text = next_notice(&mut inbox, asked.correlation_id()).await;
    assert!(text.contains("tony has a bug") && text.contains("dead letter"), "{text}");
    let failed = task(&bus, id).await;
    assert_eq!(failed.state, AssignmentState::Failed);
    assert!(failed.reason.as_ref().unwrap().contains("tony has a bug"), "{failed:?}");

    let bus = restart(bus, &folder, quick()).await;
    assert_eq!(task(&bus, id).await, failed);
    let (roman, mut inbox) = listener(&bus, "roman").await;
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    next_is(&mut tony_inbox, &word(&roman, "tony").await).await; // it is not tried by itself
    let dead = bus.dead_letters().await;
    assert_eq!(dead.len(), 1);
    assert_eq!((Some(dead[0].seq), dead[0].attempts), (asked.seq(), quick().retry.attempts));
    assert!(bus.retry_dead_letter(&dead[0]).await);
    let delivery = next(&mut tony_inbox).await;
    assert_eq!(Some(delivery.seq), asked.seq());
    let again = task(&bus, id).await;
    assert_eq!((again.state, again.reason), (AssignmentState::Requested, None));
    assert!(!bus.retry_dead_letter(&dead[0]).await, "it is no dead letter any more");

    let bus = restart(bus, &folder, quick()).await;
    assert_eq!(state(&bus, id).await, AssignmentState::Requested);
    assert!(bus.dead_letters().await.is_empty());
    drop((inbox.try_recv(), tony));
    let (_roman, mut inbox) = listener(&bus, "roman").await;
    let (tony, _) = listener(&bus, "tony").await;
    tony.complete(&delivery, "Mended and done").await.unwrap();
    assert_eq!(payload(&next(&mut inbox).await)["action"], "completed");
    assert_eq!(state(&bus, id).await, AssignmentState::Completed);
    bus.stop().await;
}

#[tokio::test]
async fn watched_task_ends_when_its_request_is_a_dead_letter() {
    let folder = folder();
    let bus = start(&folder, quick());
    let roman = bus.connect("roman").await.unwrap();
    bus.attach("tony", broken).await.unwrap();
    let mut work = roman.request_task("tony", small_task()).await.unwrap();
    let error = work.result_within(SOON).await.unwrap_err();
    assert!(
        matches!(&error, TaskError::Undelivered { reason } if reason.contains("tony has a bug")),
        "{error}"
    );
    let bus = restart(bus, &folder, quick()).await;
    assert_eq!(state(&bus, work.task_id()).await, AssignmentState::Failed);
    bus.stop().await;
}

#[tokio::test]
async fn failed_task_can_be_asked_of_another_agent_and_its_dead_letter_does_no_harm() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (roman, mut inbox) = listener(&bus, "roman").await;
    bus.attach("tony", broken).await.unwrap();
    let first = roman.write("tony", small_task()).unwrap();
    let asked = roman.post(first.clone()).await.unwrap();
    let id = asked.task_id().unwrap();
    next_notice(&mut inbox, asked.correlation_id()).await;

    let bus = restart(bus, &folder, quick()).await;
    let (roman, _) = listener(&bus, "roman").await;
    let (sandy, mut sandy_inbox) = listener(&bus, "sandy").await;
    let (_tony, mut tony_inbox) = listener(&bus, "tony").await;
    let fresh = roman.write("sandy", small_task()).unwrap();
    roman.post(Envelope { body: first.body, ..fresh }).await.unwrap();
    let delivery = next(&mut sandy_inbox).await;
    let hers = task(&bus, id).await;
    assert_eq!((hers.state, hers.assignee.as_str()), (AssignmentState::Requested, "sandy"));
    let dead = bus.dead_letters().await;
    assert!(!bus.retry_dead_letter(&dead[0]).await, "the work would be done twice");
    assert_eq!(bus.dead_letters().await.len(), 1);
    assert_eq!(task(&bus, id).await, hers, "the old request does not take it from her");
    sandy.complete(&delivery, "Done").await.unwrap();
    assert_eq!(state(&bus, id).await, AssignmentState::Completed);
    bus.stop().await;
    assert!(tony_inbox.try_recv().is_err(), "tony is not bothered");
}

/// Accepts, and breaks the first time.
async fn clumsy(me: Agent, delivery: Delivery) -> Result<(), openclaw_a2a::SendError> {
    me.accept(&delivery).await?;
    assert!(delivery.attempt > 1, "once is not always");
    me.complete(&delivery, "Done").await?;
    Ok(())
}

#[tokio::test]
async fn a_handler_that_panics_after_accepting_can_accept_again_when_it_is_tried_again() {
    let folder = folder();
    let bus = start(&folder, quick());
    let roman = bus.connect("roman").await.unwrap();
    bus.attach("tony", clumsy).await.unwrap();
    let mut work = roman.request_task("tony", small_task()).await.unwrap();
    assert_eq!(work.result_within(SOON).await.unwrap().summary(), "Done");
    let bus = restart(bus, &folder, quick()).await;
    assert_eq!(state(&bus, work.task_id()).await, AssignmentState::Completed);
    bus.stop().await;
}
