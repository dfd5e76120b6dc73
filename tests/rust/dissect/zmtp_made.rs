//! Messages that no capture contains: every message of the worked examples in connections made of them.

use super::run::{dissect, faults, json, packets, save};
use serde_json::{Value, json};
use std::{net::SocketAddr, path::PathBuf, time::Duration};
use zwire_dissect::Options;
use zwire_dissect::capture::Direction;
use zwire_proto::{
    pcap::{FrameBuilder, PcapWriter},
    zmtp::wire::{Command as _, Greeting, Mechanism, Metadata, Ready, SocketType},
};

#[expect(clippy::disallowed_methods, reason = "a test reads its vectors")]
fn examples(protocol: &str) -> Vec<Value> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/vectors")
        .join(protocol)
        .join("examples.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn unhex(text: &Value) -> Vec<u8> {
    let text = text.as_str().unwrap();
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// The worked example of ZMTP with that number.
fn zmtp(id: &str) -> Vec<u8> {
    unhex(&examples("zmtp").iter().find(|example| example["id"] == id).unwrap()["bytes"])
}

/// Greeting and READY of a socket.
fn start(socket: SocketType, identity: &'static [u8]) -> Vec<u8> {
    let metadata = Metadata::of_socket(socket, &bytes::Bytes::from_static(identity));
    [&Greeting::new(Mechanism::NULL).to_bytes()[..], &Ready { metadata }.to_frame()].concat()
}

fn message(frames: &[Vec<u8>]) -> Vec<u8> {
    let last = frames.len() - 1;
    let part = |(at, frame): (usize, &Vec<u8>)| {
        [&[u8::from(at < last), u8::try_from(frame.len()).unwrap()], &frame[..]].concat()
    };
    frames.iter().enumerate().flat_map(part).collect()
}

/// The records of both sides, one after the other.
fn lines(client: &[u8], server: &[u8]) -> Vec<Value> {
    let end = |port| SocketAddr::from(([10, 0, 0, 1], port));
    let mut out = PcapWriter::new();
    let mut frames = FrameBuilder::new(end(40_000), end(49_152), [1, 2]);
    let now = Duration::from_secs(1);
    frames.open(now, &mut out);
    frames.data(now, Direction::ToServer, client, &mut out);
    frames.data(now, Direction::ToClient, server, &mut out);
    frames.close(now, Direction::ToServer, &mut out);
    let records = dissect(&out.take().into(), Options::default());
    assert_eq!(faults(&records), Vec::<String>::new());
    records.iter().map(json).collect()
}

const IDENTITY: &[u8] = b"\x01\x0f\x1e\x2d\x3c\x4b\x5a\x69\x78\x87\x96\xa5\xb4\xc3\xd2\xe1\xf0";

/// `zre` 20.2 to 20.6.
#[test]
fn every_message_of_every_generation_is_a_record() {
    let examples = examples("zre");
    for (generation, kind) in [("20/ZRE", "20"), ("zyre 1.0.0", "zyre1"), ("36/ZRE", "36"), ("43/ZRE", "43")]
    {
        let all = || examples.iter().filter(|example| example["generation"] == generation);
        // A HELLO comes first, whichever example it is; messages of zyre 1.0.0 other than HELLO are
        // those of 20/ZRE.
        let frames = |example: &Value| -> Vec<Vec<u8>> {
            example["frames"].as_array().unwrap().iter().map(unhex).collect()
        };
        let (hellos, others): (Vec<_>, Vec<_>) = all().partition(|example| frames(example)[0][2] == 1);
        assert!(!hellos.is_empty(), "{generation}");
        let mut stream = start(SocketType::Dealer, IDENTITY);
        let order: Vec<_> = hellos.into_iter().chain(others).collect();
        for example in &order {
            stream.extend(message(&frames(example)));
        }
        let found: Vec<_> =
            lines(&stream, &[]).into_iter().filter(|line| line["protocol"] == "zre").collect();
        assert_eq!(found.len(), order.len(), "{generation}");
        for (line, example) in found.iter().zip(order) {
            let name = line["message"].as_str().unwrap().to_uppercase().replace('_', "-");
            let meaning = example["meaning"].as_str().unwrap();
            assert!(meaning.starts_with(&name), "{line} {meaning}");
            assert_eq!(
                (&line["kind"], &line["peer"]),
                (&json!(kind), &json!("0F1E2D3C4B5A69788796A5B4C3D2E1F0"))
            );
            let content = frames(example)[1..].len();
            assert_eq!(line["content"].as_array().map_or(0, Vec::len), content, "{line}");
        }
    }
}

/// `zre` 20.8.
#[test]
fn gossip_is_told_whoever_says_it() {
    let examples = examples("zre");
    let mut said = Vec::new();
    for example in examples.iter().filter(|example| example["form"] == "gossip") {
        said.extend(message(&[unhex(&example["frames"][0])]));
    }
    let client = [start(SocketType::Dealer, b""), said.clone()].concat();
    let server = [start(SocketType::Router, b""), said].concat();
    let found: Vec<_> =
        lines(&client, &server).into_iter().filter(|line| line["message"] == "gossip").collect();
    assert_eq!(found.len(), 10);
    let kinds: Vec<_> = found[..5].iter().map(|line| line["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["hello", "ping", "pong", "invalid", "publish"]);
    let publish = &found[4];
    assert_eq!(publish["peer"], "0F1E2D3C4B5A69788796A5B4C3D2E1F0");
    assert_eq!(publish["address"], "tcp://10.99.0.3:49200");
    let key = "0F1E2D3C4B5A69788796A5B4C3D2E1F0";
    assert_eq!(publish["headers"], json!({"key": key, "value": "tcp://10.99.0.3:49200", "ttl": "0"}));
    assert!(found.iter().all(|line| line["protocol"] == "zre"));
}

/// Bytes that begin like gossip and do not decode belong to an application.
#[test]
fn bytes_of_an_application_are_not_taken_for_zre() {
    let mut stream = start(SocketType::Dealer, b"app");
    for frame in [&b"\xaa\xa1\x01\x02"[..], b"\xaa\xa2\x02", b"\xaa\xa0\x09\x01", b"\xaa\xa0"] {
        stream.extend(message(&[frame.to_vec()]));
    }
    let found = lines(&stream, &[]);
    assert_eq!(found.iter().filter(|line| line["message"] == "message").count(), 4, "{found:?}");
}

/// `zmtp` 13.1: a current ROUTER and a DEALER of ZMTP 2.0.
#[test]
fn peers_of_zmtp_2_are_read() {
    let client = [b"\xff\0\0\0\0\0\0\0\x01\x7f\x01\x05\0\x02me".as_slice(), b"\x00\x02hi"].concat();
    let server = [&zmtp("13.1")[..], b"\x01\x00\x00\x03you"].concat();
    let found = lines(&client, &server);
    let words: Vec<_> = found.iter().map(|line| line["message"].as_str().unwrap()).collect();
    assert_eq!(words, ["greeting", "message", "greeting", "message"]);
    let version =
        |socket: &str, identity: &str| json!({"version": "2.0", "Socket-Type": socket, "Identity": identity});
    assert_eq!(found[0]["headers"], version("DEALER", "me"));
    assert_eq!(found[2]["headers"], version("ROUTER", "SRVID"));
    assert_eq!((&found[1]["content"], &found[3]["content"]), (&json!(["aGk="]), &json!(["", "eW91"])));
}

/// `zmtp` 15.5: both forms of a subscription are the same record.
#[test]
fn subscriptions_as_messages_are_subscriptions() {
    let ready = start(SocketType::Sub, b"");
    for (id, topic) in [("15.5.1", "QQ=="), ("15.5.2", "QQ=="), ("15.5.4", "")] {
        let found = lines(&[&ready[..], &zmtp(id)].concat(), &[]);
        let last = found.last().unwrap();
        assert_eq!(
            (last["message"].as_str(), last["kind"].as_str()),
            (Some("command"), Some("subscribe")),
            "{id}"
        );
        assert_eq!(last["payload"], topic);
    }
    // From any other socket type it is a message.
    let found = lines(&[&start(SocketType::Push, b"")[..], &zmtp("15.5.2")].concat(), &[]);
    assert_eq!(found.last().unwrap()["message"], "message");
}

/// A capture that lacks only the opening of connections lacks no message.
#[test]
fn connections_without_their_first_packet_are_whole() {
    for name in ["zre-v2-chat", "zre-v1-rfc20", "zmtp-null"] {
        let packets = packets(name);
        let whole = dissect(&save(&packets), Options::default());
        let is_syn = |packet: &&_| {
            let packet: &zwire_dissect::capture::Packet = packet;
            packet.data[23] == 6 && packet.data[47] & 2 != 0
        };
        let rest: Vec<_> = packets.iter().filter(|packet| !is_syn(packet)).cloned().collect();
        assert!(rest.len() < packets.len());
        let part = dissect(&save(&rest), Options::default());
        assert!(part == whole, "{name}: {} of {}", part.len(), whole.len());
    }
}
