use serde_json::json;
use sha2::{Digest, Sha256};

use super::{folder, started, with_tim};
use crate::server::message;

#[test]
fn a_large_refused_message_is_recorded_by_its_head_length_and_hash() {
    let folder = folder();
    let server = started(folder.path());
    let text = "x".repeat(30_000);
    let large = message("roman", "nobody", &text);
    let small = message("roman", "nobody", "short");
    assert_eq!(server.send(&large).status, 404);
    assert_eq!(server.send(&small).status, 404);
    let bytes = large.to_string();
    let log = server.whole_log(10);
    let record = log.iter().find(|record| record["messageId"] == large["messageId"]).unwrap();
    assert_eq!(record["bytes"], bytes.len());
    assert_eq!(record["sha256"], format!("{:x}", Sha256::digest(bytes.as_bytes())));
    for field in ["messageId", "correlationId", "from", "to", "type", "priority", "timestamp"] {
        assert_eq!(record["message"][field], large[field], "{field}");
    }
    assert_eq!(record["message"]["payload"], json!({ "status": large["payload"]["status"] }));
    assert!(record.to_string().len() < 4_096);
    // It is found as any other, and a small one is kept whole.
    let found = server.get("/bus/log?agent=nobody&type=status_update&outcome=unknown_recipient");
    assert_eq!(found.body["records"].as_array().unwrap().len(), 2);
    let record = log.iter().find(|record| record["messageId"] == small["messageId"]).unwrap();
    assert_eq!(record["message"], small);
    assert!(record.get("sha256").is_none());
    // One that is accepted is kept whole, however large.
    let accepted = message("roman", "tim", &text);
    server.accepted(&accepted);
    let log = server.whole_log(10);
    assert!(log.iter().any(|record| record["message"] == accepted));
}

#[test]
fn a_flood_of_large_refused_messages_leaves_the_log_small() {
    const MESSAGES: usize = 150;
    let folder = folder();
    let server = with_tim(folder.path(), "");
    // Too many violations, long values, and names that are repeated in the errors.
    let mut broken = message("roman", "tim", &"x".repeat(30_000));
    for n in 0..1_000 {
        broken[format!("{}{n}", "field".repeat(20))] = json!("y".repeat(50));
    }
    for n in 0..MESSAGES {
        let large = message("roman", "nobody", &format!("{n} {}", "x".repeat(32_000)));
        assert_eq!(server.send(&large).status, 404);
        assert_eq!(server.send(&broken).status, 422);
    }
    let log = server.whole_log(1_000);
    let refused = log.iter().filter(|record| record["outcome"] != "delivered");
    assert!(refused.count() >= MESSAGES);
    assert!(server.terminate().success());
    let days = std::fs::read_dir(folder.path().join("a2a-log")).unwrap();
    let size: u64 = days.map(|day| day.unwrap().metadata().unwrap().len()).sum();
    assert!(size < 300 * 8_192, "{size} bytes for {} MB", (MESSAGES * 160_000) >> 20);
}
