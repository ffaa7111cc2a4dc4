//! Checks `Host` and `Origin`: whether a request is for this server, and which page sent it.
//!
//! A page in a browser can reach what its machine can reach, a server on loopback included. DNS
//! rebinding shows in `Host`, cross-site requests in `Origin` and `Sec-Fetch-Site`.

use std::net::{IpAddr, SocketAddr};

use actix_web::http::uri::Authority;

/// A host and perhaps a port.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HostName {
    host: String,
    port: Option<u16>,
}

/// Names and origins that are accepted.
#[derive(Debug)]
pub(super) struct OriginPolicy {
    scheme: &'static str,
    address: SocketAddr,
    hosts: Vec<HostName>,
    origins: Vec<String>,
}

/// The origin of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RequestOrigin<'a> {
    /// No page, a page of this server, or the address bar.
    Own,
    /// A page of a listed origin.
    Listed(&'a str),
    /// Any other page.
    Foreign,
}

impl HostName {
    fn read(text: &str) -> Option<Self> {
        let authority: Authority = text.parse().ok()?;
        let digits = text.rsplit_once(':').filter(|_| authority.port().is_some());
        // User info before the host, or a port that is none.
        if text.contains('@') || digits.is_some_and(|_| authority.port_u16().is_none()) {
            return None;
        }
        // The library ignores text between host and port, such as `[::1]evil:7420`.
        let rest = text.strip_prefix(authority.host())?;
        if !rest.is_empty() && !rest.starts_with(':') {
            return None;
        }
        let host = authority.host().to_ascii_lowercase();
        (!host.is_empty()).then(|| Self { host, port: authority.port_u16() })
    }

    fn ip(&self) -> Option<IpAddr> {
        self.host.trim_start_matches('[').trim_end_matches(']').parse().ok()
    }
}

impl OriginPolicy {
    /// For the server at `address`. The error names the entry that is not valid.
    pub(super) fn new(
        tls: bool,
        address: SocketAddr,
        hosts: &[String],
        origins: &[String],
    ) -> Result<Self, String> {
        let host = |text: &String| {
            HostName::read(text).ok_or_else(|| {
                format!("[http] hosts: {text:?} is no name such as bus.example.org or bus:7420")
            })
        };
        let hosts = hosts.iter().map(host).collect::<Result<_, _>>()?;
        let origins = origins.iter().map(|text| origin(text)).collect::<Result<_, _>>()?;
        let scheme = if tls { "https" } else { "http" };
        Ok(Self { scheme, address, hosts, origins })
    }

    fn default_port(&self) -> u16 {
        if self.scheme == "https" { 443 } else { 80 }
    }

    /// Whether a request for this host is for this server. On a public address callers need a
    /// token, which no page has; there every host is accepted unless some are listed.
    pub(super) fn is_ours(&self, host: &str) -> bool {
        let Some(name) = HostName::read(host) else { return false };
        let port = name.port.unwrap_or(self.default_port());
        let is_listed = |listed: &HostName| {
            listed.host == name.host && listed.port.is_none_or(|listed| listed == port)
        };
        if self.hosts.iter().any(is_listed) {
            return true;
        }
        let is_here = name.host == "localhost"
            || name.ip().is_some_and(|ip| ip.is_loopback() || ip == self.address.ip());
        if is_here && port == self.address.port() {
            return true;
        }
        !self.address.ip().is_loopback() && self.hosts.is_empty()
    }

    /// Classifies the origin from the headers of the browser.
    pub(super) fn source(
        &self,
        host: &str,
        origin: Option<&str>,
        site: Option<&str>,
    ) -> RequestOrigin<'_> {
        match origin {
            Some(origin) => {
                let listed = self.origins.iter().find(|listed| origin.eq_ignore_ascii_case(listed));
                match listed {
                    Some(listed) => RequestOrigin::Listed(listed),
                    None if self.is_own(origin, host) => RequestOrigin::Own,
                    None => RequestOrigin::Foreign,
                }
            }
            // Another port of the same machine is the same site, and still another origin.
            None => match site {
                None | Some("same-origin" | "none") => RequestOrigin::Own,
                Some(_) => RequestOrigin::Foreign,
            },
        }
    }

    fn is_own(&self, origin: &str, host: &str) -> bool {
        let Some((scheme, authority)) = origin.split_once("://") else { return false };
        let full = |text| {
            let name = HostName::read(text)?;
            Some((name.host, name.port.unwrap_or(self.default_port())))
        };
        scheme.eq_ignore_ascii_case(self.scheme)
            && full(authority).is_some_and(|origin| full(host) == Some(origin))
    }
}

fn origin(text: &str) -> Result<String, String> {
    let is_one = text.split_once("://").is_some_and(|(scheme, authority)| {
        matches!(scheme, "http" | "https") && HostName::read(authority).is_some()
    });
    if is_one {
        Ok(text.to_owned())
    } else {
        Err(format!("[http] origins: {text:?} is no origin such as https://console.example.org"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(address: &str, hosts: &[&str], origins: &[&str]) -> OriginPolicy {
        let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        OriginPolicy::new(false, address.parse().unwrap(), &texts(hosts), &texts(origins)).unwrap()
    }

    #[test]
    fn on_loopback_only_its_names_are_ours() {
        let local = policy("127.0.0.1:7420", &["bus.example.org", "gate:81"], &[]);
        for ours in [
            "127.0.0.1:7420",
            "localhost:7420",
            "LocalHost:7420",
            "[::1]:7420",
            "bus.example.org",
            "bus.example.org:9",
            "gate:81",
        ] {
            assert!(local.is_ours(ours), "{ours}");
        }
        for other in [
            "",
            "evil.example:7420",
            "localhost",
            "localhost:80",
            "127.0.0.1:7421",
            "localhost.evil.example:7420",
            "localhost.:7420",
            "127.1:7420",
            "2130706433:7420",
            "evil@localhost:7420",
            "localhost:7420@evil",
            "localhost:",
            "localhost:99999",
            "gate",
            "gate:82",
            "[::2]:7420",
            "::1:7420",
            "localhost:7420, evil",
            "[::1]evil:7420",
            "[::1]:7420evil",
            "[::1].evil.example:7420",
            "evil[::1]:7420",
        ] {
            assert!(!local.is_ours(other), "{other}");
        }
        assert!(policy("127.0.0.1:80", &[], &[]).is_ours("localhost"));
    }

    #[test]
    fn elsewhere_every_name_will_do_unless_some_are_listed() {
        assert!(policy("0.0.0.0:7420", &[], &[]).is_ours("anything:1"));
        let listed = policy("10.0.0.7:7420", &["bus.example.org"], &[]);
        for ours in ["bus.example.org", "10.0.0.7:7420", "localhost:7420"] {
            assert!(listed.is_ours(ours), "{ours}");
        }
        assert!(!listed.is_ours("anything:7420"));
    }

    #[test]
    fn origin_headers_classify_the_page() {
        let local = policy("127.0.0.1:7420", &[], &["https://console.example"]);
        let host = "localhost:7420";
        let source = |origin, site| local.source(host, origin, site);
        assert_eq!(source(None, None), RequestOrigin::Own);
        assert_eq!(source(None, Some("none")), RequestOrigin::Own);
        assert_eq!(source(Some("http://localhost:7420"), Some("same-origin")), RequestOrigin::Own);
        let listed = source(Some("https://console.example"), Some("cross-site"));
        assert_eq!(listed, RequestOrigin::Listed("https://console.example"));
        for (origin, site) in [
            (Some("http://localhost:3000"), Some("same-site")),
            (Some("https://localhost:7420"), None),
            (Some("http://127.0.0.1:7420"), None),
            (Some("http://evil.example"), None),
            (Some("https://console.example.evil"), None),
            (Some("null"), None),
            (Some(""), None),
            (None, Some("cross-site")),
            (None, Some("same-site")),
            (None, Some("something new")),
        ] {
            assert_eq!(source(origin, site), RequestOrigin::Foreign, "{origin:?} {site:?}");
        }
    }

    #[test]
    fn entries_that_name_nothing_are_refused() {
        let new = |hosts: &[String], origins: &[String]| {
            OriginPolicy::new(true, "127.0.0.1:1".parse().unwrap(), hosts, origins).map(drop)
        };
        assert!(new(&["a b".into()], &[]).unwrap_err().contains("hosts"));
        for bad in ["*", "console.example", "ftp://x", "https://x/y", "https://"] {
            assert!(new(&[], &[bad.into()]).unwrap_err().contains("origins"), "{bad}");
        }
    }
}
