//! Progress bars of one task.

use a2a_protocol::limits::TRACKERS;
use a2a_protocol::{Progress, ProgressAggregate, ProgressTracker, TrackerStatus};
use chrono::{DateTime, SubsecRound, Utc};

/// The bars, in the order of their start.
#[derive(Debug, Clone, Default)]
pub(super) struct Trackers {
    all: Vec<ProgressTracker>,
    overall: Option<ProgressAggregate>,
    /// The bar that moved last.
    newest: Option<String>,
}

impl Trackers {
    pub(super) fn update(
        &mut self,
        id: &str,
        progress: f64,
        total: Option<f64>,
        message: String,
        now: DateTime<Utc>,
    ) {
        let tracker = self.touch(id, now);
        tracker.progress = Some(progress);
        tracker.total = total;
        tracker.message = Some(message).filter(|message| !message.is_empty());
        tracker.status = Some(TrackerStatus::Running);
    }

    pub(super) fn end(
        &mut self,
        id: &str,
        status: TrackerStatus,
        message: Option<String>,
        now: DateTime<Utc>,
    ) {
        let tracker = self.touch(id, now);
        tracker.status = Some(status);
        if status == TrackerStatus::Completed && tracker.total.is_some() {
            tracker.progress = tracker.total;
        }
        tracker.message = message.or_else(|| tracker.message.take());
    }

    pub(super) fn overall(&mut self, progress: f64, total: Option<f64>, message: Option<&str>) {
        let message = message.map(str::to_owned);
        self.overall = Some(ProgressAggregate { progress: Some(progress), total, message });
    }

    /// The bar of this name, created if needed.
    fn touch(&mut self, id: &str, now: DateTime<Utc>) -> &mut ProgressTracker {
        let now = now.trunc_subsecs(3);
        self.newest = Some(id.to_owned());
        let at = self.all.iter().position(|tracker| tracker.id == id).unwrap_or_else(|| {
            // An ended bar is evicted for a new one, whether it was sent or not.
            let is_full = self.all.len() >= TRACKERS;
            if let Some(ended) = self.all.iter().position(is_ended).filter(|_| is_full) {
                self.all.remove(ended);
            }
            let started_at = Some(now.into());
            self.all.push(ProgressTracker { started_at, ..ProgressTracker::new(id) });
            self.all.len() - 1
        });
        let tracker = &mut self.all[at];
        tracker.updated_at = Some(now.into());
        tracker
    }

    pub(super) fn snapshot(&self) -> Progress {
        Progress { trackers: self.all.clone(), aggregate: self.overall.clone() }
    }

    /// Removes the bars that ended in a snapshot that was sent.
    pub(super) fn forget_ended(&mut self, seen: &Progress) {
        self.all.retain(|tracker| !(is_ended(tracker) && seen.trackers.contains(tracker)));
    }

    /// The state as text, for clients that read only text.
    pub(super) fn in_words(&self) -> String {
        let newest = self.newest.as_deref();
        let Some(tracker) = self.all.iter().find(|tracker| Some(tracker.id.as_str()) == newest)
        else {
            return "Work continues".to_owned();
        };
        let output = tracker.message.as_deref().filter(|message| !message.trim().is_empty());
        let far = match (tracker.progress, tracker.total) {
            (Some(progress), Some(total)) => format!("{progress} of {total}"),
            (Some(progress), None) => progress.to_string(),
            _ => tracker.status.unwrap_or(TrackerStatus::Running).to_string(),
        };
        output.map_or_else(|| format!("{}: {far}", tracker.id), str::to_owned)
    }
}

fn is_ended(tracker: &ProgressTracker) -> bool {
    tracker.status.is_some_and(TrackerStatus::is_terminal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u32) -> DateTime<Utc> {
        format!("2026-02-21T18:30:{second:02}Z").parse().unwrap()
    }

    fn ids(trackers: &Trackers) -> Vec<String> {
        trackers.snapshot().trackers.iter().map(|tracker| tracker.id.clone()).collect()
    }

    #[test]
    fn a_bar_that_ended_is_seen_once() {
        let mut trackers = Trackers::default();
        trackers.update("a", 1.0, Some(4.0), String::new(), at(0));
        trackers.update("b", 2.0, None, "two".into(), at(1));
        trackers.end("a", TrackerStatus::Completed, None, at(2));
        let seen = trackers.snapshot();
        let (a, b) = (&seen.trackers[0], &seen.trackers[1]);
        assert_eq!(
            (a.progress, a.started_at, a.updated_at),
            (Some(4.0), Some(at(0).into()), Some(at(2).into()))
        );
        assert_eq!((b.status, b.total), (Some(TrackerStatus::Running), None));
        trackers.end("b", TrackerStatus::Failed, Some("full".into()), at(3));
        trackers.forget_ended(&seen);
        assert_eq!(ids(&trackers), ["b"], "its end was not seen yet");
        trackers.forget_ended(&trackers.snapshot());
        assert!(ids(&trackers).is_empty());
    }

    #[test]
    fn what_has_ended_makes_room_and_what_has_not_does_not() {
        let mut trackers = Trackers::default();
        for n in 0..20 {
            trackers.update(&n.to_string(), 0.0, None, String::new(), at(0));
        }
        trackers.end("7", TrackerStatus::Completed, None, at(1));
        trackers.update("new", 0.0, None, String::new(), at(2));
        assert!(trackers.snapshot().check().is_ok());
        assert!(!ids(&trackers).contains(&"7".to_owned()));
        trackers.update("newer", 0.0, None, String::new(), at(2));
        assert!(trackers.snapshot().check().is_err());
    }

    #[test]
    fn words_for_those_who_read_only_text() {
        let mut trackers = Trackers::default();
        assert_eq!(trackers.in_words(), "Work continues");
        trackers.update("a", 1.0, Some(4.0), String::new(), at(0));
        assert_eq!(trackers.in_words(), "a: 1 of 4");
        trackers.update("b", 2.5, None, " ".into(), at(0));
        assert_eq!(trackers.in_words(), "b: 2.5");
        trackers.update("b", 3.0, None, "three".into(), at(0));
        assert_eq!(trackers.in_words(), "three");
    }
}
