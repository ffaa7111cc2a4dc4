//! Leases, retries and order of an inbox.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn entry(seq: u64, by: &str) -> QueueEntry<()> {
    QueueEntry {
        seq,
        by: by.parse().unwrap(),
        priority: Priority::Normal,
        attempts: 0,
        bytes: 10,
        item: (),
    }
}

fn inbox_of(senders: &[&str]) -> Inbox<()> {
    let mut inbox = Inbox::default();
    for (seq, by) in (1..).zip(senders) {
        inbox.arrive(entry(seq, by));
    }
    inbox
}

fn next(inbox: &mut Inbox<()>, now: Duration) -> Option<u64> {
    inbox.lease(now, now + 60 * SECOND).map(|d| d.seq)
}

#[test]
fn oldest_skips_messages_in_flight() {
    let mut inbox = inbox_of(&["roman", "tim", "ann"]);
    let oldest = |inbox: &Inbox<()>| inbox.oldest().map(|entry| entry.seq);
    inbox.arrive(QueueEntry { priority: Priority::Urgent, ..entry(4, "bob") });
    assert_eq!(oldest(&inbox), Some(1));
    assert_eq!(next(&mut inbox, Duration::ZERO), Some(4));
    assert_eq!(next(&mut inbox, Duration::ZERO), Some(1));
    assert_eq!(oldest(&inbox), Some(2), "the first is in somebody's hands");
    assert_eq!((inbox.in_flight(), inbox.in_flight_bytes()), (2, 20));
    inbox.fail(1, Duration::ZERO, &RetryPolicy::default());
    assert_eq!(oldest(&inbox), Some(1), "it pauses");
    assert_eq!((inbox.in_flight(), inbox.in_flight_bytes()), (1, 10));
}

#[test]
fn failed_message_backs_off_and_becomes_a_dead_letter() {
    let mut inbox = inbox_of(&["roman"]);
    let retry = RetryPolicy::default();
    let mut now = Duration::ZERO;
    for pause_ms in [500, 2_000, 8_000, 32_000] {
        assert_eq!(next(&mut inbox, now), Some(1));
        let at = now + Duration::from_millis(pause_ms);
        assert!(
            matches!(inbox.fail(1, now, &retry), Some(AfterFailure::Retry { at: t, .. }) if t == at)
        );
        assert_eq!(inbox.next_due(), Some(at));
        assert_eq!(next(&mut inbox, at - Duration::from_nanos(1)), None);
        now = at;
    }
    assert_eq!(next(&mut inbox, now), Some(1));
    assert!(
        matches!(inbox.fail(1, now, &retry), Some(AfterFailure::DeadLetter(d)) if d.attempts == 5)
    );
    assert!(inbox.is_empty());
}

#[test]
fn later_messages_of_sender_in_backoff_wait() {
    let mut inbox = inbox_of(&["roman", "roman", "tim"]);
    assert_eq!(next(&mut inbox, Duration::ZERO), Some(1));
    inbox.fail(1, Duration::ZERO, &RetryPolicy::default());
    assert_eq!(next(&mut inbox, Duration::ZERO), Some(3));
    assert_eq!(next(&mut inbox, Duration::ZERO), None);
    assert_eq!(next(&mut inbox, SECOND), Some(1));
    assert_eq!(next(&mut inbox, SECOND), Some(2));
}

#[test]
fn messages_after_backoff_keep_their_order() {
    let quick = RetryPolicy { initial_backoff: Duration::ZERO, ..RetryPolicy::default() };
    for back in [[1, 2, 3], [3, 2, 1], [2, 3, 1]] {
        let mut inbox = inbox_of(&["roman", "roman", "roman", "roman"]);
        for fails in [true, false] {
            for seq in 1..=3 {
                assert_eq!(next(&mut inbox, SECOND), Some(seq), "{back:?}");
            }
            for seq in back {
                match fails {
                    true => drop(inbox.fail(seq, SECOND, &quick)),
                    false => inbox.put_back(seq),
                }
            }
        }
        let order: Vec<_> = std::iter::from_fn(|| next(&mut inbox, SECOND)).collect();
        assert_eq!(order, [1, 2, 3, 4], "{back:?}");
    }
}

#[test]
fn acknowledge_after_lease_expired_is_accepted() {
    let mut inbox = inbox_of(&["roman", "roman"]);
    next(&mut inbox, Duration::ZERO);
    assert!(inbox.expired_leases(59 * SECOND).is_empty());
    assert_eq!(inbox.expired_leases(60 * SECOND), [1]);
    inbox.fail(1, 60 * SECOND, &RetryPolicy::default());
    assert_eq!(inbox.acknowledge(1).map(|d| d.seq), Some(1));
    assert_eq!(next(&mut inbox, 61 * SECOND), Some(2));
    assert_eq!(inbox.acknowledge(2).map(|d| d.seq), Some(2));
    assert_eq!(inbox.acknowledge(2), None);
}

#[test]
fn next_due_may_be_too_early_but_never_too_late() {
    let mut inbox = inbox_of(&["roman", "tim", "tony"]);
    next(&mut inbox, Duration::ZERO);
    next(&mut inbox, 40 * SECOND);
    assert_eq!(inbox.next_due(), Some(60 * SECOND));
    inbox.acknowledge(1);
    assert!(inbox.next_due() <= Some(100 * SECOND));
    assert!(inbox.expired_leases(60 * SECOND).is_empty());
    assert_eq!(inbox.next_due(), Some(100 * SECOND), "whoever looks knows better");
    inbox.extend(2, 300 * SECOND);
    inbox.expired_leases(100 * SECOND);
    assert_eq!(inbox.next_due(), Some(300 * SECOND));
    inbox.acknowledge(2);
    assert_eq!(inbox.next_due(), None);
    next(&mut inbox, 400 * SECOND);
    assert_eq!(inbox.next_due(), Some(460 * SECOND), "what has ended does not count");
}

#[test]
fn peek_lists_every_state_and_changes_nothing() {
    let mut inbox = inbox_of(&["roman", "tim", "tony"]);
    next(&mut inbox, Duration::ZERO);
    next(&mut inbox, Duration::ZERO);
    inbox.fail(2, Duration::ZERO, &RetryPolicy::default());
    let listed = |inbox: &Inbox<()>| -> Vec<_> {
        inbox.peek(usize::MAX).into_iter().map(|(how, d)| (how, d.seq, d.attempts)).collect()
    };
    let first = listed(&inbox);
    let half = Duration::from_millis(500);
    let expected = [
        (DeliveryState::InFlight(60 * SECOND), 1, 1),
        (DeliveryState::BackingOff(half), 2, 1),
        (DeliveryState::Waiting, 3, 0),
    ];
    assert_eq!(first, expected);
    assert_eq!(listed(&inbox), expected);
}

#[test]
fn acknowledge_before_first_lease_is_ignored() {
    let mut inbox = inbox_of(&["roman"]);
    assert_eq!(inbox.acknowledge(1), None);
    assert_eq!(inbox.len(), 1);
}

#[test]
fn take_idle_is_bounded_and_includes_held_messages() {
    let mut inbox = inbox_of(&["roman", "roman", "tim", "roman"]);
    next(&mut inbox, Duration::ZERO);
    inbox.fail(1, Duration::ZERO, &RetryPolicy::default());
    assert_eq!(next(&mut inbox, Duration::ZERO), Some(3));
    let mut taken = |most| inbox.take_idle(most).iter().map(|d| d.seq).collect::<Vec<_>>();
    assert_eq!([taken(2), taken(2), taken(2)], [vec![1, 2], vec![4], vec![]]);
    assert_eq!((inbox.len(), inbox.next_due()), (1, Some(60 * SECOND)));
}

#[test]
fn drain_keeps_order_and_attempts() {
    let mut inbox = inbox_of(&["roman", "tim", "tony"]);
    next(&mut inbox, Duration::ZERO);
    next(&mut inbox, Duration::ZERO);
    inbox.fail(1, Duration::ZERO, &RetryPolicy::default());
    inbox.put_back(2);
    let drained: Vec<_> = inbox.drain().iter().map(|d| (d.seq, d.attempts)).collect();
    assert_eq!(drained, [(1, 1), (2, 0), (3, 0)]);
    assert!(inbox.is_empty());
}
