//! Handlers per kind, and the one for the rest.

use super::*;

/// Notes the kind of what it gets, and whether the payload is the delivery's own.
fn note<B: Into<Body>>(
    received: &UnboundedSender<(Kind, bool)>,
) -> impl Fn(Agent, Delivery, B) -> std::future::Ready<()> + Send + Sync + 'static {
    let received = received.clone();
    move |_, delivery, body| {
        let own = body.into() == delivery.message.body;
        received.send((delivery.message.kind(), own)).unwrap();
        std::future::ready(())
    }
}

fn unreachable_kind(delivery: &Delivery) {
    panic!("{} has a handler of its own", delivery.message.kind());
}

#[tokio::test]
async fn each_kind_has_its_handler() {
    let bus = start();
    let (received, mut inbox) = unbounded_channel();
    let handlers = Handlers::new()
        .on_task_request(note::<TaskRequest>(&received))
        .on_task_response(note::<TaskResponse>(&received))
        .on_status_update(note::<StatusUpdate>(&received))
        .on_knowledge_share(note::<KnowledgeShare>(&received))
        .on_review_request(note::<ReviewRequest>(&received))
        .on_review_response(note::<ReviewResponse>(&received))
        .on_broadcast(note::<Broadcast>(&received))
        .otherwise(|delivery: Delivery| async move { unreachable_kind(&delivery) });
    let tim = bus.attach("tim", handlers).await.unwrap();
    let (roman, mut roman_inbox) = listener(&bus, "roman").await;

    let sent = roman.send_task_request("tim", small_task()).await.unwrap();
    tim.send_task_request("roman", small_task()).await.unwrap();
    let task = next(&mut roman_inbox).await;
    roman.report(&task, "Half way").await.unwrap();
    roman.complete(&task, "Done").await.unwrap();
    roman.share_knowledge(Knowledge::new("t", "d", "s").relevant_to(["tim"])).await.unwrap();
    let review = NewReview::new(sent.task_id().unwrap(), "t", "b", "w", ["f"]);
    roman.send_review_request("tim", review.clone()).await.unwrap();
    tim.send_review_request("roman", review).await.unwrap();
    let request = next(&mut roman_inbox).await;
    roman.send_review_response(&request, ReviewAnswer::approved()).await.unwrap();
    roman.broadcast(Announcement::new(Scope::Org, "t", "m")).await.unwrap();
    for kind in [
        Kind::TaskRequest,
        Kind::StatusUpdate,
        Kind::TaskResponse,
        Kind::KnowledgeShare,
        Kind::ReviewRequest,
        Kind::ReviewResponse,
        Kind::Broadcast,
    ] {
        assert_eq!(next(&mut inbox).await, (kind, true));
    }
    bus.stop().await;
}

#[tokio::test]
async fn what_no_handler_takes_goes_to_otherwise_or_is_acknowledged() {
    let bus = start();
    let (answered, mut reports) = unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let opened = Arc::clone(&gate);
    let handlers = Handlers::new()
        .on_broadcast(move |_, _, _| {
            let opened = Arc::clone(&opened);
            async move { opened.add_permits(1) }
        })
        .otherwise(move |delivery: Delivery| {
            let answered = answered.clone();
            async move { answered.send(delivery.message.kind()).map_err(|_| "the test has ended") }
        });
    bus.attach("tim", handlers).await.unwrap();
    let roman = bus.connect("roman").await.unwrap();
    roman.broadcast(Announcement::new(Scope::Org, "t", "m")).await.unwrap();
    roman.send_status_update("tim", StatusReport::completed("All")).await.unwrap();
    assert_eq!(next(&mut reports).await, Kind::StatusUpdate);
    gate.acquire().await.unwrap().forget();
    roman.send_status_update("roman", StatusReport::paused("Lunch")).await.unwrap();
    bus.stop().await;
    assert!(bus.dead_letters().await.is_empty());
}
