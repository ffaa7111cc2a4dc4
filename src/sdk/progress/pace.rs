//! Rate of one agent's progress snapshots, over all of its tasks.
//!
//! The bus accepts 60 messages a minute from one agent to another and 120 from one agent in total.
//! Snapshots at the extension's maximum rate would use all of it. They are limited to half of the
//! smaller limit, for any number of tasks.

use std::time::Duration;

/// Average interval between snapshots of one agent: 30 a minute.
const EVERY: Duration = Duration::from_secs(2);
/// Burst allowed on top, so that short tasks move smoothly.
const AHEAD: u32 = 5;
/// Minimum interval between snapshots of one task.
pub(super) const PER_TASK: Duration = Duration::from_secs(1);

/// Token bucket of one agent; times are relative to any fixed instant.
#[derive(Debug, Default)]
pub(super) struct SnapshotRate {
    /// Time at which all snapshots so far are covered by the average rate.
    paid: Duration,
}

impl SnapshotRate {
    /// Time until the next snapshot may be sent; `last` is the previous snapshot of the same task.
    pub(super) fn wait(&self, last: Option<Duration>, now: Duration) -> Duration {
        let of_agent = self.paid.saturating_sub(EVERY * AHEAD);
        let of_task = last.map_or(Duration::ZERO, |last| last + PER_TASK);
        of_agent.max(of_task).saturating_sub(now)
    }

    /// Records a snapshot.
    pub(super) fn spend(&mut self, now: Duration) {
        self.paid = self.paid.max(now) + EVERY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Snapshots in the first minute and in total, when `tasks` change continuously.
    fn sent(tasks: usize, minutes: u64) -> (usize, usize) {
        let (mut rate, mut last) = (SnapshotRate::default(), vec![None; tasks]);
        let (mut first, mut all) = (0, 0);
        for now in (0..minutes * 600).map(|tenth| Duration::from_millis(tenth * 100)) {
            for last in &mut last {
                if rate.wait(*last, now).is_zero() {
                    rate.spend(now);
                    *last = Some(now);
                    all += 1;
                    first += usize::from(now < Duration::from_secs(60));
                }
            }
        }
        (first, all)
    }

    #[test]
    fn snapshots_stay_at_half_of_the_rate_limit() {
        for tasks in [1, 3, 50] {
            let (first, all) = sent(tasks, 30);
            assert!(first <= 36, "{tasks} tasks: {first} in the first minute");
            assert!((890..=910).contains(&all), "{tasks} tasks: {all} in half an hour");
        }
    }

    #[test]
    fn first_snapshot_is_immediate_and_the_second_is_delayed() {
        let seconds = Duration::from_secs;
        let mut rate = SnapshotRate::default();
        assert_eq!(rate.wait(None, seconds(9)), Duration::ZERO);
        rate.spend(seconds(9));
        assert_eq!(rate.wait(Some(seconds(9)), seconds(9)), PER_TASK);
        assert_eq!(rate.wait(None, seconds(9)), Duration::ZERO, "another task");
        for _ in 0..5 {
            rate.spend(seconds(9));
        }
        assert_eq!(rate.wait(None, seconds(9)), seconds(2), "too many tasks");
    }
}
