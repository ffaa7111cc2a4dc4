//! URLs that must not become webhooks, in every disguise, and URLs that must.
#![allow(clippy::unwrap_used)]

use super::super::address::kind_of;
use super::UrlRefused::{
    Character, EncodedHost, Fragment, Host as BadHost, LocalName, Malformed, Port, Scheme, TooLong,
    UserInfo,
};
use super::*;
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

fn refusal(text: &str) -> UrlRefused {
    match CheckedUrl::parse(text, false) {
        Err(refused) => refused,
        Ok(url) => panic!("{text} was taken as {}", url.as_str()),
    }
}

#[test]
fn addresses_in_every_disguise() {
    let hosts = [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "127.255.255.254",
        "2130706433",
        "0x7f000001",
        "0X7F.0.0.1",
        "0x7f.1",
        "017700000001",
        "0177.0.0.1",
        "0177.0.0.01",
        "00000177.0.0.1",
        "0",
        "0.0.0.0",
        "0x0",
        "10.0.0.1",
        "10.1",
        "0xa000001",
        "012.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.0.1",
        "192.168.257",
        "3232235521",
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "0251.0376.0251.0376",
        "169.254.43518",
        "100.64.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "198.18.0.1",
        "192.0.2.1",
        "203.0.113.9",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "4294967295",
        "１２７.０.０.１",
        "①②⑦.⓪.⓪.①",
        "127。0。0。1",
        "127.0.0.1:8443",
        "[::]",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[0000:0000::0001]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::FFFF:10.0.0.1]",
        "[::ffff:169.254.169.254]",
        "[::127.0.0.1]",
        "[::7f00:1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b:1::1]",
        "[2002:7f00:1::]",
        "[2002:c0a8:101::1]",
        "[2001:0:1::80ff:fffe]",
        "[fe80::1]",
        "[fec0::1]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "[fd12:3456::1]",
        "[ff02::1]",
        "[2001:db8::1]",
        "[100::1]",
        "[2606:4700::5efe:7f00:1]",
        "[::1]:8443",
    ];
    for host in hosts {
        let refused = refusal(&format!("https://{host}/hook"));
        assert!(matches!(refused, UrlRefused::Address(_)), "{host}: {refused:?}");
    }
}

#[test]
fn everything_else_that_is_refused() {
    let table = [
        ("", Malformed),
        ("example.com/hook", Malformed),
        ("//example.com/hook", Malformed),
        ("https:example.com", Malformed),
        ("https:/example.com", Malformed),
        ("https:///example.com", Malformed),
        ("https://", Malformed),
        ("https://?x", Malformed),
        ("https://:443/", Malformed),
        ("https://example.com:99999/", Malformed),
        ("https://example.com:x/", Malformed),
        ("https://256.256.256.256/", Malformed),
        ("https://1.2.3.4.5/", Malformed),
        ("https://example.1/", Malformed),
        ("https://[::1/", Malformed),
        ("https://[::g]/", Malformed),
        ("https://exa<mple.com/", Malformed),
        ("http://example.com/", Scheme),
        ("HTTP://example.com/", Scheme),
        ("ftp://example.com/", Scheme),
        ("file:///etc/passwd", Scheme),
        ("gopher://example.com/", Scheme),
        ("javascript:alert(1)", Scheme),
        ("data:text/plain,x", Scheme),
        ("wss://example.com/", Scheme),
        ("unix:/run/docker.sock", Scheme),
        ("https+unix://example.com/", Scheme),
        (" https://example.com/", Character),
        ("https://example.com/ ", Character),
        ("ht\ntps://example.com/", Character),
        ("https://exam\tple.com/", Character),
        ("https://example.com/\r\nX: y", Character),
        ("https://example.com/\0", Character),
        ("https://127.0.0.1\\@example.com/", Character),
        ("https:\\\\example.com", Character),
        ("https://example.com/a\u{a0}b", Character),
        ("https://example.com/a\u{85}b", Character),
        ("https://user@example.com/", UserInfo),
        ("https://user:password@example.com/", UserInfo),
        ("https://@example.com/", UserInfo),
        ("https://example.com@127.0.0.1/", UserInfo),
        ("https://example.com:443@127.0.0.1:443/", UserInfo),
        ("https://example.com/#x", Fragment),
        ("https://127.0.0.1#@example.com/", Fragment),
        ("https://%31%32%37.0.0.1/", EncodedHost),
        ("https://127%2e0%2e0%2e1/", EncodedHost),
        ("https://%6cocalhost/", EncodedHost),
        ("https://[fe80::1%25eth0]/", EncodedHost),
        ("https://[fe80::1%eth0]/", EncodedHost),
        ("https://example.com%00.evil.com/", EncodedHost),
        ("https://example..com/", BadHost),
        ("https://.example.com/", BadHost),
        ("https://example.com../", BadHost),
        ("https://exa*mple.com/", BadHost),
        ("https://exa$mple.com/", BadHost),
        ("https://localhost/", LocalName),
        ("https://LOCALHOST/", LocalName),
        ("https://localhost./", LocalName),
        ("https://ｌｏｃａｌｈｏｓｔ/", LocalName),
        ("https://ⓛocalhost/", LocalName),
        ("https://local\u{ad}host/", LocalName),
        ("https://localhost\u{200b}/", LocalName),
        ("https://localhost:8443/", LocalName),
        ("https://a.localhost/", LocalName),
        ("https://a.localhost./", LocalName),
        ("https://localhost.localdomain/", LocalName),
        ("https://printer.local/", LocalName),
        ("https://printer。local/", LocalName),
        ("https://metadata.google.internal/", LocalName),
        ("https://Metadata.Google.Internal./", LocalName),
        ("https://kubernetes.default.svc/", LocalName),
        ("https://kubernetes.default.svc.cluster.local/", LocalName),
        ("https://router.lan/", LocalName),
        ("https://router.home.arpa/", LocalName),
        ("https://wiki.corp/", LocalName),
        ("https://redis/", LocalName),
        ("https://redis./", LocalName),
        ("https://example.com:0/", Port),
        ("https://example.com:22/", Port),
        ("https://example.com:25/", Port),
        ("https://example.com:80/", Port),
        ("https://example.com:1023/", Port),
    ];
    for (text, expected) in table {
        assert_eq!(refusal(text), expected, "{text:?}");
    }
}

#[test]
fn names_and_urls_have_a_longest() {
    let label = "a".repeat(MAX_LABEL_BYTES);
    assert!(CheckedUrl::parse(&format!("https://{label}.com/"), false).is_ok());
    assert_eq!(refusal(&format!("https://{label}a.com/")), BadHost);
    let name = [label.as_str(); 4].join(".");
    assert_eq!(refusal(&format!("https://{name}.com/")), BadHost);

    let longest = format!("{:a<MAX_URL_BYTES$}", "https://example.com/");
    assert!(CheckedUrl::parse(&longest, false).is_ok());
    assert_eq!(refusal(&(longest + "a")), TooLong);
    let escaped = format!("https://example.com/{}", "ä".repeat(700));
    assert!(escaped.len() < MAX_URL_BYTES);
    assert_eq!(refusal(&escaped), TooLong, "it is longer as it would be sent");
}

#[test]
fn what_can_be_a_webhook() {
    let table = [
        ("https://example.com/tck-push-webhook", "example.com"),
        ("https://EXAMPLE.com.:8443/a?b=c", "example.com"),
        ("HTTPS://example.com", "example.com"),
        ("https://bücher.example.com/", "xn--bcher-kva.example.com"),
        ("https://my_hook.example.com:65535/", "my_hook.example.com"),
        ("https://8.8.8.8/", "8.8.8.8"),
        ("https://134744072/", "8.8.8.8"),
        ("https://[2606:4700::1111]/", "2606:4700::1111"),
        ("https://[::ffff:8.8.8.8]/", "8.8.8.8"),
        ("https://example.com/a@b?c=%23", "example.com"),
    ];
    for (text, host) in table {
        assert_eq!(CheckedUrl::parse(text, false).unwrap().host(), host, "{text}");
    }
}

#[test]
fn allow_private_opens_private_networks_only() {
    let opened = [
        "http://127.0.0.1:8080/hook",
        "http://localhost/hook",
        "http://[::1]:1/",
        "https://10.0.0.1/",
        "http://hooks.internal:81/",
        "http://redis/",
        "http://example.com/",
    ];
    for text in opened {
        assert!(CheckedUrl::parse(text, false).is_err(), "{text}");
        assert!(CheckedUrl::parse(text, true).is_ok(), "{text}");
    }
    let never = [
        "http://169.254.169.254/latest/meta-data/",
        "http://0.0.0.0/",
        "http://224.0.0.1/",
        "http://[fe80::1]/",
        "http://[2002:7f00:1::]/",
        "http://user@127.0.0.1/",
        "http://127.0.0.1:0/",
        "ftp://127.0.0.1/",
        "http://127.0.0.1/#x",
    ];
    for text in never {
        assert!(CheckedUrl::parse(text, true).is_err(), "{text}");
    }
}

#[test]
fn paths_and_queries_are_not_shown() {
    let url = CheckedUrl::parse("https://example.com:8443/hidden?key=hidden", false).unwrap();
    assert_eq!(format!("{url:?}"), "CheckedUrl(https://example.com:8443/…)");
}

/// The ways to write an IPv4 address that clients understand.
fn spellings(address: Ipv4Addr) -> Vec<String> {
    let [a, b, c, d] = address.octets();
    let bits = u32::from(address);
    vec![
        address.to_string(),
        format!("{address}."),
        format!("{bits}"),
        format!("{bits:#x}"),
        format!("{bits:#X}").replace("0X", "0x"),
        format!("0{bits:o}"),
        format!("{a:#x}.{b:#x}.{c:#x}.{d:#x}"),
        format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        format!("{a}.{}", bits & 0x00ff_ffff),
        format!("{a}.{b:#x}.{}", bits & 0xffff),
        format!("[::ffff:{address}]"),
        format!("[0:0:0:0:0:FFFF:{:x}:{:x}]", bits >> 16, bits & 0xffff),
        format!("[64:ff9b::{address}]"),
    ]
}

fn kind_is_allowed(address: Ipv4Addr, allow_private: bool) -> bool {
    kind_of(address.into()).is_allowed(allow_private)
}

proptest! {
    /// However an address is written, the verdict is that of the address.
    #[test]
    fn no_spelling_changes_the_verdict(
        first in prop::sample::select(vec![0_u8, 1, 10, 100, 127, 169, 172, 192, 198, 203, 224]),
        second in prop::sample::select(vec![0_u8, 16, 18, 64, 168, 254, 255]),
        third: u8, fourth: u8, allow_private: bool,
    ) {
        let address = Ipv4Addr::new(first, second, third, fourth);
        let allowed = kind_is_allowed(address, allow_private);
        for spelling in spellings(address) {
            let url = CheckedUrl::parse(&format!("https://{spelling}/"), allow_private);
            prop_assert_eq!(url.is_ok(), allowed, "{} {:?}", spelling, url);
        }
    }

    /// The same for IPv6, long and short.
    #[test]
    fn ipv6_is_judged_as_the_address(high in prop::sample::select(vec![
        0_u16, 0x64, 0x2001, 0x2002, 0x2606, 0xfc00, 0xfe80, 0xff02,
    ]), rest: [u16; 7]) {
        let [b, c, d, e, f, g, h] = rest;
        let address = Ipv6Addr::new(high, b, c, d, e, f, g, h);
        let allowed = kind_of(address.into()).is_allowed(false);
        let long = address.segments().map(|group| format!("{group:04X}")).join(":");
        for spelling in [address.to_string(), long] {
            let url = CheckedUrl::parse(&format!("https://[{spelling}]/"), false);
            prop_assert_eq!(url.is_ok(), allowed, "{}", spelling);
        }
    }

    /// Nothing panics, and what is taken has the form that was promised.
    #[test]
    fn whatever_is_taken_is_https_to_an_allowed_host(text in "(https?:/{0,3})?[ -~äß。０]{0,40}") {
        if let Ok(url) = CheckedUrl::parse(&text, false) {
            let read = Url::parse(url.as_str()).unwrap();
            prop_assert_eq!(read.scheme(), "https");
            prop_assert!(read.username().is_empty() && read.password().is_none());
            prop_assert!(read.fragment().is_none());
            prop_assert!(url.host().contains(['.', ':']));
        }
    }
}
