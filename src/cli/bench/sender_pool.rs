//! The agents that send. Each may say only so much a minute, so whoever has met its limit rests and
//! another goes on in its place; new ones are made only when nobody is rested.

use std::time::{Duration, Instant};

/// An agent that is sent back to work the moment it may say one thing is refused again after it.
const REST: u32 = 10;

/// The agents of one run.
pub(super) struct SenderPool {
    /// Names this run's agents.
    run: String,
    most: usize,
    /// Until when each rests; `None` for one that is at work.
    agents: Vec<Option<Instant>>,
}

impl SenderPool {
    pub(super) fn new(run: String, most: usize) -> Self {
        Self { run, most, agents: Vec::new() }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.agents.len()
    }

    /// The name of an agent by its number.
    pub(super) fn name(&self, number: usize) -> String {
        format!("bench-{}-{:03}", self.run, number + 1)
    }

    /// An agent that may send, or when one may.
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

    /// Its limit was met: it may say one thing more after `wait`.
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
    fn whoever_rested_goes_before_a_new_one() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let mut pool = SenderPool::new("x".into(), 2);
        assert_eq!(pool.take(now), Ok(0));
        pool.rest(0, second, now);
        assert_eq!(pool.take(now), Ok(1), "the first rests");
        let rested = now + second * REST;
        assert_eq!(pool.take(now), Err(Some(rested)));
        assert_eq!(pool.take(rested), Ok(0));
        assert_eq!(pool.take(rested), Err(None), "all are at work");
        assert_eq!((pool.len(), pool.name(0).as_str()), (2, "bench-x-001"));
    }
}
