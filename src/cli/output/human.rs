//! Words between people and the protocol: how times, spans and texts of others look, and how the
//! words of closed sets are read, with either `-` or `_` in them.

use std::ffi::OsStr;

use a2a_protocol::Kind;
use anstyle::{AnsiColor, Style};
use chrono::{DateTime, TimeDelta, Utc};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use serde_json::Value;

use super::stdout::sanitize;

/// A text that fits a line.
pub(in crate::cli) fn short(text: &str, most: usize) -> String {
    // Far more than is shown, so that a long text costs little.
    let mut shown = sanitize(&text.chars().take(most + 1).collect::<String>());
    if let Some((end, _)) = shown.char_indices().nth(most) {
        shown.truncate(end);
        shown.push('…');
    }
    shown
}

/// A time of day, with its day.
pub(in crate::cli) fn timestamp(time: DateTime<Utc>) -> String {
    time.format("%Y-%m-%d %H:%M:%S%.3f").to_string()
}

/// How long something took, in the two largest units.
pub(in crate::cli) fn span(span: TimeDelta) -> String {
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

/// A moment that lies so long after `now`: 90s, 15m, 12h, 30d; at least a second.
pub(in crate::cli) fn after(now: DateTime<Utc>, text: &str) -> Option<DateTime<Utc>> {
    let split = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(split);
    let unit: i64 = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    let seconds = number.parse::<i64>().ok()?.checked_mul(unit).filter(|seconds| *seconds > 0)?;
    now.checked_add_signed(TimeDelta::try_seconds(seconds)?)
}

/// Green for what was accepted, yellow for what may be tried again, red for what was refused.
pub(in crate::cli) fn style_of(word: &str) -> Style {
    let colour = match word {
        "delivered" | "acknowledged" => AnsiColor::Green,
        "queued" | "returned" => AnsiColor::Cyan,
        "duplicate" => AnsiColor::Blue,
        "rate_limited" | "queue_full" | "unavailable" | "attempt_failed" | "overdue" => {
            AnsiColor::Yellow
        }
        "joined" | "left" | "closed" | "removed" | "suppressed" => return Style::new().dimmed(),
        _ => AnsiColor::Red,
    };
    Style::new().fg_color(Some(colour.into()))
}

/// What a message is about, in a few words.
pub(in crate::cli) fn gist(message: &Value) -> String {
    let payload = &message["payload"];
    let text = |name: &str| payload[name].as_str().filter(|text| !text.trim().is_empty());
    let join = |parts: &[Option<&str>]| -> String {
        parts.iter().flatten().copied().collect::<Vec<_>>().join(": ")
    };
    let words = match message["type"].as_str().unwrap_or_default() {
        "task_request" | "review_request" => join(&[text("title")]),
        "task_response" => {
            let summary = payload["result"]["summary"].as_str();
            join(&[text("action"), text("reason").or(summary)])
        }
        "review_response" => join(&[text("verdict"), text("nextAction")]),
        "status_update" => join(&[text("status"), text("progress"), text("blockedBy")]),
        "knowledge_share" => join(&[text("topic"), text("discovery")]),
        "broadcast" => join(&[text("topic"), text("message")]),
        _ => String::new(),
    };
    short(&words, 100)
}

/// What an answer is called, and how it looks.
pub(in crate::cli) fn verdict(allowed: bool) -> (&'static str, Style) {
    let (word, colour) =
        if allowed { ("allowed", AnsiColor::Green) } else { ("refused", AnsiColor::Red) };
    (word, Style::new().fg_color(Some(colour.into())).bold())
}

/// Reads a word of a closed set; help and completions list them all.
pub(in crate::cli) fn one_of<T>(all: &'static [T], word: fn(T) -> &'static str) -> OneOf<T> {
    OneOf { all, word }
}

/// See [`one_of`].
#[derive(Clone)]
pub(in crate::cli) struct OneOf<T: 'static> {
    all: &'static [T],
    word: fn(T) -> &'static str,
}

impl<T: Copy + Send + Sync + 'static> OneOf<T> {
    fn words(&self) -> impl Iterator<Item = PossibleValue> + use<T> {
        let word = self.word;
        self.all.iter().map(move |&value| PossibleValue::new(word(value)))
    }
}

impl<T: Copy + Send + Sync + 'static> TypedValueParser for OneOf<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        let given = value.to_str().unwrap_or_default().replace('-', "_");
        let is_given = |one: &&T| (self.word)(**one).replace('-', "_") == given;
        if let Some(found) = self.all.iter().find(is_given) {
            return Ok(*found);
        }
        // Says which there are, and which is near.
        PossibleValuesParser::new(self.words()).parse_ref(command, arg, value)?;
        Err(clap::Error::new(ErrorKind::InvalidValue).with_cmd(command))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.words()))
    }
}

/// Reads a kind of message.
pub(in crate::cli) fn kind() -> OneOf<Kind> {
    one_of(Kind::ALL, Kind::as_str)
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
