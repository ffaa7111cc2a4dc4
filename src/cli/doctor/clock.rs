//! Check of the clock: later than every record, and equal to the server's.

use std::path::Path;

use a2a_journal::newest_time;
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

use super::finding::Finding;
use crate::cli::server::Server;

const NAME: &str = "clock";
const SET_IT: &str = "set the clock, best by a time service: timedatectl set-ntp true";
/// Tolerated difference between two clocks.
const NEAR: TimeDelta = TimeDelta::seconds(2);
/// The bus refuses messages with timestamps further ahead of its clock.
const REFUSED: TimeDelta = TimeDelta::minutes(5);
/// Resolution of the `Date` header: whole seconds, updated twice a second.
const DATE_SPAN: TimeDelta = TimeDelta::milliseconds(1_500);

/// Compares the clock of this machine with the newest record.
pub(super) fn check(state: &Path) -> Finding {
    let program = std::env::current_exe().and_then(std::fs::metadata);
    let made = program.and_then(|program| program.modified()).ok().map(DateTime::<Utc>::from);
    match newest_time(state) {
        Ok(newest) => judge(Utc::now(), made, newest),
        Err(error) => Finding::warning(
            NAME,
            format!("the time of the newest record cannot be read: {error}"),
            "run this as the user that the server runs as",
        ),
    }
}

fn judge(
    now: DateTime<Utc>,
    made: Option<DateTime<Utc>>,
    newest: Option<DateTime<Utc>>,
) -> Finding {
    if let Some(made) = made.filter(|made| *made - now > NEAR) {
        let detail = format!(
            "it is {} by this clock, before this program was made ({})",
            shown(now),
            shown(made)
        );
        return Finding::problem(NAME, detail, SET_IT);
    }
    let Some(newest) = newest else {
        return Finding::ok(NAME, format!("{}; there is no record to compare it with", shown(now)));
    };
    let behind = newest - now;
    let detail = || {
        let seconds = behind.num_seconds();
        format!("{} is {seconds} s before the newest record ({})", shown(now), shown(newest))
    };
    if behind > REFUSED {
        let refused = "; messages of agents whose clock is right are refused";
        return Finding::problem(NAME, detail() + refused, SET_IT);
    }
    if behind > NEAR {
        return Finding::warning(NAME, detail(), SET_IT);
    }
    Finding::ok(NAME, format!("{}, after the newest record ({})", shown(now), shown(newest)))
}

/// Compares the clock of this machine with the server's.
pub(super) fn against(server: &Server) -> Finding {
    const NAME: &str = "server-clock";
    let before = Utc::now();
    let answer = server.get("/healthz", &[], &[]);
    let after = Utc::now();
    let date = answer.ok().and_then(|answer| {
        let date = answer.headers().get("date")?.to_str().ok()?.to_owned();
        DateTime::parse_from_rfc2822(&date).ok()
    });
    let Some(date) = date else {
        let next = "see whether something stands between this program and the server";
        return Finding::warning(NAME, "the server's answer has no date", next);
    };
    let apart = apart(date.to_utc(), before, after);
    if apart.abs() <= NEAR {
        return Finding::ok(NAME, "the server's clock is like this one");
    }
    let word = if apart > TimeDelta::zero() { "behind" } else { "ahead of" };
    let seconds = apart.abs().num_seconds();
    let detail = format!("the server's clock is {seconds} s {word} this one");
    let next = "set both by a time service; what is sent more than 5 minutes ahead of the server's clock is refused";
    Finding::warning(NAME, detail, next)
}

/// How far a date, received between two instants, is behind them; negative when it is ahead.
fn apart(date: DateTime<Utc>, before: DateTime<Utc>, after: DateTime<Utc>) -> TimeDelta {
    let latest = date + DATE_SPAN;
    if before > latest {
        before - latest
    } else if after < date {
        after - date
    } else {
        TimeDelta::zero()
    }
}

fn shown(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

#[cfg(test)]
mod tests {
    use super::super::finding::FindingState;
    use super::*;

    fn at(ms: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(1_771_698_600_000 + ms).unwrap()
    }

    #[test]
    fn clock_before_the_newest_record_is_reported() {
        for (made, newest, state, word) in [
            (None, None, FindingState::Ok, "no record"),
            (Some(0), Some(-5_000), FindingState::Ok, "after the newest"),
            (Some(1_000), Some(1_000), FindingState::Ok, "after the newest"),
            (Some(60_000), None, FindingState::Problem, "before this program was made"),
            (Some(0), Some(60_000), FindingState::Warning, "60 s before the newest"),
            (Some(0), Some(301_000), FindingState::Problem, "refused"),
        ] {
            let found = judge(at(0), made.map(at), newest.map(at));
            assert_eq!(found.state, state, "{found:?}");
            assert!(found.detail.contains(word), "{found:?}");
            assert_eq!(found.next.is_some(), state != FindingState::Ok, "{found:?}");
        }
    }

    #[test]
    fn date_header_resolution_is_tolerated() {
        let ms = |date, before, after| apart(at(date), at(before), at(after)).num_milliseconds();
        assert_eq!(ms(0, 0, 0), 0);
        assert_eq!(ms(0, 1_500, 1_600), 0);
        assert_eq!(ms(0, 4_500, 4_600), 3_000);
        assert_eq!(ms(5_000, 0, 1_000), -4_000);
        assert_eq!(ms(5_000, 0, 6_000), 0, "the answer took long");
    }
}
