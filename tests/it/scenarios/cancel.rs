//! Cancelling a task: an agent that has not begun never sees it, an agent at work is notified, and no
//! answer counts any more.

use a2a_protocol::AssignmentState;
use openclaw_a2a::{CancelError, LedgerRefusal, TaskError};
use tokio::sync::mpsc::UnboundedSender;

use super::*;

#[tokio::test]
async fn task_cancelled_while_pending_is_never_delivered() {
    let folder = folder();
    let bus = start(&folder, quick());
    let roman = bus.connect("roman").await.unwrap();
    absent(&bus, "tony").await;
    let mut work = roman.request_task("tony", small_task()).await.unwrap();
    work.cancel("The plan changed").await.unwrap();
    assert_eq!(work.result_within(SOON).await, Err(TaskError::Cancelled));
    let cancelled = task(&bus, work.task_id()).await;
    assert_eq!(cancelled.state, AssignmentState::Cancelled);
    assert_eq!(cancelled.reason.as_deref(), Some("The plan changed"));
    let (_tony, mut tony_inbox) = listener(&bus, "tony").await;
    next_is(&mut tony_inbox, &word(&roman, "tony").await).await;

    let bus = restart(bus, &folder, quick()).await;
    assert_eq!(task(&bus, work.task_id()).await, cancelled);
    let roman = bus.connect("roman").await.unwrap();
    let (_tony, mut tony_inbox) = listener(&bus, "tony").await;
    next_is(&mut tony_inbox, &word(&roman, "tony").await).await;
    bus.stop().await;
}

/// Takes a task and works until it is cancelled; reports both.
async fn patient(output: UnboundedSender<&'static str>, me: Agent, delivery: Delivery) {
    if !matches!(delivery.message.body, Body::TaskRequest(_)) {
        return;
    }
    me.accept(&delivery).await.unwrap();
    output.send("begun").unwrap();
    delivery.cancelled().await;
    assert!(delivery.is_cancelled());
    let late = me.complete(&delivery, "Done all the same").await.unwrap_err();
    assert_eq!(late.outcome(), Some(Outcome::IllegalTransition));
    output.send("cancelled").unwrap();
}

#[tokio::test]
async fn agent_at_work_is_notified_and_its_answer_is_refused() {
    let folder = folder();
    let bus = start(&folder, quick());
    let roman = bus.connect("roman").await.unwrap();
    let (output, mut says) = unbounded_channel();
    bus.attach("tony", move |me, delivery| patient(output.clone(), me, delivery)).await.unwrap();
    let mut work = roman.request_task("tony", small_task()).await.unwrap();
    assert_eq!(next(&mut says).await, "begun");
    work.cancel("The plan changed").await.unwrap();
    assert_eq!(next(&mut says).await, "cancelled");
    assert_eq!(work.result_within(SOON).await, Err(TaskError::Cancelled));
    assert_eq!(state(&bus, work.task_id()).await, AssignmentState::Cancelled);

    let bus = restart(bus, &folder, quick()).await;
    let cancelled = task(&bus, work.task_id()).await;
    assert_eq!(cancelled.state, AssignmentState::Cancelled);
    let roman = bus.connect("roman").await.unwrap();
    let (_tony, mut tony_inbox) = listener(&bus, "tony").await;
    let last = word(&roman, "tony").await;
    loop {
        let delivery = next(&mut tony_inbox).await;
        if delivery.message.message_id == last.message_id() {
            break;
        }
        // The notice may have been waiting when the bus stopped.
        assert_eq!(
            delivery.sender.as_str(),
            "system",
            "the task does not come again: {delivery:?}"
        );
    }
    bus.stop().await;
}

#[tokio::test]
async fn agent_between_messages_is_notified_by_the_bus() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (roman, _) = listener(&bus, "roman").await;
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    let mut work = roman.request_task("tony", small_task()).await.unwrap();
    let delivery = next(&mut tony_inbox).await;
    tony.accept(&delivery).await.unwrap();
    work.cancel("The plan changed").await.unwrap();
    let text = next_notice(&mut tony_inbox, work.correlation_id()).await;
    assert!(text.contains("cancelled by roman: The plan changed"), "{text}");

    let bus = restart(bus, &folder, quick()).await;
    let (tony, _) = listener(&bus, "tony").await;
    let (_roman, mut inbox) = listener(&bus, "roman").await;
    let cancelled = task(&bus, work.task_id()).await;
    for late in [tony.complete(&delivery, "Done").await, tony.report(&delivery, "Going on").await] {
        assert_eq!(late.unwrap_err().outcome(), Some(Outcome::IllegalTransition));
    }
    assert_eq!(task(&bus, work.task_id()).await, cancelled);
    next_is(&mut inbox, &word(&tony, "roman").await).await;
    bus.stop().await;
}

#[tokio::test]
async fn ended_task_cannot_be_cancelled() {
    let folder = folder();
    let bus = start(&folder, quick());
    let roman = bus.connect("roman").await.unwrap();
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    let mut work = roman.request_task("tony", small_task()).await.unwrap();
    tony.complete(&next(&mut tony_inbox).await, "Done").await.unwrap();
    assert!(work.result_within(SOON).await.is_ok());
    let too_late = |result: Result<(), CancelError>| {
        let Err(CancelError::Refused(LedgerRefusal::Illegal { state, .. })) = result else {
            panic!("{result:?}")
        };
        assert_eq!(state, AssignmentState::Completed);
    };
    too_late(work.cancel("Never mind").await);
    assert!(work.result_within(SOON).await.is_ok(), "the result stands");

    let bus = restart(bus, &folder, quick()).await;
    too_late(bus.cancel_task(work.task_id(), "Never mind").await);
    assert_eq!(state(&bus, work.task_id()).await, AssignmentState::Completed);
    let nowhere = uuid::Uuid::now_v7().try_into().unwrap();
    let unknown = bus.cancel_task(nowhere, "Never mind").await.unwrap_err();
    assert_eq!(unknown, CancelError::Refused(LedgerRefusal::UnknownTask { task: nowhere }));
    bus.stop().await;
}

#[tokio::test]
async fn a_person_can_call_any_task_off() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (roman, _) = listener(&bus, "roman").await;
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    let asked = roman.send_task_request("tony", small_task()).await.unwrap();
    let delivery = next(&mut tony_inbox).await;
    tony.accept(&delivery).await.unwrap();

    let bus = restart(bus, &folder, quick()).await;
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    bus.cancel_task(asked.task_id().unwrap(), "Too expensive").await.unwrap();
    let text = next_notice(&mut tony_inbox, asked.correlation_id()).await;
    assert!(text.contains("cancelled by a person: Too expensive"), "{text}");
    let late = tony.complete(&delivery, "Done").await.unwrap_err();
    assert_eq!(late.outcome(), Some(Outcome::IllegalTransition));
    bus.stop().await;
}

#[tokio::test]
async fn watcher_of_a_task_gets_its_cancellation_by_a_person() {
    let folder = folder();
    let bus = start(&folder, quick());
    let roman = bus.connect("roman").await.unwrap();
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    let mut work = roman.request_task("tony", small_task()).await.unwrap();
    tony.accept(&next(&mut tony_inbox).await).await.unwrap();
    bus.cancel_task(work.task_id(), "Too expensive").await.unwrap();
    let ended = work.result_within(Duration::from_secs(3)).await.unwrap_err();
    assert!(!matches!(ended, TaskError::TimedOut { .. }), "nobody told roman");
    let bus = restart(bus, &folder, quick()).await;
    assert_eq!(state(&bus, work.task_id()).await, AssignmentState::Cancelled);
    bus.stop().await;
}

/// The handler was notified and had not returned when the bus stopped: the request is still in its
/// inbox, but it is not wanted any more.
#[tokio::test]
async fn task_cancelled_at_work_is_not_redelivered_as_wanted_after_a_restart() {
    let folder = folder();
    let bus = start(&folder, quick());
    let roman = bus.connect("roman").await.unwrap();
    let (begun, mut has_begun) = unbounded_channel();
    bus.attach("tony", move |_: Delivery| {
        begun.send(()).ok();
        std::future::pending::<()>()
    })
    .await
    .unwrap();
    let mut work = roman.request_task("tony", small_task()).await.unwrap();
    next(&mut has_begun).await;
    work.cancel("The plan changed").await.unwrap();
    bus.stop_within(Duration::from_millis(10)).await;

    let bus = start(&folder, quick());
    let roman = bus.connect("roman").await.unwrap();
    let (_tony, mut tony_inbox) = listener(&bus, "tony").await;
    let last = word(&roman, "tony").await;
    loop {
        let delivery = next(&mut tony_inbox).await;
        if delivery.message.message_id == last.message_id() {
            break;
        }
        let wanted =
            matches!(delivery.message.body, Body::TaskRequest(_)) && !delivery.is_cancelled();
        assert!(!wanted, "handed out again as if nothing had happened");
    }
    bus.stop().await;
}
