use std::io::Read;
use std::time::Duration;

use a2a_protocol::Outcome;
use openclaw_a2a::{Agent, Announcement, Bus, BusSettings, Profile, Scope, StatusReport};
use serde_json::{Value, json};

use super::{id, mute, quick, start};
use crate::listener::SOON;
use crate::server::{Server, message};

/// Whether roman can send tim a message of a little more than 3,000 bytes; the reason if not.
async fn send(roman: &Agent) -> Result<(), String> {
    let text = "x".repeat(2_700);
    let sent = roman.send(roman.write("tim", StatusReport::in_progress(text)).unwrap()).await;
    match sent.outcome {
        Outcome::Queued => Ok(()),
        Outcome::QueueFull => Err(sent.reason.unwrap()),
        other => panic!("{other}"),
    }
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("agent-{n}")).collect()
}

fn with(names: &[String]) -> BusSettings {
    let agents = names.iter().map(|name| (id(name), Profile::default())).collect();
    BusSettings { agents, ..quick() }
}

#[tokio::test]
async fn an_inbox_is_full_of_bytes_until_some_are_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let settings = BusSettings { inbox_bytes: 10_000, ..with(&["tim".into(), "ann".into()]) };
    let bus = start(&folder, settings);
    let roman = mute(&bus, "roman").await;
    for _ in 0..3 {
        send(&roman).await.unwrap();
    }
    let reason = send(&roman).await.unwrap_err();
    assert!(reason.contains("`tim`") && reason.contains("10000 bytes"), "{reason}");
    assert!(reason.contains("limits.inbox_mb"), "{reason}");
    let other = roman.send_status_update("ann", StatusReport::in_progress("To somebody else"));
    other.await.unwrap();

    let system = bus.system();
    let view = system.agent(id("tim")).await.unwrap();
    assert_eq!(view.pending, 3);
    assert!((9_000..10_000).contains(&view.pending_bytes), "{}", view.pending_bytes);
    let deliveries = system.pull(id("tim"), 1, Duration::ZERO).await.unwrap();
    assert!(send(&roman).await.is_err(), "it is in tim's hands");
    let load = system.load().await.unwrap();
    assert!((3_000..3_400).contains(&load.in_hands_bytes), "{load:?}");
    system.acknowledge(id("tim"), deliveries[0].message.message_id).await.unwrap();
    send(&roman).await.unwrap();
    bus.stop().await;
}

/// How many bytes the bus holds.
async fn held(bus: &Bus) -> usize {
    bus.system().load().await.unwrap().held_bytes
}

#[tokio::test]
async fn a_message_to_many_counts_once_for_all_together_and_is_kept_beyond_a_lower_limit() {
    let folder = tempfile::tempdir().unwrap();
    let crowd = names(20);
    let settings = BusSettings { pending_bytes: 10_000, ..with(&crowd) };
    let bus = start(&folder, settings.clone());
    let roman = mute(&bus, "roman").await;
    let news = || Announcement::new(Scope::Org, "t", "x".repeat(2_700));
    for _ in 0..3 {
        assert_eq!(roman.broadcast(news()).await.unwrap().recipients().len(), 20);
    }
    let refused = roman.broadcast(news()).await.unwrap_err();
    assert_eq!(refused.outcome(), Some(Outcome::QueueFull));
    assert!(refused.to_string().contains("limits.pending_mb"), "{refused}");
    assert!((9_000..10_000).contains(&held(&bus).await));
    bus.stop().await;

    let bus = start(&folder, BusSettings { pending_bytes: 5_000, ..settings });
    assert!((9_000..10_000).contains(&held(&bus).await));
    let roman = mute(&bus, "roman").await;
    assert!(roman.broadcast(news()).await.is_err());
    for name in &crowd {
        let deliveries = bus.system().pull(id(name), 10, Duration::ZERO).await.unwrap();
        assert_eq!(deliveries.len(), 3, "what was accepted is kept");
        for delivery in deliveries {
            let message = delivery.message.message_id;
            bus.system().acknowledge(id(name), message).await.unwrap();
        }
    }
    assert_eq!(held(&bus).await, 0);
    roman.broadcast(news()).await.unwrap();
    bus.stop().await;
}

#[tokio::test]
async fn beyond_their_bytes_the_oldest_dead_letters_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let settings = BusSettings { max_dead_letter_bytes: 10_000, ..with(&["tim".into()]) };
    let bus = start(&folder, settings);
    let roman = mute(&bus, "roman").await;
    let mut seqs = Vec::new();
    for _ in 0..6 {
        let report = StatusReport::in_progress("x".repeat(2_700));
        seqs.extend(roman.send_status_update("tim", report).await.unwrap().seq());
    }
    for _ in 0..3 * seqs.len() {
        for delivery in bus.system().pull(id("tim"), 1, SOON).await.unwrap() {
            let message = delivery.message.message_id;
            bus.system().reject(id("tim"), message, "no".to_owned()).await.unwrap();
        }
    }
    let kept: Vec<_> = bus.dead_letters().await.iter().map(|dead| dead.seq).collect();
    assert_eq!(kept, seqs[3..]);
    bus.stop().await;
}

#[test]
fn bytes_of_inboxes_are_limited_and_shown_over_http() {
    let folder = tempfile::tempdir().unwrap();
    let config = "[[agents]]\nid = \"tim\"\n[directory]\nopen = true\n[limits]\ninbox_mb = 1\n";
    let server = Server::with_config(folder.path(), config);
    // 128,000 bytes each, so that the ninth is too much.
    let text = "\u{1F980}".repeat(32_000);
    for _ in 0..8 {
        server.accepted(&message("roman", "tim", &text));
    }
    let answer = server.send(&message("roman", "tim", &text));
    assert_eq!((answer.status, &answer.body["code"]), (503, &json!("queue_full")));
    assert!(answer.body["detail"].as_str().unwrap().contains("1048576 bytes"), "{answer:?}");
    let agent = server.get("/bus/agents/tim").body;
    assert_eq!(agent["pending"], 8);
    assert!(agent["pendingBytes"].as_u64().unwrap() > 8 * 128_000);
    let mut page = String::new();
    let mut answer = server.open("GET", "/metrics", &Value::Null).unwrap();
    answer.body_mut().as_reader().read_to_string(&mut page).unwrap();
    let waiting = "openclaw_a2a_inbox_bytes{state=\"waiting\"} 10";
    assert!(page.contains(waiting) && page.contains("openclaw_a2a_held_bytes 10"), "{page}");
}
