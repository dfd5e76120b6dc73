use crate::{
    Text,
    zenoh::discovery::{address, fitted},
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
