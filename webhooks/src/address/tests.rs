//! Every range, its edges, and every way to pack an IPv4 address into IPv6.
#![allow(clippy::unwrap_used)]

use super::AddressKind::{
    CarrierShared, LinkLocal, Loopback, Metadata, Multicast, Private, Public, Reserved, Tunnel,
    Unspecified,
};
use super::*;
use proptest::prelude::*;

fn kind(text: &str) -> AddressKind {
    kind_of(text.parse().unwrap())
}

#[test]
fn ranges_of_ipv4_with_their_edges() {
    let table = [
        ("0.0.0.0", Unspecified),
        ("0.255.255.255", Unspecified),
        ("1.0.0.0", Public),
        ("9.255.255.255", Public),
        ("10.0.0.0", Private),
        ("10.255.255.255", Private),
        ("11.0.0.0", Public),
        ("100.63.255.255", Public),
        ("100.64.0.0", CarrierShared),
        ("100.127.255.255", CarrierShared),
        ("100.100.100.200", Metadata),
        ("100.128.0.0", Public),
        ("126.255.255.255", Public),
        ("127.0.0.0", Loopback),
        ("127.0.0.1", Loopback),
        ("127.255.255.255", Loopback),
        ("128.0.0.0", Public),
        ("168.63.129.16", Metadata),
        ("168.63.129.17", Public),
        ("169.253.255.255", Public),
        ("169.254.0.0", LinkLocal),
        ("169.254.169.254", Metadata),
        ("169.254.170.2", LinkLocal),
        ("169.254.255.255", LinkLocal),
        ("169.255.0.0", Public),
        ("172.15.255.255", Public),
        ("172.16.0.0", Private),
        ("172.31.255.255", Private),
        ("172.32.0.0", Public),
        ("192.0.0.0", Reserved),
        ("192.0.0.192", Metadata),
        ("192.0.1.0", Public),
        ("192.0.2.1", Reserved),
        ("192.0.3.0", Public),
        ("192.88.99.1", Reserved),
        ("192.167.255.255", Public),
        ("192.168.0.0", Private),
        ("192.168.255.255", Private),
        ("192.169.0.0", Public),
        ("198.17.255.255", Public),
        ("198.18.0.0", Reserved),
        ("198.19.255.255", Reserved),
        ("198.20.0.0", Public),
        ("198.51.100.7", Reserved),
        ("203.0.113.7", Reserved),
        ("223.255.255.255", Public),
        ("224.0.0.0", Multicast),
        ("239.255.255.255", Multicast),
        ("240.0.0.0", Reserved),
        ("255.255.255.255", Reserved),
    ];
    for (text, expected) in table {
        assert_eq!(kind(text), expected, "{text}");
    }
}

#[test]
fn ranges_of_ipv6_with_their_edges() {
    let table = [
        ("::", Unspecified),
        ("::1", Loopback),
        ("::2", Tunnel),
        ("::127.0.0.1", Tunnel),
        ("::8.8.8.8", Tunnel),
        ("::1:0:0:0", Reserved),
        ("64:ff9b::8.8.8.8", Public),
        ("64:ff9b::127.0.0.1", Loopback),
        ("64:ff9b::169.254.169.254", Metadata),
        ("64:ff9b:0:1::8.8.8.8", Reserved),
        ("64:ff9b:1::8.8.8.8", Private),
        ("64:ff9c::1", Reserved),
        ("100::1", Reserved),
        ("1fff:ffff::", Reserved),
        ("2001::1", Tunnel),
        ("2001:2::1", Reserved),
        ("2001:10::1", Reserved),
        ("2001:1ff:ffff::", Reserved),
        ("2001:200::", Public),
        ("2001:db7:ffff::", Public),
        ("2001:db8::1", Reserved),
        ("2001:db9::1", Public),
        ("2001:4860:4860::8888", Public),
        ("2002:7f00:1::", Tunnel),
        ("2002:808:808::", Tunnel),
        ("2003::1", Public),
        ("2606:4700::1111", Public),
        ("2606:4700::5efe:a00:1", Tunnel),
        ("2606:4700::200:5efe:a00:1", Tunnel),
        ("2606:4700::201:5efe:a00:1", Public),
        ("3fff::1", Reserved),
        ("3fff:fff:ffff::", Reserved),
        ("3fff:1000::", Public),
        ("4000::", Reserved),
        ("5f00::1", Reserved),
        ("fbff:ffff::", Reserved),
        ("fc00::", Private),
        ("fd00:ec2::254", Metadata),
        ("fd20:ce::254", Metadata),
        ("fd12:3456:789a::1", Private),
        ("fdff:ffff::", Private),
        ("fe00::", Reserved),
        ("fe80::1", LinkLocal),
        ("febf:ffff::", LinkLocal),
        ("fec0::1", Private),
        ("ff02::1", Multicast),
        ("ffff::", Multicast),
    ];
    for (text, expected) in table {
        assert_eq!(kind(text), expected, "{text}");
    }
}

#[test]
fn the_switch_opens_private_networks_and_nothing_else() {
    let opened = [Loopback, Private, CarrierShared];
    let never = [LinkLocal, Metadata, Unspecified, Multicast, Tunnel, Reserved];
    for kind in opened {
        assert!(!kind.is_allowed(false) && kind.is_allowed(true), "{kind}");
    }
    for kind in never {
        assert!(!kind.is_allowed(false) && !kind.is_allowed(true), "{kind}");
    }
    assert!(Public.is_allowed(false) && Public.is_allowed(true));
}

proptest! {
    /// Whatever the standard library calls special is not public here.
    #[test]
    fn no_ipv4_the_standard_library_calls_special_is_public(bits: u32) {
        let address = Ipv4Addr::from(bits);
        let special = address.is_private() || address.is_loopback() || address.is_link_local()
            || address.is_broadcast() || address.is_documentation() || address.is_multicast()
            || address.is_unspecified();
        prop_assert!(!special || kind_of(address.into()) != Public, "{address}");
    }

    /// The same for the low addresses of every range, which an even spread rarely meets.
    #[test]
    fn packing_does_not_change_what_an_address_is(
        first in prop::sample::select(vec![0_u8, 8, 10, 100, 127, 169, 172, 192, 198, 203, 224, 255]),
        second: u8, third: u8, fourth: u8,
    ) {
        let inner = Ipv4Addr::new(first, second, third, fourth);
        let expected = kind_of(inner.into());
        prop_assert_eq!(kind_of(inner.to_ipv6_mapped().into()), expected);
        let [high, low] = [u16::from_be_bytes([first, second]), u16::from_be_bytes([third, fourth])];
        let nat64 = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low);
        prop_assert_eq!(kind_of(nat64.into()), expected);
        let six_to_four = Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1);
        prop_assert!(!kind_of(six_to_four.into()).is_allowed(true));
        let teredo = Ipv6Addr::new(0x2001, 0, 1, 1, 0, 0, !high, !low);
        prop_assert!(!kind_of(teredo.into()).is_allowed(true));
        let compatible = Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low);
        prop_assert!(kind_of(compatible.into()) != Public);
    }

    /// Public IPv6 is global unicast or a packed public IPv4 address.
    #[test]
    fn public_ipv6_is_global_unicast(bits: u128) {
        let address = Ipv6Addr::from(bits);
        let unicast = address.segments()[0] & 0xe000 == 0x2000;
        prop_assert!(unicast || kind_of(address.into()) != Public, "{address}");
    }
}
