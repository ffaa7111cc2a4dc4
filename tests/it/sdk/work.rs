//! The handle on a task: its updates, how it ends, and what it leaves to the handler.

use super::*;

#[tokio::test]
async fn handle_gets_acceptance_progress_and_the_result() {
    let bus = start();
    let (tim, mut tim_inbox) = listener(&bus, "tim").await;
    let (roman, mut inbox) = listener(&bus, "roman").await;
    let mut work = roman.request_task("tim", small_task()).await.unwrap();
    let delivery = next(&mut tim_inbox).await;
    assert_eq!(Some(delivery.seq), work.sent().seq());
    assert_eq!(work.correlation_id(), delivery.message.correlation_id);

    tim.accept(&delivery).await.unwrap();
    assert_eq!(update(&mut work).await, Some(TaskUpdate::Accepted));
    tim.report(&delivery, "Half way").await.unwrap();
    let Some(TaskUpdate::Progress { status, text, report }) = update(&mut work).await else {
        panic!("no progress")
    };
    assert_eq!((status, text.as_str()), (Status::InProgress, "Half way"));
    assert_eq!(report.task_id, Some(work.task_id()));
    tim.block(&delivery, "No network").await.unwrap();
    let blocked = TaskUpdate::Blocked { reason: "No network".into(), report: None };
    assert_eq!(update(&mut work).await, Some(blocked));
    tim.send_status_update(&delivery, StatusReport::blocked("Still", "No power")).await.unwrap();
    let still = update(&mut work).await;
    assert!(matches!(still, Some(TaskUpdate::Blocked { reason, .. }) if reason == "No power"));
    let done = TaskAnswer::completed("Seven").branch("b").files_changed(["f"]).field("kinds", 7);
    tim.send_task_response(&delivery, done).await.unwrap();
    let last = update(&mut work).await.unwrap();
    assert!(last.is_last() && matches!(last, TaskUpdate::Completed { .. }));
    assert_eq!(update(&mut work).await, None);
    let result = work.result().await.unwrap();
    assert_eq!((result.summary(), result.branch(), result.worktree()), ("Seven", Some("b"), None));
    assert_eq!((result.files_changed()[0].as_str(), result.next_steps().len()), ("f", 0));
    assert_eq!(result.result().unwrap().get::<u32>("kinds"), Some(7));
    assert_eq!(work.missed(), 0);

    // Whether a task that has ended may be talked about is the bus's decision.
    if tim.report(&delivery, "By the way").await.is_ok() {
        let later = next(&mut inbox).await;
        assert_eq!(json_of(&later)["payload"]["progress"], "By the way", "the end ends the handle");
    }
    bus.stop().await;
}

#[tokio::test]
async fn a_task_that_is_declined_or_fails_has_no_result() {
    let bus = start();
    bus.attach("tim", |tim: Agent, delivery: Delivery| async move {
        tim.decline(&delivery, "Not my field").await.map(drop)
    })
    .await
    .unwrap();
    bus.attach("tony", |tony: Agent, delivery: Delivery| async move {
        tony.accept(&delivery).await.map_err(|error| error.to_string())?;
        Err("the disk is full".to_owned())
    })
    .await
    .unwrap();
    let roman = bus.connect("roman").await.unwrap();
    let mut work = roman.request_task("tim", small_task()).await.unwrap();
    let declined = TaskError::Declined { reason: "Not my field".into() };
    assert_eq!(work.result_within(SOON).await, Err(declined));
    let seen = update(&mut work).await;
    assert_eq!(seen, Some(TaskUpdate::Declined { reason: "Not my field".into() }));
    assert_eq!(update(&mut work).await, None);

    let work = roman.request_task("tony", small_task()).await.unwrap();
    let updates: Vec<_> = tokio::time::timeout(SOON, work.collect()).await.unwrap();
    let failed = TaskUpdate::Failed { reason: "the disk is full".into() };
    assert_eq!(updates, [TaskUpdate::Accepted, failed]);
    bus.stop().await;
}

#[tokio::test]
async fn request_that_becomes_a_dead_letter_ends_the_handle() {
    let bus = start();
    bus.attach("tim", |delivery: Delivery| async move {
        assert!(delivery.attempt > 99, "always");
    })
    .await
    .unwrap();
    let roman = bus.connect("roman").await.unwrap();
    let mut work = roman.request_task("tim", small_task()).await.unwrap();
    let error = work.result_within(SOON).await.unwrap_err();
    assert!(matches!(&error, TaskError::Undelivered { reason } if reason.contains("dead letter")));
    assert!(matches!(update(&mut work).await, Some(TaskUpdate::Undelivered { .. })));
    assert_eq!(update(&mut work).await, None);
    bus.stop().await;
}

fn lose(delivery: &Delivery) {
    panic!("attempt {}", delivery.attempt);
}

#[tokio::test]
async fn status_of_the_bus_about_another_message_is_a_notice() {
    let bus = start();
    let (answered, mut reports) = unbounded_channel();
    let handlers = Handlers::new()
        .on_task_request(move |_, delivery, _| {
            let answered = answered.clone();
            async move { answered.send(delivery).map_err(|_| "the test has ended") }
        })
        .on_review_request(|_, delivery: Delivery, _| async move { lose(&delivery) });
    let tim = bus.attach("tim", handlers).await.unwrap();
    let roman = bus.connect("roman").await.unwrap();
    let mut work = roman.request_task("tim", small_task()).await.unwrap();
    let delivery = next(&mut reports).await;
    let review = NewReview::new(work.task_id(), "Kinds", "b", "w", ["a.rs"]);
    let lost = roman.send_review_request("tim", review).await.unwrap();
    let notice = update(&mut work).await;
    let named = lost.message_id().to_string();
    assert!(
        matches!(&notice, Some(TaskUpdate::Notice { text }) if text.contains(&named)),
        "{notice:?}"
    );
    tim.complete(&delivery, "Done").await.unwrap();
    assert_eq!(work.result_within(SOON).await.unwrap().summary(), "Done");
    bus.stop().await;
}

#[tokio::test]
async fn waiting_can_time_out_and_the_result_still_comes() {
    let bus = start();
    let (tim, mut tim_inbox) = listener(&bus, "tim").await;
    let roman = bus.connect("roman").await.unwrap();
    let mut work = roman.request_task("tim", small_task()).await.unwrap();
    let delivery = next(&mut tim_inbox).await;
    let limit = Duration::from_millis(1);
    assert_eq!(work.result_within(limit).await, Err(TaskError::TimedOut { waited: limit }));
    tim.complete(&delivery, "Late").await.unwrap();
    assert_eq!(work.result_within(SOON).await.unwrap().summary(), "Late");
    bus.stop().await;
}

#[tokio::test]
async fn without_its_handle_a_task_is_the_handlers_again() {
    let bus = start();
    let (tim, mut tim_inbox) = listener(&bus, "tim").await;
    let (roman, mut inbox) = listener(&bus, "roman").await;
    let mut work = roman.request_task("tim", small_task()).await.unwrap();
    let delivery = next(&mut tim_inbox).await;
    tim.accept(&delivery).await.unwrap();
    assert_eq!(update(&mut work).await, Some(TaskUpdate::Accepted));
    let task = work.task_id();
    drop(work);
    tim.complete(&delivery, "Done").await.unwrap();
    let rest = next(&mut inbox).await;
    assert_eq!(json_of(&rest)["payload"]["taskId"], json!(task));
    assert_eq!(json_of(&rest)["payload"]["action"], "completed");
    bus.stop().await;
}

#[tokio::test]
async fn two_tasks_of_one_agent_do_not_mix_and_strangers_have_no_say() {
    let bus = start();
    let (tim, mut tim_inbox) = listener(&bus, "tim").await;
    let tony = bus.connect("tony").await.unwrap();
    let (roman, mut inbox) = listener(&bus, "roman").await;
    let mut first = roman.request_task("tim", small_task()).await.unwrap();
    let mut second = roman.clone().request_task("tim", small_task()).await.unwrap();
    let (one, two) = (next(&mut tim_inbox).await, next(&mut tim_inbox).await);

    let forged = StatusReport::in_progress("I know better").for_task(first.task_id());
    // If the bus lets a stranger talk about the task at all, it is not to the handle.
    if tony.send_status_update("roman", forged).await.is_ok() {
        assert_eq!(next(&mut inbox).await.sender, *tony.id());
    }

    tim.report(&two, "Second").await.unwrap();
    tim.complete(&two, "Two").await.unwrap();
    tim.report(&one, "First").await.unwrap();
    tim.complete(&one, "One").await.unwrap();
    for (work, text, summary) in [(&mut first, "First", "One"), (&mut second, "Second", "Two")] {
        let progress = update(work).await;
        assert!(matches!(progress, Some(TaskUpdate::Progress { text: t, .. }) if t == text));
        assert_eq!(work.result_within(SOON).await.unwrap().summary(), summary);
    }
    assert!(inbox.try_recv().is_err());
    bus.stop().await;
}

#[tokio::test]
async fn reviews_go_to_the_handler_even_of_a_task_that_is_watched() {
    let bus = start();
    let (tim, mut tim_inbox) = listener(&bus, "tim").await;
    let (roman, mut inbox) = listener(&bus, "roman").await;
    let mut work = roman.request_task("tim", small_task()).await.unwrap();
    let delivery = next(&mut tim_inbox).await;
    let review = NewReview::new(work.task_id(), "Kinds", "b", "w", ["a.rs"]);
    tim.send_review_request(&delivery, review).await.unwrap();
    let request = next(&mut inbox).await;
    assert_eq!(request.message.kind(), Kind::ReviewRequest);
    assert_eq!(request.message.correlation_id, work.correlation_id());
    tim.complete(&delivery, "Done").await.unwrap();
    work.result_within(SOON).await.unwrap();
    bus.stop().await;
}

#[tokio::test]
async fn a_handler_can_wait_for_a_task_it_hands_on() {
    let bus = start();
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    async fn manage(
        tim: Agent,
        delivery: Delivery,
        _: TaskRequest,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        tim.accept(&delivery).await?;
        let mut work = tim.request_task("tony", small_task()).await?;
        assert_eq!(work.next().await, Some(TaskUpdate::Accepted));
        let result = work.result().await?;
        tim.complete(&delivery, result.summary()).await?;
        Ok(())
    }
    bus.attach("tim", Handlers::new().on_task_request(manage)).await.unwrap();
    let roman = bus.connect("roman").await.unwrap();
    let mut work = roman.request_task("tim", small_task()).await.unwrap();
    let delivery = next(&mut tony_inbox).await;
    tony.accept(&delivery).await.unwrap();
    tony.complete(&delivery, "By Tony").await.unwrap();
    assert_eq!(work.result_within(SOON).await.unwrap().summary(), "By Tony");
    bus.stop().await;
}

#[tokio::test]
async fn cancelled_task_is_never_answered() {
    let bus = start();
    let (begun, mut has_begun) = unbounded_channel();
    let (stopped, mut has_stopped) = unbounded_channel();
    let work = move |tim: Agent, delivery: Delivery| {
        let (begun, stopped) = (begun.clone(), stopped.clone());
        async move {
            if !matches!(delivery.message.body, Body::TaskRequest(_)) {
                return;
            }
            begun.send(()).unwrap();
            delivery.cancelled().await;
            let late = tim.complete(&delivery, "too late").await;
            stopped.send(late.map(drop)).unwrap();
        }
    };
    bus.attach("tim", work).await.unwrap();
    let roman = bus.connect("roman").await.unwrap();
    let mut first = roman.request_task("tim", small_task()).await.unwrap();
    let mut second = roman.request_task("tim", small_task()).await.unwrap();
    next(&mut has_begun).await;
    // One that waits is never seen; one at work is notified.
    second.cancel("not needed").await.unwrap();
    first.cancel("changed my mind").await.unwrap();
    assert_eq!(first.result().await, Err(TaskError::Cancelled));
    assert_eq!(second.result().await, Err(TaskError::Cancelled));
    let late = next(&mut has_stopped).await.unwrap_err();
    assert_eq!(late.outcome(), Some(Outcome::IllegalTransition));
    let again = first.cancel("twice").await.unwrap_err();
    assert!(again.to_string().contains("cancelled"), "{again}");
    bus.stop().await;
    assert!(has_begun.try_recv().is_err(), "the second never began");
}

#[tokio::test]
async fn stopping_the_bus_ends_the_waiting() {
    let bus = start();
    let (_tim, mut tim_inbox) = listener(&bus, "tim").await;
    let roman = bus.connect("roman").await.unwrap();
    let mut work = roman.request_task("tim", small_task()).await.unwrap();
    next(&mut tim_inbox).await;
    let waiting = tokio::spawn(async move { (work.result().await, work.next().await) });
    bus.stop().await;
    let (result, update) = waiting.await.unwrap();
    assert_eq!((result, update), (Err(TaskError::Stopped), None));
}

#[tokio::test]
async fn an_answer_may_come_to_another_session_of_the_same_agent() {
    let bus = start();
    let (tim, mut tim_inbox) = listener(&bus, "tim").await;
    let roman = bus.connect("roman").await.unwrap();
    let mut work = roman.request_task("tim", small_task()).await.unwrap();
    let delivery = next(&mut tim_inbox).await;
    roman.detach();
    tim.complete(&delivery, "Done").await.unwrap();
    let _again = bus.connect("roman").await.unwrap();
    assert_eq!(work.result_within(SOON).await.unwrap().summary(), "Done");
    bus.stop().await;
}
