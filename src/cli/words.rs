//! How times, spans and texts of others look to people: on one line, and harmless.

use anstyle::{AnsiColor, Style};
use chrono::{DateTime, TimeDelta, Utc};

use super::stdout::harmless;

/// A text that fits a line.
pub(super) fn short(text: &str, most: usize) -> String {
    // Far more than is shown, so that a long text costs little.
    let mut shown = harmless(&text.chars().take(most + 1).collect::<String>());
    if let Some((end, _)) = shown.char_indices().nth(most) {
        shown.truncate(end);
        shown.push('…');
    }
    shown
}

/// A time of day, with its day.
pub(super) fn moment(time: DateTime<Utc>) -> String {
    time.format("%Y-%m-%d %H:%M:%S%.3f").to_string()
}

/// How long something took, in the two largest units.
pub(super) fn span(span: TimeDelta) -> String {
    let ms = span.num_milliseconds();
    let seconds = ms / 1_000;
    match seconds {
        _ if ms < 1_000 => format!("{ms} ms"),
        0..60 => format!("{seconds}.{} s", ms % 1_000 / 100),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// Green for what was accepted, yellow for what may be tried again, red for what was refused.
pub(super) fn style_of(word: &str) -> Style {
    let colour = match word {
        "delivered" | "acknowledged" => AnsiColor::Green,
        "queued" | "returned" => AnsiColor::Cyan,
        "duplicate" => AnsiColor::Blue,
        "rate_limited" | "queue_full" | "unavailable" | "attempt_failed" | "overdue" => {
            AnsiColor::Yellow
        }
        "joined" | "closed" | "removed" | "suppressed" => return Style::new().dimmed(),
        _ => AnsiColor::Red,
    };
    Style::new().fg_color(Some(colour.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_is_said_in_two_units() {
        for (ms, text) in [
            (7, "7 ms"),
            (2_150, "2.1 s"),
            (843_000, "14 min 3 s"),
            (7_500_000, "2 h 5 min"),
            (266_400_000, "3 d 2 h"),
            (-5, "-5 ms"),
        ] {
            assert_eq!(span(TimeDelta::milliseconds(ms)), text);
        }
    }

    #[test]
    fn long_and_hostile_texts_fit_a_line() {
        assert_eq!(short("a\nb", 10), r"a\nb");
        assert_eq!(short("abcdef", 3), "abc…");
        assert_eq!(short(&"\u{1b}".repeat(9), 5).chars().count(), 6);
    }
}
