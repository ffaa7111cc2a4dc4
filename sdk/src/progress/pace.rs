//! Rate limiter of one agent's snapshots, over all of its tasks.
//!
//! The bus accepts 60 messages a minute from one agent to another and 120 from one agent in all.
//! Snapshots at the rate of the extension would exhaust that, so they use half of the smaller
//! limit, however many tasks there are.

use std::time::Duration;

/// Average interval between two snapshots of one agent: 30 a minute.
const EVERY: Duration = Duration::from_secs(2);
/// Burst, so that short work moves smoothly.
const AHEAD: u32 = 5;
/// Minimum interval between two snapshots of one task.
pub(super) const PER_TASK: Duration = Duration::from_secs(1);

/// GCRA state; times are relative to a fixed start.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Theoretical arrival time of the next snapshot.
    paid: Duration,
}

impl Pace {
    /// How long to wait before the next snapshot; `last` is the time of the task's last one.
    pub(super) fn wait(&self, last: Option<Duration>, now: Duration) -> Duration {
        let of_agent = self.paid.saturating_sub(EVERY * AHEAD);
        let of_task = last.map_or(Duration::ZERO, |last| last + PER_TASK);
        of_agent.max(of_task).saturating_sub(now)
    }

    /// Counts a snapshot.
    pub(super) fn spend(&mut self, now: Duration) {
        self.paid = self.paid.max(now) + EVERY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Snapshots in the first and in all minutes, when `tasks` have changes all the time.
    fn sent(tasks: usize, minutes: u64) -> (usize, usize) {
        let (mut pace, mut last) = (Pace::default(), vec![None; tasks]);
        let (mut first, mut all) = (0, 0);
        for now in (0..minutes * 600).map(|tenth| Duration::from_millis(tenth * 100)) {
            for last in &mut last {
                if pace.wait(*last, now).is_zero() {
                    pace.spend(now);
                    *last = Some(now);
                    all += 1;
                    first += usize::from(now < Duration::from_secs(60));
                }
            }
        }
        (first, all)
    }

    #[test]
    fn a_long_task_and_many_tasks_stay_at_half_of_the_limit() {
        for tasks in [1, 3, 50] {
            let (first, all) = sent(tasks, 30);
            assert!(first <= 36, "{tasks} tasks: {first} in the first minute");
            assert!((890..=910).contains(&all), "{tasks} tasks: {all} in half an hour");
        }
    }

    #[test]
    fn the_first_goes_at_once_and_a_second_of_the_same_task_a_second_later() {
        let seconds = Duration::from_secs;
        let mut pace = Pace::default();
        assert_eq!(pace.wait(None, seconds(9)), Duration::ZERO);
        pace.spend(seconds(9));
        assert_eq!(pace.wait(Some(seconds(9)), seconds(9)), PER_TASK);
        assert_eq!(pace.wait(None, seconds(9)), Duration::ZERO, "another task");
        for _ in 0..5 {
            pace.spend(seconds(9));
        }
        assert_eq!(pace.wait(None, seconds(9)), seconds(2), "too many tasks");
    }
}
