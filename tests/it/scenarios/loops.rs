//! Agents that answer each other for ever: their conversation is cut after a few rounds, the
//! others continue, and a person can let it continue as well.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use a2a_protocol::{CircuitScope, Kind, Receipt};
use openclaw_a2a::{CircuitKey, CircuitState, TripReason};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::*;

/// What a looping agent does not answer: notices, and words of other conversations.
type Heard = UnboundedReceiver<Delivery>;

/// Counts what goes round, answers it with `answer`, and passes on everything else.
async fn looping<F, Fut>(
    bus: &Bus,
    name: &str,
    deliveries: &Arc<AtomicUsize>,
    answer: F,
) -> (Agent, Heard)
where
    F: Fn(Agent, Delivery) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Option<Receipt>> + Send + 'static,
{
    let (received, inbox): (UnboundedSender<Delivery>, _) = unbounded_channel();
    let (deliveries, answer) = (Arc::clone(deliveries), Arc::new(answer));
    let agent = bus
        .attach(name, move |me: Agent, delivery: Delivery| {
            let (received, deliveries, answer) =
                (received.clone(), Arc::clone(&deliveries), Arc::clone(&answer));
            async move {
                let text = payload(&delivery)["progress"].as_str().unwrap_or_default().to_owned();
                if delivery.sender.as_str() == "system" || text == "Just a word" {
                    return drop(received.send(delivery));
                }
                if delivery.message.kind() == Kind::TaskResponse {
                    return;
                }
                deliveries.fetch_add(1, SeqCst);
                answer(me, delivery).await;
            }
        })
        .await
        .unwrap();
    (agent, inbox)
}

/// Answers whatever comes in the same conversation, each time in other words.
async fn answers(me: Agent, delivery: Delivery) -> Option<Receipt> {
    let text = format!("As you said: {}", payload(&delivery)["progress"].as_str().unwrap());
    let sender = delivery.sender.to_string();
    Some(me.send(remark(&me, &sender, &text, delivery.message.correlation_id)).await)
}

/// Sends the same in a new conversation.
async fn repeats_it(me: Agent, delivery: Delivery) -> Option<Receipt> {
    let same = StatusReport::in_progress("Are you done?");
    Some(me.send(me.write(delivery.sender.as_str(), same).unwrap()).await)
}

/// Both are attached, and a message of another conversation is the next that each gets.
async fn nothing_but_a_word(a: &mut (Agent, Heard), b: &mut (Agent, Heard)) {
    next_is(&mut b.1, &word(&a.0, b.0.id().as_str()).await).await;
    next_is(&mut a.1, &word(&b.0, a.0.id().as_str()).await).await;
}

#[tokio::test]
async fn endless_replies_between_two_agents_are_cut_notified_once_and_stay_cut() {
    let folder = folder();
    let bus = start(&folder, quick());
    let deliveries = Arc::new(AtomicUsize::new(0));
    let mut roman = looping(&bus, "roman", &deliveries, answers).await;
    let mut tim = looping(&bus, "tim", &deliveries, answers).await;
    nothing_but_a_word(&mut roman, &mut tim).await;
    let first = roman.0.send_status_update("tim", StatusReport::in_progress("Hello")).await;
    let talk = first.unwrap().correlation_id();
    for (_, inbox) in [&mut roman, &mut tim] {
        let text = next_notice(inbox, talk).await;
        assert!(text.contains("(loop)") && text.contains("roman → tim"), "{text}");
    }
    assert!(deliveries.load(SeqCst) <= 9, "{deliveries:?}");
    nothing_but_a_word(&mut roman, &mut tim).await;

    let circuits = bus.circuits().await;
    assert_eq!(circuits.len(), 1);
    let (circuit, key) = (&circuits[0].circuit, CircuitKey::Correlation(talk));
    assert_eq!((&circuit.key, circuit.reason, circuit.trips), (&key, TripReason::Loop, 1));
    assert_eq!(circuits[0].state, CircuitState::Open);
    assert!(circuit.evidence.contains("roman → tim → roman"), "{}", circuit.evidence);
    assert_eq!(circuit.participants, [id("roman"), id("tim")]);

    let bus = restart(bus, &folder, quick()).await;
    let (mut roman, mut tim) = (listener(&bus, "roman").await, listener(&bus, "tim").await);
    assert_eq!(bus.circuits().await[0].circuit, *circuit);
    for (from, to) in [(&roman.0, "tim"), (&tim.0, "roman")] {
        let refused = from.send(remark(from, to, "Once more", talk)).await;
        assert_eq!(refused.outcome, Outcome::CircuitOpen);
        let open = refused.circuit.unwrap();
        assert_eq!((open.scope, open.circuit), (CircuitScope::Correlation, key.to_string()));
        assert_eq!(open.since.to_utc().timestamp_millis(), circuit.since.timestamp_millis());
        assert!(refused.retry_after_ms.is_some_and(|ms| (1..=30_000).contains(&ms)));
    }
    nothing_but_a_word(&mut roman, &mut tim).await;

    assert!(bus.reset_circuit(&key).await);
    assert!(!bus.reset_circuit(&key).await, "it is closed already");
    assert!(bus.circuits().await.is_empty());
    let resume = roman.0.post(remark(&roman.0, "tim", "Once more", talk)).await.unwrap();
    next_is(&mut tim.1, &resume).await;
    let bus = restart(bus, &folder, quick()).await;
    assert!(bus.circuits().await.is_empty(), "a reset circuit stays closed");
    bus.stop().await;
}

const RING: [&str; 5] = ["roman", "tony", "sandy", "claire", "barry"];

/// Accepts the task and hands it on to the next of the ring: the same task, or one like it.
async fn hands_on(same_task: bool, me: Agent, delivery: Delivery) -> Option<Receipt> {
    me.accept(&delivery).await.unwrap();
    let place = RING.iter().position(|name| *name == me.id().as_str()).unwrap();
    let mut message = me.write(RING[(place + 1) % RING.len()], small_task()).unwrap();
    message.correlation_id = delivery.message.correlation_id;
    if same_task {
        message.body = delivery.message.body.clone();
    }
    Some(me.send(message).await)
}

async fn a_ring_is_cut(same_task: bool) {
    let folder = folder();
    let bus = start(&folder, quick());
    let deliveries = Arc::new(AtomicUsize::new(0));
    let mut ring = Vec::new();
    for name in RING {
        let hand_on = move |me, delivery| hands_on(same_task, me, delivery);
        ring.push(looping(&bus, name, &deliveries, hand_on).await);
    }
    let first = ring[0].0.send_task_request("tony", small_task()).await.unwrap();
    let talk = first.correlation_id();
    for (_, inbox) in &mut ring {
        next_notice(inbox, talk).await;
    }
    // Four rounds of five, and no more, although every one of them accepted its task.
    assert!(deliveries.load(SeqCst) <= 21, "{deliveries:?}");
    let circuits = bus.circuits().await;
    assert_eq!((circuits.len(), circuits[0].circuit.reason), (1, TripReason::Loop));
    assert_eq!(circuits[0].circuit.participants.len(), RING.len());

    let bus = restart(bus, &folder, quick()).await;
    let (roman, _) = listener(&bus, "roman").await;
    let (_tony, mut tony_inbox) = listener(&bus, "tony").await;
    let again = roman.write("tony", small_task().in_conversation(talk)).unwrap();
    assert_eq!(roman.send(again.clone()).await.outcome, Outcome::CircuitOpen);
    next_is(&mut tony_inbox, &word(&roman, "tony").await).await;
    assert!(bus.reset_circuit(&CircuitKey::Correlation(talk)).await);
    next_is(&mut tony_inbox, &roman.post(again).await.unwrap()).await;
    bus.stop().await;
}

#[tokio::test]
async fn a_ring_of_five_that_hands_one_task_on_for_ever_is_cut() {
    a_ring_is_cut(true).await;
}

#[tokio::test]
async fn a_ring_of_five_in_which_each_asks_the_next_for_a_new_task_is_cut() {
    a_ring_is_cut(false).await;
}

#[tokio::test]
async fn a_loop_that_begins_a_new_conversation_each_time_is_cut_by_its_words() {
    let folder = folder();
    let bus = start(&folder, quick());
    let deliveries = Arc::new(AtomicUsize::new(0));
    let mut roman = looping(&bus, "roman", &deliveries, repeats_it).await;
    let mut tim = looping(&bus, "tim", &deliveries, repeats_it).await;
    let question = || StatusReport::in_progress("Are you done?");
    roman.0.send_status_update("tim", question()).await.unwrap();
    for (_, inbox) in [&mut roman, &mut tim] {
        let notice = next(inbox).await;
        assert_eq!(notice.sender.as_str(), "system");
        assert!(payload(&notice)["progress"].as_str().unwrap().contains("(loop)"));
    }
    assert!(deliveries.load(SeqCst) <= 12, "{deliveries:?}");
    nothing_but_a_word(&mut roman, &mut tim).await;
    let circuits = bus.circuits().await;
    assert_eq!((circuits.len(), circuits[0].circuit.reason), (1, TripReason::Loop));
    let key = circuits[0].circuit.key.clone();
    let CircuitKey::Pair { from, to: Some(to), .. } = &key else { panic!("{key}") };

    let bus = restart(bus, &folder, quick()).await;
    let (mut one, mut other) =
        (listener(&bus, from.as_str()).await, listener(&bus, to.as_str()).await);
    let refused = one.0.send(one.0.write(to, question()).unwrap()).await;
    assert_eq!(refused.outcome, Outcome::CircuitOpen);
    assert_eq!(refused.circuit.unwrap().scope, CircuitScope::Pair);
    nothing_but_a_word(&mut one, &mut other).await;
    assert!(bus.reset_circuit(&key).await);
    let resume = one.0.send_status_update(to, question()).await.unwrap();
    next_is(&mut other.1, &resume).await;
    bus.stop().await;
}
