//! `[http]`: address, limits per caller, allowed origins.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::num::NonZeroUsize;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tls::TlsValues;
use a2a_gateway::HttpSettings;

/// Default listen address.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:7420";

/// Resolves `text` (an address and a port, or a name and a port) to addresses, IPv4 first.
///
/// # Errors
/// When it is neither, or the name does not resolve.
pub fn listen_addresses(text: &str) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = text.parse() {
        return Ok(vec![address]);
    }
    if !names_a_port(text) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "write an address and a port of at most 65535, such as 127.0.0.1:7420",
        ));
    }
    let mut found: Vec<SocketAddr> = text.to_socket_addrs()?.collect();
    found.sort_by_key(SocketAddr::is_ipv6);
    found.dedup();
    if found.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    }
    Ok(found)
}

/// Whether the text has the form `NAME:PORT`.
fn names_a_port(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && host.chars().all(plain) && port.parse::<u16>().is_ok()
    })
}

/// `[http]`. Durations are in seconds and may have a fraction.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct HttpValues {
    /// Where to listen: an address or a name, and a port. Loopback only, unless there are tokens
    listen: Option<String>,
    /// How others call the server
    #[schemars(example = &"https://bus.example.org", extend("x-default" = "as each caller names it"))]
    url: Option<String>,
    /// Names it answers to, besides those of this machine
    hosts: Vec<String>,
    /// Whose pages may call it, such as `https://console.example.org`
    origins: Vec<String>,
    /// Threads that answer
    #[schemars(example = 4, extend("x-default" = "one a core"))]
    workers: Option<NonZeroUsize>,
    /// Connections at once; beyond that those that have done nothing for longest are closed
    max_connections: Option<NonZeroUsize>,
    /// Requests that are answered at once; further ones are refused
    max_requests: Option<NonZeroUsize>,
    /// Streams at once
    max_streams: Option<NonZeroUsize>,
    /// Streams of one caller at once
    max_streams_per_caller: Option<NonZeroUsize>,
    /// Calls that wait for an event, at once: for a message, for the end of a task
    max_waiting: Option<NonZeroUsize>,
    /// Waiting calls of one caller at once
    max_waiting_per_caller: Option<NonZeroUsize>,
    /// Answers that their callers have not taken yet
    max_unread_mib: Option<NonZeroUsize>,
    /// Answers of one caller that it has not taken yet
    max_unread_mib_per_caller: Option<NonZeroUsize>,
    /// How long the head of a request may take
    head_seconds: Option<f64>,
    /// How long its body may take
    body_seconds: Option<f64>,
    /// How long a connection may do nothing
    idle_seconds: Option<f64>,
    /// How long a reader may take nothing of what it asked for; then its connection is closed
    stalled_seconds: Option<f64>,
    /// How large the head of a request may be, up to 96
    max_head_kib: Option<NonZeroUsize>,
    /// How large the body of an A2A request may be; messages of the bus have 256 KiB
    max_body_kib: Option<NonZeroUsize>,
    /// The certificate with which the server listens; see security.md
    tls: TlsValues,
}

impl HttpValues {
    pub(in crate::config) fn listen(&self) -> &str {
        self.listen.as_deref().unwrap_or(DEFAULT_LISTEN)
    }

    pub(in crate::config) fn tls(&self) -> &TlsValues {
        &self.tls
    }

    /// Fills in the defaults that have a value.
    pub(in crate::config) fn in_force(&self) -> Result<Self, String> {
        let settings = self.settings()?;
        let seconds = |span: Duration| Some(span.as_secs_f64());
        Ok(Self {
            listen: Some(self.listen().to_owned()),
            url: settings.url,
            hosts: settings.hosts,
            origins: settings.origins,
            workers: settings.workers.and_then(NonZeroUsize::new),
            max_connections: NonZeroUsize::new(settings.connections),
            max_requests: NonZeroUsize::new(settings.requests),
            max_streams: NonZeroUsize::new(settings.streams),
            max_streams_per_caller: NonZeroUsize::new(settings.streams_per_caller),
            max_waiting: NonZeroUsize::new(settings.waiting),
            max_waiting_per_caller: NonZeroUsize::new(settings.waiting_per_caller),
            max_unread_mib: NonZeroUsize::new(settings.unread >> 20),
            max_unread_mib_per_caller: NonZeroUsize::new(settings.unread_per_caller >> 20),
            head_seconds: seconds(settings.head),
            body_seconds: seconds(settings.body),
            idle_seconds: seconds(settings.idle),
            stalled_seconds: seconds(settings.stalled),
            max_head_kib: NonZeroUsize::new(settings.head_bytes >> 10),
            max_body_kib: NonZeroUsize::new(settings.body_bytes >> 10),
            tls: self.tls.clone(),
        })
    }

    pub(in crate::config) fn settings(&self) -> Result<HttpSettings, String> {
        let defaults = HttpSettings::default();
        let count = |given: Option<NonZeroUsize>, default| given.map_or(default, NonZeroUsize::get);
        let bytes = |given: Option<NonZeroUsize>, most: usize, default, name: &str| match given {
            None => Ok(default),
            Some(kib) if kib.get() <= most => Ok(kib.get() << 10),
            Some(kib) => Err(format!("[http] {name} = {kib} is more than {most}")),
        };
        let mebibytes = |given: Option<NonZeroUsize>, default, name: &str| match given {
            None => Ok(default),
            Some(mib) if mib.get() <= 1 << 20 => Ok(mib.get() << 20),
            Some(mib) => Err(format!("[http] {name} = {mib} is more than {}", 1 << 20)),
        };
        let listen = self.listen();
        // The name is resolved when the server listens, because the result may change.
        if listen.parse::<SocketAddr>().is_err() && !names_a_port(listen) {
            let example = DEFAULT_LISTEN;
            return Err(format!(
                "[http] listen = {listen:?} is not an address and a port of at most 65535, such as {example:?}"
            ));
        }
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
            // The HTTP library itself refuses heads above 128 KiB.
            head_bytes: bytes(self.max_head_kib, 96, defaults.head_bytes, "max_head_kib")?,
            body_bytes: bytes(self.max_body_kib, 1 << 20, defaults.body_bytes, "max_body_kib")?,
            streams: count(self.max_streams, defaults.streams),
            streams_per_caller: count(self.max_streams_per_caller, defaults.streams_per_caller),
            waiting: count(self.max_waiting, defaults.waiting),
            waiting_per_caller: count(self.max_waiting_per_caller, defaults.waiting_per_caller),
            unread: mebibytes(self.max_unread_mib, defaults.unread, "max_unread_mib")?,
            unread_per_caller: mebibytes(
                self.max_unread_mib_per_caller,
                defaults.unread_per_caller,
                "max_unread_mib_per_caller",
            )?,
            hosts: self.hosts.clone(),
            origins: self.origins.clone(),
            url: self.url.clone(),
        })
    }
}

/// Whether `url` consists of a scheme and a host.
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
    use super::*;
    use crate::config::Config;

    fn parse(text: &str) -> Result<HttpSettings, String> {
        Config::parse(text)?.http()
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
    fn listen_names_resolve_with_ipv4_first() {
        let local = listen_addresses("localhost:7421").unwrap();
        assert!(local.iter().all(|address| address.ip().is_loopback() && address.port() == 7421));
        assert!(local[0].is_ipv4() || local.iter().all(SocketAddr::is_ipv6), "{local:?}");
        assert_eq!(listen_addresses("[::1]:1").unwrap(), ["[::1]:1".parse().unwrap()]);
        for bad in ["localhost", ":7421", "localhost:", "localhost:70000", "a b:1", "::1:1x"] {
            assert!(listen_addresses(bad).is_err(), "{bad}");
        }
        assert!(parse("[http]\nlisten = \"localhost:7421\"").is_ok());
    }

    #[test]
    fn invalid_limits_are_refused_by_name() {
        for (text, word) in [
            ("head_seconds = 0", "head_seconds"),
            ("idle_seconds = -1.0", "idle_seconds"),
            ("body_seconds = nan", "body_seconds"),
            ("max_head_kib = 97", "max_head_kib"),
            ("max_streams = 0", "max_streams"),
            ("listen = \"localhost\"", "listen"),
            ("url = \"bus.example.org\"", "url"),
            ("url = \"https://bus.example.org/x\"", "url"),
            ("max_body = 1", "max_body_kib"),
        ] {
            let error = parse(&format!("[http]\n{text}")).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
