//! What stops a conversation and what does not: a person always can, and honest work that takes
//! two hundred messages never does.

use a2a_protocol::{AssignmentState, ReviewState};
use openclaw_a2a::{CircuitKey, NewReview, ReviewAnswer, TripReason};

use super::*;

#[tokio::test]
async fn a_person_stops_even_a_conversation_that_makes_progress_until_it_is_reset() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (roman, mut inbox) = listener(&bus, "roman").await;
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    let asked = roman.send_task_request("tony", small_task()).await.unwrap();
    let (id, talk) = (asked.task_id().unwrap(), asked.correlation_id());
    let delivery = next(&mut tony_inbox).await;
    tony.accept(&delivery).await.unwrap();
    assert_eq!(payload(&next(&mut inbox).await)["action"], "accepted");

    let key = CircuitKey::Correlation(talk);
    let view = bus.trip_circuit(key.clone(), "David wants to look at it").await.unwrap();
    assert_eq!((view.circuit.reason, view.retry_after_ms), (TripReason::Manual, None));
    assert_eq!(view.circuit.participants, [super::id("roman"), super::id("tony")]);
    for inbox in [&mut inbox, &mut tony_inbox] {
        let text = next_notice(inbox, talk).await;
        assert!(text.contains("David wants to look at it"), "{text}");
        assert!(text.contains("until a person resets it"), "{text}");
    }
    let stopped = tony.complete(&delivery, "Done").await.unwrap_err();
    assert_eq!(stopped.outcome(), Some(Outcome::CircuitOpen));
    assert_eq!(stopped.retry_after(), None, "only a person can let it go on");

    let bus = restart(bus, &folder, quick()).await;
    let (roman, mut inbox) = listener(&bus, "roman").await;
    let (tony, mut tony_inbox) = listener(&bus, "tony").await;
    let stopped = tony.complete(&delivery, "Done").await.unwrap_err();
    assert_eq!(stopped.outcome(), Some(Outcome::CircuitOpen));
    assert_eq!(state(&bus, id).await, AssignmentState::Accepted);
    // Another task of the same two continues, and neither is notified again.
    let other = roman.send_task_request("tony", small_task()).await.unwrap();
    let other_delivery = next(&mut tony_inbox).await;
    assert_eq!(Some(other_delivery.seq), other.seq());
    next_is(&mut inbox, &tony.complete(&other_delivery, "Done").await.unwrap()).await;

    assert!(bus.reset_circuit(&key).await);
    next_is(&mut inbox, &tony.complete(&delivery, "Done").await.unwrap()).await;
    assert_eq!(state(&bus, id).await, AssignmentState::Completed);
    bus.stop().await;
}

#[tokio::test]
async fn review_of_eight_rounds_in_the_same_words_passes_and_one_without_end_is_cut() {
    let folder = folder();
    let settings = || BusSettings { agents: team(), ..quick() };
    let mut bus = start(&folder, settings());
    let claire = bus.connect("claire").await.unwrap();
    let (roman, mut roman_inbox) = listener(&bus, "roman").await;
    let asked = claire.send_task_request("roman", small_task()).await.unwrap();
    let delivery = next(&mut roman_inbox).await;
    roman.accept(&delivery).await.unwrap();
    let id = asked.task_id().unwrap();
    roman.detach();
    let mut rounds = 0;
    let refused = loop {
        if rounds == 4 {
            bus = restart(bus, &folder, settings()).await;
        }
        // One session each: they come for their part and leave again.
        let (roman, mut roman_inbox) = listener(&bus, "roman").await;
        let (tony, mut tony_inbox) = listener(&bus, "tony").await;
        let review = NewReview::new(id, "Review: the router", "roman/router", "w", ["router.rs"])
            .in_conversation(asked.correlation_id());
        let said = async {
            roman.report(&delivery, "Working on what tony found").await?;
            roman.complete(&delivery, "Changed as tony asked").await?;
            roman.send_review_request("tony", review).await
        };
        if let Err(refused) = said.await {
            break refused;
        }
        let request = next(&mut tony_inbox).await;
        let verdict = ReviewAnswer::changes_requested();
        let verdict = tony.send_review_response(&request, verdict).await.unwrap();
        next_is(&mut roman_inbox, &verdict).await;
        rounds += 1;
        let task = task(&bus, id).await;
        assert_eq!(task.state, AssignmentState::Reopened);
        assert_eq!(
            task.review.map(|r| (r.state, r.round)),
            Some((ReviewState::ChangesRequested, rounds))
        );
        roman.detach();
        tony.detach();
        assert!(rounds < 40, "a review without end");
    };
    assert!(rounds >= 8, "{rounds}");
    assert_eq!(refused.receipt().map(|receipt| receipt.outcome), Some(Outcome::CircuitOpen));
    bus.stop().await;
}

/// What the breaker remembers of a conversation does not survive a restart; its tasks do.
#[tokio::test]
async fn participants_are_notified_of_a_manual_trip_even_after_a_restart() {
    let folder = folder();
    let bus = start(&folder, quick());
    let (roman, _) = listener(&bus, "roman").await;
    absent(&bus, "tony").await;
    let asked = roman.send_task_request("tony", small_task()).await.unwrap();

    let bus = restart(bus, &folder, quick()).await;
    let (_roman, mut inbox) = listener(&bus, "roman").await;
    let key = CircuitKey::Correlation(asked.correlation_id());
    let view = bus.trip_circuit(key, "David wants to look at it").await.unwrap();
    assert_eq!(view.circuit.participants, [super::id("roman"), super::id("tony")]);
    next_notice(&mut inbox, asked.correlation_id()).await;
    bus.stop().await;
}
