//! Deadlines: a request not begun in time expires, a task at work continues, marked. The
//! deadlines are a little ahead, and the tests wait for the bus's notices of them.

use a2a_protocol::AssignmentState;
use openclaw_a2a::TaskError;

use super::*;

const SHORTLY: Duration = Duration::from_millis(700);

fn with_deadline() -> NewTask {
    small_task().deadline(SHORTLY)
}

/// The words of the events on a record.
fn events(bus: &Bus, seq: u64) -> Vec<String> {
    let record = bus.system().reader().get(seq).unwrap().unwrap();
    let read = |line: &str| serde_json::from_str::<Value>(line).unwrap()["event"].clone();
    record.deliveries.iter().map(|line| read(line.get()).as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn task_not_taken_in_time_expires_and_is_never_delivered() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (roman, mut inbox) = listener(&bus, "roman").await;
    absent(&bus, "tony").await;
    let asked = roman.send_task_request("tony", with_deadline()).await.unwrap();
    let id = asked.task_id().unwrap();
    assert_eq!(state(&bus, id).await, AssignmentState::Requested);
    let text = next_notice(&mut inbox, asked.correlation_id()).await;
    assert!(text.contains("deadline passed"), "{text}");
    let expired = task(&bus, id).await;
    assert_eq!((expired.state, expired.overdue), (AssignmentState::Failed, false));
    let (_tony, mut tony_inbox) = listener(&bus, "tony").await;
    next_is(&mut tony_inbox, &word(&roman, "tony").await).await;

    let bus = restart(bus, &folder, quick()).await;
    assert_eq!(task(&bus, id).await, expired);
    assert_eq!(events(&bus, asked.seq().unwrap()), ["expired"]);
    let (roman, mut inbox) = listener(&bus, "roman").await;
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    next_is(&mut tony_inbox, &word(&roman, "tony").await).await;
    next_is(&mut inbox, &word(&tony, "roman").await).await; // and roman is notified once
    bus.stop().await;
}

#[tokio::test]
async fn watched_task_that_expires_ends_for_its_requester() {
    let folder = folder();
    let bus = start(&folder, quick());
    let roman = bus.connect("roman").await.unwrap();
    absent(&bus, "tony").await;
    let mut work = roman.request_task("tony", with_deadline()).await.unwrap();
    let error = work.result_within(SOON).await.unwrap_err();
    assert!(
        matches!(&error, TaskError::Undelivered { reason } if reason.contains("deadline passed")),
        "{error}"
    );
    let bus = restart(bus, &folder, quick()).await;
    assert_eq!(state(&bus, work.task_id()).await, AssignmentState::Failed);
    bus.stop().await;
}

#[tokio::test]
async fn late_task_is_marked_both_sides_are_notified_once_and_the_late_answer_counts() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (roman, mut inbox) = listener(&bus, "roman").await;
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    let asked = roman.send_task_request("tony", with_deadline()).await.unwrap();
    let id = asked.task_id().unwrap();
    let delivery = next(&mut tony_inbox).await;
    tony.accept(&delivery).await.unwrap();
    assert_eq!(payload(&next(&mut inbox).await)["action"], "accepted");
    for inbox in [&mut inbox, &mut tony_inbox] {
        let text = next_notice(inbox, asked.correlation_id()).await;
        assert!(text.contains("deadline") && text.contains("still with tony"), "{text}");
    }
    let overdue = task(&bus, id).await;
    assert_eq!((overdue.state, overdue.overdue), (AssignmentState::Accepted, true));

    let bus = restart(bus, &folder, quick()).await;
    assert_eq!(task(&bus, id).await, overdue);
    assert!(events(&bus, asked.seq().unwrap()).contains(&"overdue".to_owned()));
    let (roman, mut inbox) = listener(&bus, "roman").await;
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    next_is(&mut tony_inbox, &word(&roman, "tony").await).await;
    let late = tony.complete(&delivery, "Late, but done").await.unwrap();
    next_is(&mut inbox, &late).await;
    assert_eq!(state(&bus, id).await, AssignmentState::Completed);
    bus.stop().await;
}

#[tokio::test]
async fn a_request_in_its_handlers_hands_is_overdue_and_not_expired() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (roman, mut inbox) = listener(&bus, "roman").await;
    // Tony's handler takes the request and sends nothing until the notice has come.
    let (begun, mut has_begun) = unbounded_channel();
    bus.attach("tony", move |delivery: Delivery| {
        let begun = begun.clone();
        async move {
            begun.send(delivery).ok();
            std::future::pending::<()>().await;
        }
    })
    .await
    .unwrap();
    let asked = roman.send_task_request("tony", with_deadline()).await.unwrap();
    let id = asked.task_id().unwrap();
    let delivery = next(&mut has_begun).await;
    next_notice(&mut inbox, asked.correlation_id()).await;
    let overdue = task(&bus, id).await;
    assert_eq!((overdue.state, overdue.overdue), (AssignmentState::Requested, true));
    bus.stop_within(Duration::from_millis(10)).await;

    // It was not ended, so it is redelivered, although its deadline has passed.
    let bus = start(&folder, quick());
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    let mut received = [next(&mut tony_inbox).await, next(&mut tony_inbox).await];
    received.sort_by_key(|delivery| delivery.seq);
    assert_eq!(received[0].seq, delivery.seq);
    assert_eq!(received[1].sender.as_str(), "system");
    tony.complete(&delivery, "Late, but done").await.unwrap();
    assert_eq!(state(&bus, id).await, AssignmentState::Completed);
    bus.stop().await;
}

#[tokio::test]
async fn a_deadline_that_passes_while_the_bus_is_down_is_noticed_when_it_is_back() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (roman, _) = listener(&bus, "roman").await;
    absent(&bus, "tony").await;
    let asked = roman.send_task_request("tony", with_deadline()).await.unwrap();
    let bus = restart(bus, &folder, quick()).await;
    let (roman, mut inbox) = listener(&bus, "roman").await;
    next_notice(&mut inbox, asked.correlation_id()).await;
    assert_eq!(state(&bus, asked.task_id().unwrap()).await, AssignmentState::Failed);
    let (_tony, mut tony_inbox) = listener(&bus, "tony").await;
    next_is(&mut tony_inbox, &word(&roman, "tony").await).await;
    bus.stop().await;
}

/// A ledger that calls a task overdue after a moment without news.
fn impatient() -> BusSettings {
    let mut settings = quick();
    settings.ledger.overdue_after = Some(SHORTLY);
    settings
}

#[tokio::test]
async fn unanswered_task_is_flagged_once_and_both_sides_are_notified() {
    let folder = folder();
    let bus = start(&folder, impatient());
    let (roman, mut inbox) = listener(&bus, "roman").await;
    let (_tony, mut tony_inbox) = listener(&bus, "tony").await;
    let asked = roman.send_task_request("tony", small_task()).await.unwrap();
    let id = asked.task_id().unwrap();
    // Tony acknowledges the request, and sends nothing.
    let delivery = next(&mut tony_inbox).await;
    for inbox in [&mut inbox, &mut tony_inbox] {
        let text = next_notice(inbox, asked.correlation_id()).await;
        assert!(text.contains("no news") && text.contains("still with tony"), "{text}");
    }
    let overdue = task(&bus, id).await;
    assert_eq!((overdue.state, overdue.overdue), (AssignmentState::Requested, true));
    assert_eq!(bus.system().load().await.unwrap().overdue_tasks, 1);
    assert_eq!(bus.system().stats().overdue(), 1);
    // A restart keeps the mark, and no agent is notified again.
    let bus = restart(bus, &folder, impatient()).await;
    assert_eq!(task(&bus, id).await, overdue);
    let (roman, mut inbox) = listener(&bus, "roman").await;
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    next_is(&mut tony_inbox, &word(&roman, "tony").await).await;
    next_is(&mut inbox, &word(&tony, "roman").await).await;
    // News takes the mark away; the next silence sets it again.
    let accepted = tony.accept(&delivery).await.unwrap();
    assert!(!task(&bus, id).await.overdue);
    next_is(&mut inbox, &accepted).await;
    next_notice(&mut inbox, asked.correlation_id()).await;
    assert!(task(&bus, id).await.overdue);
    let marks = events(&bus, asked.seq().unwrap());
    assert_eq!(marks.iter().filter(|event| *event == "overdue").count(), 2, "{marks:?}");
    tony.complete(&delivery, "Late, but done").await.unwrap();
    let done = task(&bus, id).await;
    assert_eq!((done.state, done.overdue), (AssignmentState::Completed, false));
    bus.stop().await;
}

/// What is overdue over HTTP and in the command.
#[tokio::test]
async fn overdue_tasks_are_listed() {
    let folder = folder();
    let bus = start(&folder, impatient());
    let (roman, mut inbox) = listener(&bus, "roman").await;
    let (_tony, _tony_inbox) = listener(&bus, "tony").await;
    let asked = roman.send_task_request("tony", small_task()).await.unwrap();
    next_notice(&mut inbox, asked.correlation_id()).await;
    bus.stop().await;
    let server = crate::server::Server::start(folder.path());
    let fresh = crate::log_http::task("roman", "tony", "Begun a moment ago");
    server.accepted(&fresh);
    let list = |query: &str| server.get(&format!("/bus/tasks?{query}")).body["tasks"].take();
    assert_eq!(list("").as_array().unwrap().len(), 2);
    let overdue = list("overdue=true");
    assert_eq!(overdue[0]["taskId"], asked.task_id().unwrap().to_string(), "{overdue}");
    assert_eq!((overdue.as_array().unwrap().len(), &overdue[0]["overdue"]), (1, &true.into()));
    assert_eq!(list("overdue=false").as_array().unwrap().len(), 1);
    assert_eq!(server.get("/bus/tasks?overdue=perhaps").status, 400);
    let mut command = crate::openclaw_a2a();
    command.args(["task", "list", "--overdue", "--state-dir"]).arg(folder.path());
    let printed = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert_eq!(printed.lines().count(), 2, "{printed}");
    assert!(
        printed.contains("overdue") && printed.contains(&asked.task_id().unwrap().to_string()),
        "{printed}"
    );
}
