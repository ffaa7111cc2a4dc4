use std::sync::Arc;
use std::time::Duration;

use openclaw_a2a::{Announcement, Bus, BusSettings, Delivery, Profile, Scope};
use serde_json::json;

use super::{id, mute, quick, start};
use crate::server::{Server, message};

fn crowd(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("agent-{n:03}")).collect()
}

async fn pull(bus: &Bus, agent: &str) -> Delivery {
    bus.system().pull(id(agent), 1, Duration::ZERO).await.unwrap().remove(0)
}

#[tokio::test]
async fn after_a_restart_all_recipients_and_dead_letters_share_one_parsed_message() {
    let folder = tempfile::tempdir().unwrap();
    let crowd = crowd(20);
    let agents = crowd.iter().map(|name| (id(name), Profile::default())).collect();
    let settings = BusSettings { agents, ..quick() };
    let bus = start(&folder, settings.clone());
    let roman = mute(&bus, "roman").await;
    roman.broadcast(Announcement::new(Scope::Org, "t", "To all")).await.unwrap();
    // One of the copies becomes a dead letter.
    while bus.dead_letters().await.is_empty() {
        let Ok(deliveries) = bus.system().pull(id(&crowd[0]), 1, Duration::from_millis(1)).await
        else {
            panic!("the bus runs")
        };
        for delivery in deliveries {
            let message = delivery.message.message_id;
            bus.system().reject(id(&crowd[0]), message, "no".to_owned()).await.unwrap();
        }
    }
    bus.stop().await;

    let bus = start(&folder, settings);
    let first = pull(&bus, &crowd[1]).await;
    for other in &crowd[2..] {
        let other = pull(&bus, other).await;
        assert!(Arc::ptr_eq(&first.message, &other.message), "parsed once");
        assert!(Arc::ptr_eq(&first.bytes, &other.bytes));
    }
    let dead = bus.dead_letters().await;
    let dead = dead.iter().find(|dead| dead.agent_id == id(&crowd[0])).unwrap();
    assert!(bus.retry_dead_letter(dead).await);
    let again = pull(&bus, &crowd[0]).await;
    assert!(Arc::ptr_eq(&first.message, &again.message), "the dead letter shares it");
    bus.stop().await;
}

/// What the program needs at its start beside what it needed while it ran, in kilobytes.
#[test]
fn a_pending_fan_out_takes_about_as_much_memory_after_a_restart_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let listed: String = crowd(400).iter().map(|n| format!("[[agents]]\nid = \"{n}\"\n")).collect();
    let server = Server::with_config(folder.path(), &listed);
    // 32,768 characters of four bytes each: 128 KiB.
    let text = "\u{1F980}".repeat(32_768);
    for _ in 0..5 {
        let mut sent = message("agent-000", "agent-001", "");
        sent.as_object_mut().unwrap().remove("to");
        sent["type"] = "broadcast".into();
        sent["payload"] =
            json!({ "scope": "org", "topic": "t", "message": text, "urgency": "fyi" });
        assert_eq!(server.accepted(&sent)["recipients"].as_array().unwrap().len(), 399);
    }
    let running = server.peak_memory_kb();
    assert!(server.terminate().success());
    let server = Server::start(folder.path());
    assert_eq!(server.inbox("agent-399", "").len(), 5);
    let restarted = server.peak_memory_kb();
    assert!(restarted < 2 * running, "{restarted} kB after a restart, {running} kB before");
}
