//! Sentences of 20/ZRE about sockets; `docs/zre-conformance.md` names these tests.

use super::{LogCollector, Node, NodeOptions, RECORDS, interfaces::Selector};
use core::{net::Ipv4Addr, time::Duration};
use zwire_proto::zre::Uuid;

/// `%C000x - %FFFFx`.
const DYNAMIC: core::ops::RangeInclusive<u16> = 0xC000..=0xFFFF;

fn port(endpoint: &str) -> u16 {
    endpoint.rsplit_once(':').unwrap().1.parse().unwrap()
}

/// "Each node SHALL create a ZeroMQ ROUTER socket and bind this to an ephemeral TCP port (in the range
/// %C000x - %FFFFx)."
#[test]
fn a_mailbox_has_a_dynamic_port() {
    let mut options = NodeOptions::new(Uuid::from_bytes([7; 16]));
    options.machine.beacon_interval = None;
    options.interfaces = vec![Selector::address(Ipv4Addr::LOCALHOST)];
    let node = Node::new(options).unwrap();
    node.start().unwrap();
    let endpoint = node.endpoint().unwrap();
    assert!(DYNAMIC.contains(&port(&endpoint)), "{endpoint}");
    node.stop(Duration::ZERO, &mut || false).unwrap();
}

/// "The log service SHALL create a ZeroMQ SUB socket and bind this to an ephemeral TCP port (in the range
/// %C000x - %FFFFx)."
#[test]
fn a_collector_has_a_dynamic_port() {
    for endpoint in ["tcp://127.0.0.1:*", "tcp://127.0.0.1:0"] {
        // Several at once: a port that is taken is passed over.
        let all: Vec<_> =
            (0..4).map(|_| LogCollector::bind_bounded(endpoint, None, RECORDS).unwrap()).collect();
        for collector in &all {
            assert!(DYNAMIC.contains(&port(collector.endpoint())), "{}", collector.endpoint());
        }
    }
}
