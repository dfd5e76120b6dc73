//! The codec of eclipse-zenoh as an oracle: zwire decodes its bytes and encodes them to the same bytes,
//! and the reverse.
//!
//! Intended differences are listed in [`theirs_only`] and [`ours_only`]; every difference found is
//! counted, and each must occur.

#[allow(dead_code, reason = "other tests use the rest")]
mod generate;

use bytes::Bytes;
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};
use std::collections::BTreeMap;
use zenoh_buffers::{reader::HasReader, writer::HasWriter};
use zenoh_codec::{RCodec, WCodec, Zenoh080};
use zenoh_protocol::{
    network as theirs_network, scouting as theirs_scouting,
    transport::{self as theirs_transport, TransportBody, fragment, frame, oam},
};
use zwire_proto::{
    buf::Reader,
    error::DecodeErrorKind,
    zenoh::wire::{
        BatchItem, BatchReader, Declaration, NetworkMessage, OpenMultiLink, ScoutingMessage, TransportMessage,
    },
};

/// Number of random messages of each layer in each direction.
const ROUNDS: usize = 4000;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Decodes a batch with zwire, and encodes it again.
fn again(wire: &Bytes, mut walk: BatchReader<'_>) -> Result<Vec<u8>, zwire_proto::DecodeError> {
    let mut out = Vec::new();
    while let Some(item) = walk.next_item()? {
        match item {
            BatchItem::Transport(message) => message.encode(&mut out),
            BatchItem::Network(message) => message.encode(&mut out),
            BatchItem::Fragment(head, data) => {
                head.encode(&mut out);
                out.extend_from_slice(&data);
            }
        }
    }
    assert_eq!(walk.offset(), wire.len());
    Ok(out)
}

#[test]
fn what_they_write_on_the_network_layer() {
    for _ in 0..ROUNDS {
        for message in [
            theirs_network::NetworkMessage::rand(),
            // Missing from the kinds of the line above.
            theirs_network::NetworkBody::Interest(theirs_network::Interest::rand()).into(),
        ] {
            let mut wire = Vec::new();
            Zenoh080::new().write(&mut wire.writer(), &message).unwrap();
            let wire = Bytes::from(wire);
            let written = again(&wire, BatchReader::low_latency(&wire));
            let written = written.unwrap_or_else(|e| panic!("{e}: {message:?}\n{}", hex(&wire)));
            assert_eq!(hex(&written), hex(&wire), "{message:?}");
        }
    }
}

/// Reason why zwire refuses bytes of eclipse-zenoh.
fn theirs_only(body: &TransportBody, kind: &DecodeErrorKind) -> Option<&'static str> {
    let leased = match body {
        TransportBody::OpenSyn(open) => Some(open.lease),
        TransportBody::OpenAck(open) => Some(open.lease),
        TransportBody::Join(join) => Some(join.lease),
        _ => None,
    };
    match (body, kind) {
        // The acceptor of eclipse-zenoh refuses it too, one step later: `CLOSE 0`.
        (
            TransportBody::InitSyn(_) | TransportBody::InitAck(_),
            DecodeErrorKind::ConflictingExtension { .. },
        ) => Some("both forms of QoS in one INIT"),
        (TransportBody::InitSyn(_) | TransportBody::InitAck(_), DecodeErrorKind::Utf8) => {
            Some("a region name that is not UTF-8")
        }
        (_, DecodeErrorKind::OutOfRange { bound, .. })
            if *bound == u64::MAX / 1000 && leased.is_some_and(|lease| lease.as_secs() > *bound) =>
        {
            Some("a lease of more milliseconds than 64 bits hold")
        }
        _ => None,
    }
}

#[test]
fn what_they_write_on_the_transport_layer() {
    let mut differences: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..ROUNDS {
        let mut message = theirs_transport::TransportMessage::rand();
        // The random byte of eclipse-zenoh has bits above the priority set, which zwire ignores and
        // drops.
        match &mut message.body {
            TransportBody::Frame(m) => m.ext_qos = frame::ext::QoSType::new(m.ext_qos.priority()),
            TransportBody::Fragment(m) => m.ext_qos = fragment::ext::QoSType::new(m.ext_qos.priority()),
            TransportBody::OAM(m) => m.ext_qos = oam::ext::QoSType::new(m.ext_qos.priority()),
            _ => {}
        }
        let mut wire = Vec::new();
        Zenoh080::new().write(&mut wire.writer(), &message).unwrap();
        let wire = Bytes::from(wire);
        match again(&wire, BatchReader::new(&wire)) {
            Ok(written) => assert_eq!(hex(&written), hex(&wire), "{message:?}"),
            Err(error) => {
                let reason = theirs_only(&message.body, &error.kind);
                let reason = reason.unwrap_or_else(|| panic!("{error}: {message:?}\n{}", hex(&wire)));
                *differences.entry(reason).or_default() += 1;
            }
        }
    }
    assert!(differences.len() <= 3, "{differences:?}");
    assert!(differences.contains_key("both forms of QoS in one INIT"), "{differences:?}");
    assert!(differences.values().sum::<usize>() < ROUNDS / 2, "{differences:?}");
}

#[test]
fn what_they_write_on_the_scouting_layer() {
    for _ in 0..ROUNDS {
        let message = theirs_scouting::ScoutingMessage::rand();
        let mut wire = Vec::new();
        Zenoh080::new().write(&mut wire.writer(), &message).unwrap();
        let wire = Bytes::from(wire);
        let mut r = Reader::new(&wire);
        let ours =
            ScoutingMessage::decode(&mut r).unwrap_or_else(|e| panic!("{e}: {message:?}\n{}", hex(&wire)));
        let mut written = Vec::new();
        ours.encode(&mut written);
        assert_eq!(hex(&written), hex(&wire), "{message:?}");
    }
}

/// The same messages in each run.
fn each<S: Strategy>(strategy: S, mut check: impl FnMut(S::Value)) {
    let mut runner = TestRunner::deterministic();
    for _ in 0..ROUNDS {
        check(strategy.new_tree(&mut runner).unwrap().current());
    }
}

/// Reason why eclipse-zenoh refuses bytes of zwire, or encodes them differently.
fn ours_only(message: &NetworkMessage) -> Option<&'static str> {
    match message {
        NetworkMessage::Declare(declare) => match &declare.body {
            Declaration::UndeclareQueryable { key: None, .. }
            | Declaration::UndeclareToken { key: None, .. } => {
                Some("no WireExpr on U_QUERYABLE and U_TOKEN, where they write the null form")
            }
            _ => None,
        },
        _ => None,
    }
}

#[test]
fn what_we_write_on_the_network_layer() {
    let mut differences: BTreeMap<&str, usize> = BTreeMap::new();
    each(generate::network(), |message| {
        let mut wire = Vec::new();
        message.encode(&mut wire);
        let mut reader = wire.as_slice().reader();
        let theirs: Result<theirs_network::NetworkMessage, _> = Zenoh080::new().read(&mut reader);
        let theirs = theirs.unwrap_or_else(|e| panic!("{e:?}: {message:?}\n{}", hex(&wire)));
        let mut written = Vec::new();
        Zenoh080::new().write(&mut written.writer(), &theirs).unwrap();
        if written != wire {
            let reason = ours_only(&message);
            let reason = reason.unwrap_or_else(|| panic!("{message:?}\n{}\n{}", hex(&wire), hex(&written)));
            *differences.entry(reason).or_default() += 1;
        }
    });
    assert_eq!(differences.len(), 1, "{differences:?}");
}

#[test]
fn what_we_write_on_the_transport_layer() {
    each(generate::transport(), |mut message| {
        // eclipse-zenoh built without shared memory skips its extensions, and truncates Patch to eight
        // bits.
        match &mut message {
            TransportMessage::Init(init) => {
                (init.ext.shm, init.ext.lending, init.ext.patch) = (None, None, init.ext.patch & 0xff);
            }
            TransportMessage::Open(open) => {
                open.ext.shm = None;
                // The proof belongs to the SYN, the acceptance to the ACK; zwire decodes both in
                // either.
                if open.cookie.is_some() != matches!(open.ext.multilink, Some(OpenMultiLink::Proof(_))) {
                    open.ext.multilink = None;
                }
            }
            TransportMessage::Join(join) => (join.shm, join.patch) = (None, join.patch & 0xff),
            _ => {}
        }
        let mut wire = Vec::new();
        message.encode(&mut wire);
        let mut reader = wire.as_slice().reader();
        let theirs: Result<theirs_transport::TransportMessage, _> = Zenoh080::new().read(&mut reader);
        let theirs = theirs.unwrap_or_else(|e| panic!("{e:?}: {message:?}\n{}", hex(&wire)));
        let mut written = Vec::new();
        Zenoh080::new().write(&mut written.writer(), &theirs).unwrap();
        assert_eq!(hex(&written), hex(&wire), "{message:?}");
    });
}

#[test]
fn what_we_write_on_the_scouting_layer() {
    each(generate::scouting(), |message| {
        let mut wire = Vec::new();
        message.encode(&mut wire);
        let mut reader = wire.as_slice().reader();
        let theirs: Result<theirs_scouting::ScoutingMessage, _> = Zenoh080::new().read(&mut reader);
        let theirs = theirs.unwrap_or_else(|e| panic!("{e:?}: {message:?}\n{}", hex(&wire)));
        let mut written = Vec::new();
        Zenoh080::new().write(&mut written.writer(), &theirs).unwrap();
        assert_eq!(hex(&written), hex(&wire), "{message:?}");
    });
}
