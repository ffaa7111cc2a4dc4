//! Memory that a million conversations use in the breaker.

use std::time::Duration;

use a2a_policy::{
    Audience, Breaker, BreakerDecision, BreakerInput, BreakerSettings, Now, SendCause, Sketch,
    WorkProgress,
};
use a2a_protocol::Kind;

use crate::{idle, sample};

const CONVERSATIONS: u64 = 1_000_000;

/// Growth of resident memory in MB after a million conversations of two messages each, with this
/// limit on tracked conversations.
pub fn megabytes(max_correlations: usize) -> f64 {
    let before = idle::resident_bytes();
    let settings = BreakerSettings {
        max_correlations,
        max_pairs: max_correlations,
        ..BreakerSettings::default()
    };
    let mut breaker = Breaker::new(settings);
    let agents: Vec<_> = (0..100).map(|i| sample::agent(&format!("agent-{i}"))).collect();
    for i in 0..CONVERSATIONS {
        let now = Now { utc: chrono::Utc::now(), uptime: Duration::from_millis(i) };
        let [a, b] = [i, i + 1].map(|i| &agents[i as usize % agents.len()]);
        let correlation = sample::new_id();
        for (from, to, content) in [(a, b, 2 * i), (b, a, 2 * i + 1)] {
            let passage = BreakerInput {
                from,
                to: Audience::One(to),
                correlation,
                kind: Kind::KnowledgeShare,
                content,
                sketch: Sketch::of_json(&content.to_be_bytes().map(|byte| b'a' + byte % 26)),
                is_news: false,
                cause: SendCause::Nothing,
                task: None,
                progress: WorkProgress::None,
            };
            assert!(matches!(breaker.check(&passage, now), BreakerDecision::Pass));
            breaker.accept(&passage, now);
        }
    }
    let after = idle::resident_bytes();
    assert!(breaker.tracked().0 <= max_correlations);
    (after - before) / 1e6
}
