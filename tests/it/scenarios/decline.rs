//! A declined task still belongs to its requester: it can be asked of another
//! agent, under the same id, and only that one can answer then.

use a2a_protocol::AssignmentState;
use openclaw_a2a::TaskError;

use super::*;

/// The same task once more, of another agent.
fn again(from: &Agent, to: &str, first: &Envelope) -> Envelope {
    let fresh = from.write(to, small_task()).unwrap();
    let (correlation_id, body) = (first.correlation_id, first.body.clone());
    Envelope { correlation_id, body, ..fresh }
}

#[tokio::test]
async fn what_one_agent_declines_another_can_be_asked_for_under_the_same_id() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (roman, mut inbox) = listener(&bus, "roman").await;
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    let (sandy, mut sandy_inbox) = listener(&bus, "sandy").await;
    let first = roman.write("tony", small_task()).unwrap();
    let id = roman.post(first.clone()).await.unwrap().task_id().unwrap();
    let to_tony = next(&mut tony_inbox).await;

    let open = task(&bus, id).await;
    let early = roman.send(again(&roman, "sandy", &first)).await;
    assert_eq!(early.outcome, Outcome::IllegalTransition, "tony has not answered yet");
    let meddling = sandy.send(again(&sandy, "roman", &first)).await;
    assert_eq!(meddling.outcome, Outcome::NotAssignee, "it is not sandy's to ask for");
    assert_eq!(task(&bus, id).await, open);

    tony.decline(&to_tony, "I am on the audit log").await.unwrap();
    assert_eq!(payload(&next(&mut inbox).await)["action"], "declined");
    let declined = task(&bus, id).await;
    assert_eq!(declined.state, AssignmentState::Declined);
    assert_eq!(declined.reason.as_deref(), Some("I am on the audit log"));

    let bus = restart(bus, &folder, quick()).await;
    assert_eq!(task(&bus, id).await, declined);
    let (roman, mut inbox) = listener(&bus, "roman").await;
    let (tony, _) = listener(&bus, "tony").await;
    let (sandy, mut hers) = listener(&bus, "sandy").await;
    assert!(sandy_inbox.try_recv().is_err(), "what was refused reached nobody");
    roman.post(again(&roman, "sandy", &first)).await.unwrap();
    let to_sandy = next(&mut hers).await;
    let asked = task(&bus, id).await;
    assert_eq!((asked.state, asked.assignee.as_str()), (AssignmentState::Requested, "sandy"));
    assert_eq!(asked.reason, None, "tony's reason is not hers");

    let late = tony.accept(&to_tony).await.unwrap_err();
    assert_eq!(late.outcome(), Some(Outcome::NotAssignee));
    assert_eq!(task(&bus, id).await, asked);
    sandy.accept(&to_sandy).await.unwrap();
    sandy.complete(&to_sandy, "Done").await.unwrap();
    assert_eq!(payload(&next(&mut inbox).await)["action"], "accepted");
    assert_eq!(payload(&next(&mut inbox).await)["action"], "completed");
    assert_eq!(state(&bus, id).await, AssignmentState::Completed);
    bus.stop().await;
}

#[tokio::test]
async fn watcher_of_a_declined_task_gets_the_reason_and_asks_another() {
    let folder = folder();
    let bus = start(&folder, quick());
    let roman = bus.connect("roman").await.unwrap();
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    let mut work = roman.request_task("tony", small_task()).await.unwrap();
    tony.decline(&next(&mut tony_inbox).await, "No time").await.unwrap();
    let declined = work.result_within(SOON).await.unwrap_err();
    assert_eq!(declined, TaskError::Declined { reason: "No time".into() });

    let bus = restart(bus, &folder, quick()).await;
    assert_eq!(state(&bus, work.task_id()).await, AssignmentState::Declined);
    let roman = bus.connect("roman").await.unwrap();
    let (sandy, mut sandy_inbox) = listener(&bus, "sandy").await;
    let mut work = roman.request_task("sandy", small_task()).await.unwrap();
    sandy.complete(&next(&mut sandy_inbox).await, "Done").await.unwrap();
    assert_eq!(work.result_within(SOON).await.unwrap().summary(), "Done");
    bus.stop().await;
}
