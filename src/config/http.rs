//! `[http]`: where to listen, what a caller may cost, whom to answer.

use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;

use super::tls::TlsValues;
use crate::gateway::HttpSettings;

/// `[http]`. Times are seconds and may have a fraction.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct HttpValues {
    listen: Option<String>,
    url: Option<String>,
    hosts: Vec<String>,
    origins: Vec<String>,
    workers: Option<NonZeroUsize>,
    max_connections: Option<NonZeroUsize>,
    max_requests: Option<NonZeroUsize>,
    max_streams: Option<NonZeroUsize>,
    max_streams_per_caller: Option<NonZeroUsize>,
    head_seconds: Option<f64>,
    body_seconds: Option<f64>,
    idle_seconds: Option<f64>,
    /// Of a connection whose other end takes nothing.
    stalled_seconds: Option<f64>,
    max_head_kib: Option<NonZeroUsize>,
    max_body_kib: Option<NonZeroUsize>,
    tls: Option<TlsValues>,
}

impl HttpValues {
    pub(super) fn listen(&self) -> Option<&str> {
        self.listen.as_deref()
    }

    pub(super) fn tls(&self) -> Option<&TlsValues> {
        self.tls.as_ref()
    }

    pub(super) fn settings(&self) -> Result<HttpSettings, String> {
        let defaults = HttpSettings::default();
        let count = |given: Option<NonZeroUsize>, default| given.map_or(default, NonZeroUsize::get);
        let bytes = |given: Option<NonZeroUsize>, most: usize, default, name: &str| match given {
            None => Ok(default),
            Some(kib) if kib.get() <= most => Ok(kib.get() << 10),
            Some(kib) => Err(format!("[http] {name} = {kib} is more than {most}")),
        };
        if let Some(url) = self.url.as_deref().filter(|url| !is_base(url)) {
            let example = "https://bus.example.org";
            return Err(format!("[http] url = {url:?} is no address such as {example}"));
        }
        Ok(HttpSettings {
            connections: count(self.max_connections, defaults.connections),
            requests: count(self.max_requests, defaults.requests),
            workers: self.workers.map(NonZeroUsize::get),
            head: seconds("head_seconds", self.head_seconds, defaults.head)?,
            body: seconds("body_seconds", self.body_seconds, defaults.body)?,
            idle: seconds("idle_seconds", self.idle_seconds, defaults.idle)?,
            stalled: seconds("stalled_seconds", self.stalled_seconds, defaults.stalled)?,
            // The server itself gives up at 128 KiB.
            head_bytes: bytes(self.max_head_kib, 96, defaults.head_bytes, "max_head_kib")?,
            body_bytes: bytes(self.max_body_kib, 1 << 20, defaults.body_bytes, "max_body_kib")?,
            streams: count(self.max_streams, defaults.streams),
            streams_per_caller: count(self.max_streams_per_caller, defaults.streams_per_caller),
            hosts: self.hosts.clone(),
            origins: self.origins.clone(),
            url: self.url.clone(),
        })
    }
}

/// Whether `url` is a scheme and a host, and nothing after it.
fn is_base(url: &str) -> bool {
    url.split_once("://").is_some_and(|(scheme, rest)| {
        let plain = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
        matches!(scheme, "http" | "https") && !rest.is_empty() && rest.chars().all(plain)
    })
}

fn seconds(name: &str, given: Option<f64>, default: Duration) -> Result<Duration, String> {
    match given {
        None => Ok(default),
        Some(seconds) if (0.05..=3_600.0).contains(&seconds) => {
            Ok(Duration::from_secs_f64(seconds))
        }
        Some(seconds) => Err(format!("[http] {name} = {seconds} is not between 0.05 and 3600")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn parse(text: &str) -> Result<HttpSettings, String> {
        toml::from_str::<Config>(text).map_err(|error| error.to_string())?.http()
    }

    #[test]
    fn limits_are_read_with_their_units() {
        let text =
            "[http]\nhead_seconds = 0.5\nidle_seconds = 9\nmax_body_kib = 2\nmax_streams = 3";
        let read = parse(text).unwrap();
        assert_eq!((read.head, read.idle), (Duration::from_millis(500), Duration::from_secs(9)));
        assert_eq!((read.body_bytes, read.streams), (2_048, 3));
        assert_eq!(parse("").unwrap().body_bytes, 4 << 20);
    }

    #[test]
    fn senseless_limits_are_refused_by_name() {
        for (text, word) in [
            ("head_seconds = 0", "head_seconds"),
            ("idle_seconds = -1.0", "idle_seconds"),
            ("body_seconds = nan", "body_seconds"),
            ("max_head_kib = 97", "max_head_kib"),
            ("max_streams = 0", "max_streams"),
            ("url = \"bus.example.org\"", "url"),
            ("url = \"https://bus.example.org/x\"", "url"),
            ("max_body = 1", "max_body_kib"),
        ] {
            let error = parse(&format!("[http]\n{text}")).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
