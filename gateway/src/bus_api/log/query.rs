//! Query parameters of the log, shared by HTTP and the command line.
//!
//! An unknown parameter is refused: a misspelt filter that is ignored would show everything.

use std::fmt::Display;
use std::str::FromStr;

use a2a_journal::{HistoryCursor, MAX_PAGE, Query};
use a2a_protocol::{Kind, Outcome};
use chrono::{DateTime, SecondsFormat, Utc};

use super::time::read_time;

/// A parameter that is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}`: {problem}")]
pub struct BadParameter {
    /// Its name.
    pub name: String,
    /// What is wrong with it.
    pub problem: String,
}

/// The filters, and the parameters of paging.
const FILTERS: [&str; 10] = [
    "agent",
    "type",
    "since",
    "until",
    "correlation",
    "task",
    "outcome",
    "text",
    "limit",
    "cursor",
];

/// Parses a query; with `paged` also `limit` and `cursor`.
///
/// # Errors
/// The first parameter that is not valid.
pub fn read_query<'a>(
    parameters: impl IntoIterator<Item = (&'a str, &'a str)>,
    now: DateTime<Utc>,
    paged: bool,
) -> Result<Query, BadParameter> {
    let known = if paged { &FILTERS[..] } else { &FILTERS[..FILTERS.len() - 2] };
    let mut query = Query::default();
    for (name, value) in once_each(parameters, known)? {
        let bad = |problem: String| BadParameter { name: name.to_owned(), problem };
        match name {
            "agent" => query.agent = Some(parse(name, value)?),
            "correlation" => query.correlation = Some(parse(name, value)?),
            "task" => query.task = Some(parse(name, value)?),
            "type" => {
                let kind = Kind::from_name(value).ok_or_else(|| bad(one_of(value, Kind::ALL)))?;
                query.kind = Some(kind);
            }
            "outcome" => {
                let outcome = Outcome::from_name(value);
                query.outcome = Some(outcome.ok_or_else(|| bad(one_of(value, Outcome::ALL)))?);
            }
            "since" => query.since = Some(time(name, value, now)?),
            "until" => query.until = Some(time(name, value, now)?),
            "text" => query.text = Some(value.to_owned()).filter(|text| !text.trim().is_empty()),
            "limit" => query.limit = limit(value)?,
            _ => query.before = cursor(value)?,
        }
    }
    Ok(query)
}

/// Parses cursor and limit for the records of one message.
///
/// # Errors
/// The first parameter that is not valid.
pub fn read_cursor<'a>(
    parameters: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<(Option<HistoryCursor>, usize), BadParameter> {
    let (mut from, mut most) = (None, MAX_PAGE);
    for (name, value) in once_each(parameters, &["limit", "cursor"])? {
        match name {
            "limit" => most = limit(value)?,
            _ => from = cursor(value)?,
        }
    }
    Ok((from, most))
}

/// Parses the line to continue after.
///
/// # Errors
/// The first parameter that is not valid.
pub(super) fn read_after<'a>(
    parameters: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<u64, BadParameter> {
    let mut after = None;
    for (_, value) in once_each(parameters, &["cursor"])? {
        after = cursor(value)?;
    }
    Ok(after.unwrap_or(0))
}

/// Parameters that are known and not repeated.
fn once_each<'a>(
    parameters: impl IntoIterator<Item = (&'a str, &'a str)>,
    known: &[&str],
) -> Result<Vec<(&'a str, &'a str)>, BadParameter> {
    let mut given: Vec<(&str, &str)> = Vec::new();
    for (name, value) in parameters {
        if !known.contains(&name) {
            let problem = format!("is not known here; known are {}", known.join(", "));
            return Err(BadParameter { name: name.to_owned(), problem });
        }
        if given.iter().any(|(earlier, _)| *earlier == name) {
            let problem = "is there twice; leave one of them out".to_owned();
            return Err(BadParameter { name: name.to_owned(), problem });
        }
        given.push((name, value));
    }
    Ok(given)
}

fn limit(value: &str) -> Result<usize, BadParameter> {
    let problem = || format!("must be a number up to {MAX_PAGE}");
    let limit = value.parse::<usize>();
    let limit = limit.map_err(|_| BadParameter { name: "limit".into(), problem: problem() })?;
    Ok(limit.clamp(1, MAX_PAGE))
}

fn cursor<T: FromStr>(value: &str) -> Result<Option<T>, BadParameter> {
    let problem = "must be the `nextCursor` of an earlier page";
    let cursor = Some(value).filter(|value| !value.is_empty()).map(str::parse);
    cursor.transpose().map_err(|_| BadParameter { name: "cursor".into(), problem: problem.into() })
}

fn parse<T: FromStr<Err: Display>>(name: &str, value: &str) -> Result<T, BadParameter> {
    let problem = |error: T::Err| BadParameter { name: name.into(), problem: error.to_string() };
    value.parse().map_err(problem)
}

fn time(name: &str, value: &str, now: DateTime<Utc>) -> Result<DateTime<Utc>, BadParameter> {
    let problem = |error| BadParameter { name: name.into(), problem: format!("{error}") };
    read_time(value, now).map_err(problem)
}

fn one_of<T: Copy + Display>(value: &str, all: &[T]) -> String {
    let words: Vec<_> = all.iter().map(ToString::to_string).collect();
    format!("{value:?} is none of {}", words.join(", "))
}

/// Writes a query as parameters; parsing them gives the same query.
#[must_use]
pub fn write_query(query: &Query, paged: bool) -> Vec<(&'static str, String)> {
    let time = |time: DateTime<Utc>| time.to_rfc3339_opts(SecondsFormat::AutoSi, true);
    let mut parameters = Vec::new();
    for (name, value) in [
        ("agent", query.agent.as_ref().map(ToString::to_string)),
        ("type", query.kind.map(|kind| kind.to_string())),
        ("since", query.since.map(time)),
        ("until", query.until.map(time)),
        ("correlation", query.correlation.map(|id| id.to_string())),
        ("task", query.task.map(|id| id.to_string())),
        ("outcome", query.outcome.map(|outcome| outcome.to_string())),
        ("text", query.text.clone()),
        ("cursor", query.before.filter(|_| paged).map(|before| before.to_string())),
        ("limit", paged.then(|| query.limit.to_string())),
    ] {
        parameters.extend(value.map(|value| (name, value)));
    }
    parameters
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0192a4c8-7e1a-7b3c-9d4e-000000000001";

    fn read(parameters: &[(&str, &str)]) -> Result<Query, BadParameter> {
        let now = "2026-02-21T18:30:00Z".parse().unwrap();
        read_query(parameters.iter().copied(), now, true)
    }

    #[test]
    fn a_question_survives_being_written_and_read() {
        let all = [
            ("agent", "tim"),
            ("type", "broadcast"),
            ("since", "2026-02-20T10:00:00.250Z"),
            ("until", "2026-02-21T00:00:00Z"),
            ("correlation", ID),
            ("task", ID),
            ("outcome", "queued"),
            ("text", "a b & c"),
            ("cursor", "17"),
            ("limit", "5"),
        ];
        let query = read(&all).unwrap();
        let written = write_query(&query, true);
        let written: Vec<_> = written.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(written, all);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (name, value) in [
            ("agent", "a b"),
            ("agent", ""),
            ("type", "letter"),
            ("since", "soon"),
            ("until", "-1h"),
            ("correlation", "x"),
            ("task", "0192a4c8"),
            ("outcome", "done"),
            ("limit", "-1"),
            ("cursor", "x"),
            ("agnet", "tim"),
        ] {
            let bad = read(&[(name, value)]).unwrap_err();
            assert!(bad.to_string().starts_with(&format!("`{name}`")), "{bad}");
        }
        assert!(read(&[("agent", "tim"), ("agent", "ann")]).is_err());
        assert!(read(&[("cursor", ""), ("text", " ")]).is_ok());
        assert_eq!(read(&[("limit", "100000")]).unwrap().limit, MAX_PAGE);
        let now = DateTime::UNIX_EPOCH;
        assert!(read_query([("limit", "5")], now, false).is_err());
    }
}
