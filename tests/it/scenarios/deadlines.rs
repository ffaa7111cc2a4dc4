//! Deadlines: what nobody began in time is over, what somebody works on goes on, marked. The
//! moments lie a little ahead, and the tests wait for what the bus says about them.

use a2a_protocol::TaskState;
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
async fn a_task_nobody_takes_in_time_expires_and_is_never_handed_out() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (roman, mut hears) = listener(&bus, "roman").await;
    absent(&bus, "tony").await;
    let asked = roman.send_task_request("tony", with_deadline()).await.unwrap();
    let id = asked.task_id().unwrap();
    assert_eq!(state(&bus, id).await, TaskState::Requested);
    let text = next_notice(&mut hears, asked.correlation_id()).await;
    assert!(text.contains("deadline passed"), "{text}");
    let expired = task(&bus, id).await;
    assert_eq!((expired.state, expired.overdue), (TaskState::Failed, false));
    let (_tony, mut tony_hears) = listener(&bus, "tony").await;
    next_is(&mut tony_hears, &word(&roman, "tony").await).await;

    let bus = restart(bus, &folder, quick()).await;
    assert_eq!(task(&bus, id).await, expired);
    assert_eq!(events(&bus, asked.seq().unwrap()), ["expired"]);
    let (roman, mut hears) = listener(&bus, "roman").await;
    let (tony, mut tony_hears) = listener(&bus, "tony").await;
    next_is(&mut tony_hears, &word(&roman, "tony").await).await;
    next_is(&mut hears, &word(&tony, "roman").await).await; // and roman is told once
    bus.stop().await;
}

#[tokio::test]
async fn a_watched_task_that_expires_ends_for_whoever_asked() {
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
    assert_eq!(state(&bus, work.task_id()).await, TaskState::Failed);
    bus.stop().await;
}

#[tokio::test]
async fn a_task_being_worked_on_is_marked_both_are_told_once_and_the_late_answer_counts() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (roman, mut hears) = listener(&bus, "roman").await;
    let (tony, mut tony_hears) = listener(&bus, "tony").await;
    let asked = roman.send_task_request("tony", with_deadline()).await.unwrap();
    let id = asked.task_id().unwrap();
    let letter = next(&mut tony_hears).await;
    tony.accept(&letter).await.unwrap();
    assert_eq!(payload(&next(&mut hears).await)["action"], "accepted");
    for hears in [&mut hears, &mut tony_hears] {
        let text = next_notice(hears, asked.correlation_id()).await;
        assert!(text.contains("deadline") && text.contains("still with tony"), "{text}");
    }
    let overdue = task(&bus, id).await;
    assert_eq!((overdue.state, overdue.overdue), (TaskState::Accepted, true));

    let bus = restart(bus, &folder, quick()).await;
    assert_eq!(task(&bus, id).await, overdue);
    assert!(events(&bus, asked.seq().unwrap()).contains(&"overdue".to_owned()));
    let (roman, mut hears) = listener(&bus, "roman").await;
    let (tony, mut tony_hears) = listener(&bus, "tony").await;
    next_is(&mut tony_hears, &word(&roman, "tony").await).await;
    let late = tony.complete(&letter, "Late, but done").await.unwrap();
    next_is(&mut hears, &late).await;
    assert_eq!(state(&bus, id).await, TaskState::Completed);
    bus.stop().await;
}

#[tokio::test]
async fn a_request_in_its_handlers_hands_is_overdue_and_not_expired() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (roman, mut hears) = listener(&bus, "roman").await;
    // Tony's handler takes the request and says nothing until the notice has come.
    let (begun, mut has_begun) = unbounded_channel();
    bus.attach("tony", move |letter: Letter| {
        let begun = begun.clone();
        async move {
            begun.send(letter).ok();
            std::future::pending::<()>().await;
        }
    })
    .await
    .unwrap();
    let asked = roman.send_task_request("tony", with_deadline()).await.unwrap();
    let id = asked.task_id().unwrap();
    let letter = next(&mut has_begun).await;
    next_notice(&mut hears, asked.correlation_id()).await;
    let overdue = task(&bus, id).await;
    assert_eq!((overdue.state, overdue.overdue), (TaskState::Requested, true));
    bus.stop_within(Duration::from_millis(10)).await;

    // It was not ended, so it comes again, although its deadline has passed.
    let bus = start(&folder, quick());
    let (tony, mut tony_hears) = listener(&bus, "tony").await;
    let mut heard = [next(&mut tony_hears).await, next(&mut tony_hears).await];
    heard.sort_by_key(|letter| letter.seq);
    assert_eq!(heard[0].seq, letter.seq);
    assert_eq!(heard[1].sender.as_str(), "system");
    tony.complete(&letter, "Late, but done").await.unwrap();
    assert_eq!(state(&bus, id).await, TaskState::Completed);
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
    let (roman, mut hears) = listener(&bus, "roman").await;
    next_notice(&mut hears, asked.correlation_id()).await;
    assert_eq!(state(&bus, asked.task_id().unwrap()).await, TaskState::Failed);
    let (_tony, mut tony_hears) = listener(&bus, "tony").await;
    next_is(&mut tony_hears, &word(&roman, "tony").await).await;
    bus.stop().await;
}
