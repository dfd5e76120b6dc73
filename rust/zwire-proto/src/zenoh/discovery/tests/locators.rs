use crate::{
    Text,
    zenoh::discovery::{GossipReach, address, fitted},
    zre::node::Interface,
};

fn told_to(asker: &str, locators: &[&str]) -> Vec<String> {
    let network = |address: &str, prefix| Interface { address: address.parse().unwrap(), prefix };
    let networks = [network("127.0.0.1", 8), network("192.168.1.5", 24), network("10.0.0.5", 8)];
    let locators: Vec<Text> = locators.iter().map(|text| Text::from(*text)).collect();
    let told = fitted(&locators, asker.parse().unwrap(), &networks);
    told.into_iter().map(|text| text.as_str().to_owned()).collect()
}

#[test]
fn loopback_is_told_on_this_machine_only() {
    let all = ["tcp/192.168.1.5:7447", "tcp/127.0.0.1:7447", "tcp/[::1]:7447"];
    assert_eq!(told_to("127.0.0.1", &all), ["tcp/127.0.0.1:7447", "tcp/[::1]:7447", "tcp/192.168.1.5:7447"]);
    assert_eq!(told_to("192.168.1.9", &all), ["tcp/192.168.1.5:7447"]);
    assert_eq!(told_to("192.168.1.5", &all).len(), 3, "asked on an address of ours");
    assert_eq!(told_to("0.0.0.0", &all).len(), 3, "sent over the loopback of a host that has nothing else");
    assert_eq!(told_to("192.168.1.9", &["unixsock-stream/tmp/a"]).len(), 0);
    assert_eq!(told_to("127.0.0.1", &["unixsock-stream/tmp/a"]).len(), 1);
    assert_eq!(told_to("::ffff:192.168.1.9", &all), ["tcp/192.168.1.5:7447"]);
}

#[test]
fn what_is_in_the_network_of_the_asker_comes_first() {
    let all = ["tcp/192.168.1.5:7447", "tls/host.example:7447", "tcp/10.0.0.5:7447?rel=1"];
    assert_eq!(
        told_to("10.1.2.3", &all),
        ["tcp/10.0.0.5:7447?rel=1", "tcp/192.168.1.5:7447", "tls/host.example:7447"]
    );
    assert_eq!(told_to("172.16.0.1", &all), all, "of no network of ours");
}

#[test]
fn addresses_of_locators() {
    assert_eq!(address("udp/10.0.0.1:7447?rel=0").unwrap().port(), 7447);
    assert_eq!(address("tcp/[fe80::1]:1#iface=eth0").unwrap().port(), 1);
    for text in ["tcp/localhost:7447", "unixsock-stream/tmp/a", "tcp", ""] {
        assert_eq!(address(text), None, "{text}");
    }
}

#[test]
fn gossip_leads_to_networks_of_the_kind_of_its_link() {
    let network = |text: &str| {
        let (address, prefix) = text.split_once('/').unwrap();
        Interface { address: address.parse().unwrap(), prefix: prefix.parse().unwrap() }
    };
    let own =
        ["127.0.0.1/8", "::1/128", "192.168.1.5/24", "203.0.113.5/24", "fe80::5/64", "2001:db8:1::5/64"];
    let may = |teller: &str, listed: &[&str], locator: &str| {
        let teller = (!teller.is_empty()).then(|| teller.parse().unwrap());
        let listed = listed.iter().map(|text| network(text)).collect();
        let reach = GossipReach { teller, own: own.iter().map(|text| network(text)).collect(), listed };
        reach.allows_locator(locator)
    };
    for (teller, locator, allowed) in [
        // A program of this host may tell of all nodes.
        ("127.0.0.1", "tcp/127.0.0.1:1", true),
        ("192.168.1.5", "tcp/127.0.0.1:1", true),
        ("", "tcp/8.8.8.8:1", true),
        ("127.0.0.1", "unixsock-stream/a", true),
        ("127.0.0.1", "tcp/0.0.0.0:1", false),
        ("127.0.0.1", "udp/224.0.0.1:1", false),
        // Another host may not tell of loopback.
        ("192.168.1.9", "tcp/127.0.0.1:1", false),
        ("192.168.1.9", "tcp/[::ffff:127.0.0.1]:1", false),
        ("192.168.1.9", "tcp/[::1]:1", false),
        ("192.168.1.9", "unixsock-stream/a", false),
        // Private networks lead to private ones, public to public.
        ("192.168.1.9", "tcp/192.168.1.7:1", true),
        ("192.168.1.9", "tcp/10.20.30.40:1", true),
        ("192.168.1.9", "tcp/100.64.0.1:1", true),
        ("192.168.1.9", "tcp/8.8.8.8:1", false),
        ("8.8.8.8", "tcp/8.8.4.4:1", true),
        ("8.8.8.8", "tcp/192.168.1.7:1", false),
        ("8.8.8.8", "tcp/[fd00::1]:1", false),
        ("8.8.8.8", "tcp/169.254.1.1:1", false),
        // A host in a public network of this one is a neighbour.
        ("203.0.113.9", "tcp/203.0.113.7:1", true),
        ("203.0.113.9", "tcp/10.0.0.1:1", true),
        ("2001:db8:1::9", "tcp/192.168.1.7:1", true),
        ("2001:db8:2::9", "tcp/192.168.1.7:1", false),
        ("fe80::9", "tcp/192.168.1.7:1", true),
        ("fe80::9", "tcp/[fe80::7]:1", true),
        ("192.168.1.9", "tcp/[fe80::7]:1", false),
        // A name is judged when it is resolved.
        ("8.8.8.8", "tls/robot.example:7447", true),
    ] {
        assert_eq!(may(teller, &[], locator), allowed, "{teller} tells of {locator}");
    }
    let listed = ["10.0.0.0/8", "fd00::/8"];
    assert!(may("8.8.8.8", &listed, "tcp/10.1.1.1:1") && may("127.0.0.1", &listed, "tcp/[fd12::1]:1"));
    assert!(!may("127.0.0.1", &listed, "tcp/127.0.0.1:1") && !may("10.0.0.1", &listed, "tcp/11.0.0.1:1"));
    assert!(!may("10.0.0.1", &["0.0.0.0/0"], "udp/224.0.0.1:1"));
}
