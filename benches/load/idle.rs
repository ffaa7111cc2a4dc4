//! Memory of an idle session.

use openclaw_a2a::{Bus, Delivery};

use crate::{route, sample};

const SESSIONS: usize = 100_000;

/// Growth of resident memory per session, with 100,000 agents attached.
pub async fn bytes_per_session() -> f64 {
    let bus = Bus::builder().in_memory().settings(sample::settings()).start();
    let bus = bus.unwrap_or_else(|error| panic!("{error}"));
    let before = resident_bytes();
    let mut agents = Vec::with_capacity(SESSIONS);
    for i in 0..SESSIONS {
        agents.push(route::attach(&bus, &format!("agent-{i}"), |_: Delivery| async {}).await);
    }
    let after = resident_bytes();
    drop(agents);
    bus.stop().await;
    (after - before) / SESSIONS as f64
}

pub fn resident_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    let kib = line.split_whitespace().nth(1).and_then(|text| text.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) * 1_024.0
}
