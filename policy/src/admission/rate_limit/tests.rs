//! Rate limits on a virtual clock.

use super::*;
use crate::Audience::{Many, One};
use a2a_protocol::Priority::{Normal, Urgent};

fn at(ms: u64) -> Now {
    Now { utc: chrono::DateTime::UNIX_EPOCH, uptime: Duration::from_millis(ms) }
}

fn id(name: &str) -> AgentId {
    name.parse().unwrap()
}

#[test]
fn retry_after_is_exact_and_refusal_costs_nothing() {
    let mut limits = RateLimits::new(RateSettings::default());
    let (roman, tim) = (id("roman"), id("tim"));
    let tim = One(&tim);
    for _ in 0..20 {
        limits.charge(&roman, tim, Normal, at(0)).unwrap();
    }
    let refused = limits.charge(&roman, tim, Normal, at(0)).unwrap_err();
    assert_eq!(refused.retry_after, Duration::from_secs(1));
    for _ in 0..1_000 {
        assert!(limits.charge(&roman, tim, Normal, at(999)).is_err());
    }
    limits.charge(&roman, tim, Normal, at(1_000)).unwrap();
    assert!(limits.charge(&roman, tim, Normal, at(1_000)).is_err());
}

#[test]
fn refusals_are_limited_by_themselves() {
    let mut limits = RateLimits::new(RateSettings::default());
    let (roman, tim) = (id("roman"), id("tim"));
    for _ in 0..1_000 {
        limits.charge_refusal(&roman, at(0)).unwrap();
    }
    let limited = limits.charge_refusal(&roman, at(0)).unwrap_err();
    assert_eq!(limited.retry_after, Duration::from_millis(100));
    assert!(limits.wait_after_refusals(&roman, at(99)).is_some());
    limits.charge_refusal(&roman, at(100)).unwrap();
    limits.charge_refusal(&tim, at(0)).unwrap();
    limits.charge(&roman, One(&tim), Normal, at(0)).unwrap();
}

#[test]
fn bytes_have_a_bucket_of_their_own() {
    let n = |n| NonZeroU32::new(n).unwrap();
    let settings = RateSettings {
        a2a_bytes_per_minute: n(60_000),
        a2a_byte_burst: n(10_000),
        ..RateSettings::default()
    };
    let mut limits = RateLimits::new(settings);
    let roman = id("roman");
    limits.charge_bytes(&roman, 0, at(0)).unwrap();
    limits.charge_bytes(&roman, 4_000, at(0)).unwrap();
    limits.charge_bytes(&roman, 6_000, at(0)).unwrap();
    let refused = limits.charge_bytes(&roman, 2_000, at(0)).unwrap_err();
    assert_eq!(refused.retry_after, Duration::from_secs(2));
    assert!(refused.limit.contains("60000 bytes a minute"), "{refused}");
    // A refusal costs nothing, and other senders are not limited.
    limits.charge_bytes(&roman, 2_000, at(2_000)).unwrap();
    limits.charge_bytes(&id("tony"), 10_000, at(0)).unwrap();
    // More than the burst passes when the bucket is full.
    assert!(limits.charge_bytes(&roman, usize::MAX, at(11_999)).is_err());
    limits.charge_bytes(&roman, usize::MAX, at(12_000)).unwrap();
}

#[test]
fn refusal_reports_the_longest_wait() {
    let mut limits = RateLimits::new(RateSettings::default());
    let roman = id("roman");
    for i in 0..12 {
        limits.charge(&roman, One(&id(&format!("a{i}"))), Urgent, at(0)).unwrap();
    }
    let refused = limits.charge(&roman, One(&id("tim")), Urgent, at(0)).unwrap_err();
    assert_eq!(refused.retry_after, Duration::from_secs(5));
    assert!(refused.limit.contains("urgent"), "{refused}");
    limits.charge(&roman, One(&id("tim")), Normal, at(0)).unwrap();
}

#[test]
fn agent_limit_counts_all_recipients_and_no_other_sender() {
    let mut limits = RateLimits::new(RateSettings::default());
    for i in 0..40 {
        limits.charge(&id("roman"), One(&id(&format!("a{i}"))), Normal, at(0)).unwrap();
    }
    let refused = limits.charge(&id("roman"), One(&id("tim")), Normal, at(0)).unwrap_err();
    assert_eq!(refused.retry_after, Duration::from_millis(500));
    limits.charge(&id("tony"), One(&id("tim")), Normal, at(0)).unwrap();
}

#[test]
fn a_fan_out_costs_in_proportion_and_never_more_than_the_burst() {
    let mut limits = RateLimits::new(RateSettings::default());
    let many = Many(1_000);
    limits.charge(&id("roman"), many, Normal, at(0)).unwrap(); // 11 of 40
    limits.charge(&id("roman"), many, Normal, at(0)).unwrap();
    limits.charge(&id("roman"), many, Normal, at(0)).unwrap();
    assert!(limits.charge(&id("roman"), many, Normal, at(0)).is_err());
    let crowd = Many(10_000);
    limits.charge(&id("tony"), crowd, Normal, at(0)).unwrap();
    assert!(limits.charge(&id("tony"), One(&id("tim")), Normal, at(0)).is_err());
}

#[test]
fn memory_stays_bounded_after_millions_of_keys() {
    let settings = RateSettings { max_keys: 10_000, ..RateSettings::default() };
    let mut limits = RateLimits::new(settings);
    for i in 0..1_000_000u64 {
        limits.charge(&id(&format!("a{i}")), One(&id("tim")), Normal, at(i / 100)).unwrap();
        assert!(limits.keys() <= 2 * 10_000, "{i}");
    }
}

#[test]
fn eviction_keeps_buckets_that_owe_most() {
    let settings = RateSettings { max_keys: 4_096, ..RateSettings::default() };
    let mut limits = RateLimits::new(settings);
    for _ in 0..20 {
        limits.charge(&id("flooder"), One(&id("tim")), Normal, at(0)).unwrap();
    }
    for i in 0..20_000u64 {
        limits.charge(&id(&format!("a{i}")), One(&id("tim")), Normal, at(1)).unwrap();
    }
    assert!(limits.charge(&id("flooder"), One(&id("tim")), Normal, at(1)).is_err());
}

#[test]
fn reconfigure_keeps_usage_and_leaves_idle_senders_full() {
    let n = |n: u32| NonZeroU32::new(n).unwrap();
    let before = RateSettings::default();
    // After 15 of 20 to one agent, this many more pass at once under the new limits.
    for (after, left) in [
        (before, 5),
        (RateSettings { pair_burst: n(30), ..before }, 15),
        (RateSettings { pair_burst: n(10), ..before }, 0),
        (RateSettings { per_pair_per_minute: n(6), ..before }, 5),
        (RateSettings { per_pair_per_minute: n(600), ..before }, 5),
    ] {
        let mut limits = RateLimits::new(before);
        let tim = id("tim");
        let send = |limits: &mut RateLimits, from: &str| {
            limits.charge(&id(from), One(&tim), Normal, at(1_000)).is_ok()
        };
        assert_eq!((0..15).filter(|_| send(&mut limits, "roman")).count(), 15);
        limits.reconfigure(after, at(1_000));
        assert_eq!((0..40).filter(|_| send(&mut limits, "roman")).count(), left, "{after:?}");
        let fresh = after.pair_burst.get() as usize;
        assert_eq!((0..40).filter(|_| send(&mut limits, "main")).count(), fresh, "{after:?}");
    }
}

#[test]
fn a_bucket_that_became_smaller_is_empty_and_no_more_than_that() {
    let n = |n: u32| NonZeroU32::new(n).unwrap();
    let mut limits = RateLimits::new(RateSettings::default());
    let (roman, tim) = (id("roman"), id("tim"));
    for _ in 0..20 {
        limits.charge(&roman, One(&tim), Normal, at(0)).unwrap();
    }
    let slow =
        RateSettings { pair_burst: n(2), per_pair_per_minute: n(30), ..RateSettings::default() };
    limits.reconfigure(slow, at(0));
    let refused = limits.charge(&roman, One(&tim), Normal, at(0)).unwrap_err();
    assert_eq!(refused.retry_after, Duration::from_secs(2));
    assert!(refused.limit.contains("30 messages"), "{refused}");
}
