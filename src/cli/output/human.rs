//! Human-readable forms of times, spans, messages and outcomes.

use std::ffi::OsStr;

use a2a_protocol::Kind;
use anstyle::{AnsiColor, Style};
use chrono::{DateTime, TimeDelta, Utc};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use serde_json::Value;

use super::stdout::sanitize;

/// Sanitizes a text and cuts it at `most` characters.
pub(in crate::cli) fn short(text: &str, most: usize) -> String {
    // Cut before sanitizing, so that a long text costs little.
    let mut shown = sanitize(&text.chars().take(most + 1).collect::<String>());
    if let Some((end, _)) = shown.char_indices().nth(most) {
        shown.truncate(end);
        shown.push('…');
    }
    shown
}

/// Formats a UTC time with its date.
pub(in crate::cli) fn timestamp(time: DateTime<Utc>) -> String {
    time.format("%Y-%m-%d %H:%M:%S%.3f").to_string()
}

/// Formats a span in its two largest units.
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

/// Colour of an outcome or event: green accepted, yellow retryable, red refused.
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

/// Summarizes a message in one line.
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

/// Label and style of a decision.
pub(in crate::cli) fn verdict(allowed: bool) -> (&'static str, Style) {
    let (word, colour) =
        if allowed { ("allowed", AnsiColor::Green) } else { ("refused", AnsiColor::Red) };
    (word, Style::new().fg_color(Some(colour.into())).bold())
}

/// Parser for one value of a closed set, listed in help and completions. Accepts `-` for `_`.
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
        // Produces the error that lists the values and suggests the nearest.
        PossibleValuesParser::new(self.words()).parse_ref(command, arg, value)?;
        Err(clap::Error::new(ErrorKind::InvalidValue).with_cmd(command))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.words()))
    }
}

/// Parser for a kind of message.
pub(in crate::cli) fn kind() -> OneOf<Kind> {
    one_of(Kind::ALL, Kind::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn span_is_formatted_in_two_units() {
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
    fn short_cuts_and_sanitizes() {
        assert_eq!(short("a\nb", 10), r"a\nb");
        assert_eq!(short("abcdef", 3), "abc…");
        assert_eq!(short(&"\u{1b}".repeat(9), 5).chars().count(), 6);
    }
}
