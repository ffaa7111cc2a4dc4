//! Pool of sending agents. One that reaches its rate limit pauses and another sends; a new
//! one is created only when none is available.

use std::time::{Duration, Instant};

/// Factor on the pause of a rate-limited agent, so that it can send several messages afterwards.
const REST: u32 = 10;

/// Sending agents of one run.
pub(super) struct SenderPool {
    /// Part of the agent ids.
    run: String,
    most: usize,
    /// End of each agent's rest; `None` while it is in use.
    agents: Vec<Option<Instant>>,
}

impl SenderPool {
    pub(super) fn new(run: String, most: usize) -> Self {
        Self { run, most, agents: Vec::new() }
    }

    /// Number of agents created.
    pub(super) fn len(&self) -> usize {
        self.agents.len()
    }

    /// Id of an agent by its index.
    pub(super) fn name(&self, number: usize) -> String {
        format!("bench-{}-{:03}", self.run, number + 1)
    }

    /// Takes an available agent, or returns the time at which one becomes available.
    pub(super) fn take(&mut self, now: Instant) -> Result<usize, Option<Instant>> {
        let rested = self.agents.iter().position(|until| until.is_some_and(|until| until <= now));
        if let Some(number) = rested {
            self.agents[number] = None;
            return Ok(number);
        }
        if self.agents.len() < self.most {
            self.agents.push(None);
            return Ok(self.agents.len() - 1);
        }
        Err(self.agents.iter().flatten().min().copied())
    }

    /// Marks an agent as rate-limited; its next message is admitted after `wait`.
    pub(super) fn rest(&mut self, number: usize, wait: Duration, now: Instant) {
        if let Some(until) = self.agents.get_mut(number) {
            *until = Some(now + wait.saturating_mul(REST));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rested_sender_is_taken_before_a_new_one() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let mut pool = SenderPool::new("x".into(), 2);
        assert_eq!(pool.take(now), Ok(0));
        pool.rest(0, second, now);
        assert_eq!(pool.take(now), Ok(1), "the first pauses");
        let rested = now + second * REST;
        assert_eq!(pool.take(now), Err(Some(rested)));
        assert_eq!(pool.take(rested), Ok(0));
        assert_eq!(pool.take(rested), Err(None), "all are at work");
        assert_eq!((pool.len(), pool.name(0).as_str()), (2, "bench-x-001"));
    }
}
