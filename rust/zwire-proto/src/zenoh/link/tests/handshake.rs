//! Handshakes: the worked examples of `zenoh-wire` 8 byte for byte, each row of 9.1, and opener
//! against acceptor under every configuration.

use super::*;
use crate::{
    Text,
    lending::{ChannelSecret, LendingOffer, LendingTerms},
    zenoh::{
        link::{
            Credentials, QosLink,
            handshake::AuthFailure,
            named::{
                HANDSHAKE_SIZE, HandshakeSegment, HandshakeSegments, NamedGeneration, NamedOffer, NamedTerms,
                OwnSegment,
            },
        },
        wire::{Init, Resolution, TransportMessage},
    },
};
use std::{collections::HashMap, sync::Arc};

const COOKIE_33: &str = "204360778f3d20afa6da4a2269e7726b3ab78874ec8655e9b899d315b2b25b0302";
const COOKIE_49: &str = "30f9e24a58bd6c5a822fbff4cbb1b48c63e9850167bd595cef33b2515b527b1f010b\
                         b13bf6eca1b95c9fe3f6a9e1eec4b4";
const NONCE: u64 = 0x68a4_d56a_44e4_8e9c;

/// E4.
const INIT_SYN: &str = "c10972b8b7b6b5b4b3b2b10ac8ff812701";
/// E5.
const INIT_ACK: &str =
    "e10930a4a3a2a10a00c021204360778f3d20afa6da4a2269e7726b3ab78874ec8655e9b899d315b2b25b0302812701";
/// E6.
const OPEN_SYN: &str = "420ac5effd1a21204360778f3d20afa6da4a2269e7726b3ab78874ec8655e9b899d315b2b25b0302";
/// E7.
const OPEN_ACK: &str = "620ae6cce657";

fn acceptor() -> Acceptor {
    Acceptor::new(acceptor_config(), hex(COOKIE_33))
}

/// Result of an acceptor for a first batch: its answer, or the reason in CLOSE.
fn syn(acceptor: &mut Acceptor, batch: &str) -> Result<Bytes, Option<CloseReason>> {
    match acceptor.handle_batch(hex(batch)) {
        Ok(step) => {
            assert_eq!(step, Step::Continue);
            Ok(acceptor.poll_transmit().unwrap())
        }
        Err(error) => {
            assert_eq!(acceptor.poll_transmit(), None, "the driver sends the CLOSE");
            Err(error.close_reason())
        }
    }
}

/// Reason in the CLOSE of a fresh acceptor to a first batch.
fn refused_syn(batch: &str) -> Option<CloseReason> {
    syn(&mut acceptor(), batch).unwrap_err()
}

/// An acceptor that has answered E4.
fn half_open() -> Acceptor {
    let mut acceptor = acceptor();
    syn(&mut acceptor, INIT_SYN).unwrap();
    acceptor
}

fn refused_open(batch: &str) -> Option<CloseReason> {
    half_open().handle_batch(hex(batch)).unwrap_err().close_reason()
}

/// Reason in the CLOSE of an opener to an INIT ACK.
fn refused_ack(config: HandshakeConfig, batch: &str) -> Option<CloseReason> {
    Opener::new(config).handle_batch(hex(batch)).unwrap_err().close_reason()
}

/// An opener that has sent E6.
fn opening() -> Opener {
    let mut opener = Opener::new(opener_config());
    opener.poll_transmit().unwrap();
    assert_eq!(opener.handle_batch(hex(INIT_ACK)), Ok(Step::Continue));
    assert_eq!(opener.poll_transmit(), Some(hex(OPEN_SYN)));
    opener
}

fn opens_with(change: impl FnOnce(&mut HandshakeConfig)) -> Bytes {
    let mut config = opener_config();
    change(&mut config);
    Opener::new(config).poll_transmit().unwrap()
}

// ---- the examples ----

#[test]
fn e0_minimal_session() {
    let mut acceptor = acceptor();
    let ack = syn(&mut acceptor, "8109220102038127 01").unwrap();
    assert_eq!(ack, hex(&format!("e10930a4a3a2a10a00c021{COOKIE_33}812701")));
    let step = acceptor.handle_batch(hex(&format!("420a0521{COOKIE_33}")));
    let remote = crate::zenoh::Remote { zid: ZenohId::new(0x03_0201).unwrap(), whatami: WhatAmI::Client };
    assert_eq!(step, Ok(Step::Admit(remote)));
    assert_eq!(acceptor.poll_transmit(), None, "nothing before the driver has decided");
    let params = acceptor.admit().unwrap();
    assert_eq!(acceptor.poll_transmit(), Some(hex("620aaff9b36f")));
    assert_eq!((params.batch_size, params.rx_initial_sn, params.tx_initial_sn), (49_152, 5, 233_634_991));
    assert_eq!(params.peer_lease, Duration::from_secs(10));
    assert!(params.qos && params.patch == 1 && !params.compression && !params.low_latency);
}

#[test]
fn e4_to_e7_as_opener() {
    assert_eq!(opens_with(|_| {}), hex(INIT_SYN));
    let Ok(Step::Done(params)) = opening().handle_batch(hex(OPEN_ACK)) else { panic!("not open") };
    assert_eq!((params.tx_initial_sn, params.rx_initial_sn), (56_588_229, 184_133_222));
    assert_eq!((params.batch_size, params.remote.zid), (49_152, router()));
}

#[test]
fn e4_to_e7_as_acceptor() {
    let mut acceptor = acceptor();
    assert_eq!(syn(&mut acceptor, INIT_SYN), Ok(hex(INIT_ACK)));
    assert!(matches!(acceptor.handle_batch(hex(OPEN_SYN)), Ok(Step::Admit(_))));
    let params = acceptor.admit().unwrap();
    assert_eq!(acceptor.poll_transmit(), Some(hex(OPEN_ACK)));
    assert_eq!((params.rx_initial_sn, params.tx_initial_sn), (56_588_229, 184_133_222));
}

#[test]
fn e8_lease_in_milliseconds() {
    let cookie = "206554b7f34779efddaf433a9c584942d964c20c97f5086ae14d906146788abe71";
    let config = HandshakeConfig { lease: Duration::from_millis(2500), ..opener_config() };
    let mut opener = Opener::new(config);
    opener.handle_batch(hex(&format!("e10930a4a3a2a10a00c021{cookie}812701"))).unwrap();
    assert_eq!(opener.poll_transmit(), Some(hex(&format!("02c413c5effd1a21{cookie}"))));
}

#[test]
fn e9_eight_bit_sequence_numbers() {
    let resolution = Resolution::new(0, 2);
    assert_eq!(opens_with(|c| c.resolution = resolution), hex("c10972b8b7b6b5b4b3b2b108c8ff812701"));
    let params = params(|c| c.resolution = resolution);
    assert_eq!((params.tx_initial_sn, params.sn_mask()), (69, 0x7f));
}

#[test]
fn e10_priority_range() {
    let qos_link = QosLink {
        priorities: Some((Priority::RealTime, Priority::Data)),
        reliability: Some(Reliability::Reliable),
    };
    let wire = hex("c10972b8b7b6b5b4b3b2b10ac8ffa18ed0202701");
    assert_eq!(opens_with(|c| c.qos_link = qos_link), wire);
    let mut acceptor = acceptor();
    assert_eq!(acceptor.handle_batch(wire), Ok(Step::Continue));
    assert!(acceptor.poll_transmit().unwrap().ends_with(&hex("a18ed0202701")), "the range comes back");
}

#[cfg(feature = "lz4")]
#[test]
fn e11_compression_and_e12_low_latency() {
    assert_eq!(opens_with(|c| c.compression = true), hex("c10972b8b7b6b5b4b3b2b10ac8ff81862701"));
    let low_latency = |c: &mut HandshakeConfig| (c.qos, c.low_latency) = (false, true);
    assert_eq!(opens_with(low_latency), hex("c10972b8b7b6b5b4b3b2b10ac8ff852701"));
    assert_eq!(opens_with(|c| c.low_latency = true), hex(INIT_SYN), "QoS excludes low latency");
}

#[test]
fn e13_to_e16_user_and_password() {
    let credentials = Some(Credentials { user: "user1".into(), password: "secret".into() });
    let config = HandshakeConfig { credentials, ..opener_config() };
    let users = Arc::new(HashMap::from([(Text::from("user1"), Text::from("secret"))]));
    let mut opener = Opener::new(config);
    let mut acceptor = Acceptor::new(acceptor_config(), hex(COOKIE_49)).with_users(users, NONCE);

    let init_syn = opener.poll_transmit().unwrap();
    assert_eq!(init_syn, hex("c10972b8b7b6b5b4b3b2b10ac8ff81c301022701"));
    acceptor.handle_batch(init_syn).unwrap();
    let init_ack = acceptor.poll_transmit().unwrap();
    let e14 = format!("e10930a4a3a2a10a00c031{COOKIE_49}81c30a229c9d92a7a4adb5d2682701");
    assert_eq!(init_ack, hex(&e14));
    opener.handle_batch(init_ack).unwrap();
    let open_syn = opener.poll_transmit().unwrap();
    let mac = "c7c9ffc777f80b34cea97066cb4c5ff6d33dfbc1cd95cc07777b0906df042a92";
    assert_eq!(open_syn, hex(&format!("c20ac5effd1a31{COOKIE_49}43294227057573657231 20{mac}")));
    assert!(matches!(acceptor.handle_batch(open_syn), Ok(Step::Admit(_))));
    assert_eq!(acceptor.admit().unwrap().user, Some("user1".into()));
    let open_ack = acceptor.poll_transmit().unwrap();
    assert_eq!(open_ack, hex("e20ae6cce657430102"));
    assert!(matches!(opener.handle_batch(open_ack), Ok(Step::Done(_))));
}

#[test]
fn e17_region_name() {
    let name = Some(Text::from("edge"));
    let wire = hex("c10972b8b7b6b5b4b3b2b10ac8ff81a701480465646765");
    assert_eq!(opens_with(|c| c.region_name = name.clone()), wire);
    let (opener, acceptor) = both_params(|c| c.region_name = name.clone());
    assert_eq!((&opener.region_name, &acceptor.region_name), (&name, &name));
}

#[test]
fn e60_pico_without_qos() {
    let mut acceptor = acceptor();
    let ack = syn(&mut acceptor, "c109f28730f9f328b8a83d2b3b91b81f5072040a00082701").unwrap();
    // Its own sizes come back, and no QoS.
    assert_eq!(ack, hex(&format!("e10930a4a3a2a10a000821{COOKIE_33}2701")));
    acceptor.handle_batch(hex(&format!("420a0021{COOKIE_33}"))).unwrap();
    let params = acceptor.admit().unwrap();
    assert_eq!((params.batch_size, params.qos, params.rx_initial_sn), (2048, false, 0));
}

#[test]
fn pico_as_acceptor_gives_an_empty_cookie() {
    let mut opener = Opener::new(opener_config());
    opener.poll_transmit().unwrap();
    opener.handle_batch(hex("e10930a4a3a2a10a0008002701")).unwrap();
    assert_eq!(opener.poll_transmit(), Some(hex("420ac5effd1a00")));
    let Ok(Step::Done(params)) = opener.handle_batch(hex("620a00")) else { panic!("not open") };
    assert_eq!((params.batch_size, params.qos, params.patch), (2048, false, 1));
}

#[test]
fn sizes_are_left_out_only_when_they_are_the_defaults() {
    let config = HandshakeConfig::new(router(), WhatAmI::Router);
    let mut acceptor = Acceptor::new(config, Bytes::new());
    let ack = syn(&mut acceptor, "810922010203812701").unwrap();
    assert_eq!(ack, hex("a10930a4a3a2a100812701"));
}

// ---- 9.1: to an acceptor ----

#[test]
fn version_other_than_9() {
    assert_eq!(refused_syn("c10872b8b7b6b5b4b3b2b10ac8ff812701"), Some(CloseReason::INVALID));
    assert_eq!(refused_syn("c10a72b8b7b6b5b4b3b2b10ac8ff812701"), Some(CloseReason::INVALID));
}

#[test]
fn whatami_3_and_zid_zero() {
    assert_eq!(refused_syn("c10973b8b7b6b5b4b3b2b10ac8ff812701"), Some(CloseReason::INVALID));
    assert_eq!(refused_syn("c1090200 0ac8ff812701"), Some(CloseReason::INVALID));
}

#[test]
fn unknown_mandatory_extension_and_encoding_3() {
    assert_eq!(refused_syn("c10972b8b7b6b5b4b3b2b10ac8ff1e"), Some(CloseReason::INVALID));
    assert_eq!(refused_syn("c10972b8b7b6b5b4b3b2b10ac8ff6e"), Some(CloseReason::INVALID));
}

#[test]
fn truncated_and_empty() {
    let wire = hex(INIT_SYN);
    for cut in 0..wire.len() {
        let error = acceptor().handle_batch(wire.slice(..cut)).unwrap_err();
        assert_eq!(error.close_reason(), Some(CloseReason::INVALID), "cut at {cut}");
    }
    let wire = hex(OPEN_SYN);
    for cut in 0..wire.len() {
        let error = half_open().handle_batch(wire.slice(..cut)).unwrap_err();
        assert_eq!(error.close_reason(), Some(CloseReason::INVALID), "cut at {cut}");
    }
    let too_long = LinkError::TooLong { len: 65_535, max: 65_533 };
    assert_eq!(HandshakeError::from(too_long).close_reason(), Some(CloseReason::INVALID));
}

#[test]
fn anything_but_init_first() {
    for batch in [OPEN_SYN, INIT_ACK, OPEN_ACK, "04", "0300", "25c5effd1a7d0003742f78010176"] {
        assert_eq!(refused_syn(batch), Some(CloseReason::INVALID), "{batch}");
    }
}

#[test]
fn wrong_cookie() {
    assert_eq!(refused_open(&OPEN_SYN.replace("0302", "0303")), Some(CloseReason::INVALID));
    assert_eq!(refused_open("420ac5effd1a00"), Some(CloseReason::INVALID));
}

#[test]
fn a_connected_zid_is_the_drivers_to_refuse() {
    for reason in [CloseReason::MAX_LINKS, CloseReason::INVALID, CloseReason::MAX_SESSIONS] {
        let mut acceptor = half_open();
        assert!(matches!(acceptor.handle_batch(hex(OPEN_SYN)), Ok(Step::Admit(_))));
        let error = acceptor.refuse(reason);
        assert_eq!(error.close_reason(), Some(reason));
        assert_eq!(acceptor.poll_transmit(), Some(Bytes::copy_from_slice(&[0x03, reason.0])));
        assert_eq!(acceptor.admit(), Err(HandshakeError::NobodyWaits));
    }
}

#[test]
fn own_zid_is_told_at_open() {
    let mut acceptor = Acceptor::new(HandshakeConfig::new(client(), WhatAmI::Router), hex(COOKIE_33));
    assert!(syn(&mut acceptor, INIT_SYN).is_ok());
    let error = acceptor.handle_batch(hex(OPEN_SYN)).unwrap_err();
    assert_eq!(error, HandshakeError::ToSelf);
    assert_eq!(error.close_reason(), Some(CloseReason::CONNECTION_TO_SELF));
}

#[test]
fn both_forms_of_qos_and_priority_above_7() {
    assert_eq!(refused_syn("c10972b8b7b6b5b4b3b2b10ac8ff81a18ed0202701"), Some(CloseReason::GENERIC));
    // 0x2 | 8 << 3 | 5 << 11
    assert_eq!(refused_syn("c10972b8b7b6b5b4b3b2b10ac8ffa1c2502701"), Some(CloseReason::GENERIC));
}

#[test]
fn region_name_and_remote_bound_out_of_range() {
    assert_eq!(refused_syn("c10972b8b7b6b5b4b3b2b10ac8ff81a7014800"), Some(CloseReason::GENERIC));
    let long = "61".repeat(33);
    let syn = format!("c10972b8b7b6b5b4b3b2b10ac8ff81a7014821{long}");
    assert_eq!(refused_syn(&syn), Some(CloseReason::GENERIC));
    assert_eq!(refused_open(&format!("c20ac5effd1a21{COOKIE_33}2702")), Some(CloseReason::GENERIC));
    assert!(half_open().handle_batch(hex(&format!("c20ac5effd1a21{COOKIE_33}2701"))).is_ok());
}

#[test]
fn authentication_failure() {
    let users = Arc::new(HashMap::from([(Text::from("user1"), Text::from("other"))]));
    let demanding = || Acceptor::new(acceptor_config(), hex(COOKIE_49)).with_users(users.clone(), NONCE);
    let missing = demanding().handle_batch(hex(INIT_SYN)).unwrap_err();
    assert_eq!(missing, HandshakeError::Auth(AuthFailure::Missing));
    assert_eq!(missing.close_reason(), Some(CloseReason::GENERIC));
    let answers = [
        // The password of E15; no answer; an unknown user.
        (
            AuthFailure::Wrong,
            "4329422705757365723120c7c9ffc777f80b34cea97066cb4c5ff6d33dfbc1cd95cc07777b0906df042a92",
        ),
        (AuthFailure::Missing, "430102"),
        (AuthFailure::Wrong, "43054203017800"),
    ];
    for (failure, answer) in answers {
        let mut acceptor = demanding();
        acceptor.handle_batch(hex("c10972b8b7b6b5b4b3b2b10ac8ff81c301022701")).unwrap();
        let open = hex(&format!("c20ac5effd1a31{COOKIE_49}{answer}"));
        let error = acceptor.handle_batch(open).unwrap_err();
        assert_eq!(error, HandshakeError::Auth(failure), "{answer}");
        assert_eq!(error.close_reason(), Some(CloseReason::GENERIC));
    }
    // The opener offers credentials and the acceptor does not ask.
    let credentials = Some(Credentials { user: "u".into(), password: "p".into() });
    let config = HandshakeConfig { credentials, ..opener_config() };
    assert_eq!(refused_ack(config, INIT_ACK), Some(CloseReason::GENERIC));
}

#[test]
fn close_instead_of_open_is_echoed() {
    assert_eq!(refused_open("0305"), Some(CloseReason::EXPIRED));
}

#[test]
fn initial_sn_outside_the_mask_is_answered_with_silence() {
    // 2^28.
    let mut acceptor = half_open();
    let error = acceptor.handle_batch(hex(&format!("420a8080808001 21{COOKIE_33}"))).unwrap_err();
    assert!(matches!(error, HandshakeError::InitialSn { .. }));
    assert_eq!(error.close_reason(), None);
    assert_eq!(acceptor.poll_transmit(), None);
}

#[test]
fn tolerated() {
    // Reserved flag bits; an unknown optional extension; bytes behind; superfluous zid bytes.
    for syn_batch in [
        "c1097eb8b7b6b5b4b3b2b10ac8ff812701",
        "c10972b8b7b6b5b4b3b2b1fac8ff812701",
        "c10972b8b7b6b5b4b3b2b10ac8ff81a701 4e0141",
        "c10972b8b7b6b5b4b3b2b10ac8ff812701ffff",
        "c10992b8b7b6b5b4b3b2b100000ac8ff812701",
    ] {
        assert_eq!(syn(&mut acceptor(), syn_batch), Ok(hex(INIT_ACK)), "{syn_batch}");
    }
}

#[test]
fn resolution_above_ours_is_answered_with_ours() {
    assert_eq!(syn(&mut acceptor(), "c10972b8b7b6b5b4b3b2b10fc8ff812701"), Ok(hex(INIT_ACK)));
}

/// Eclipse Zenoh accepts such a size unchanged, and breaks (9.4).
#[test]
fn batch_size_below_64_is_refused() {
    for size in ["0000", "0a00", "3f00"] {
        let syn = format!("c10972b8b7b6b5b4b3b2b10a{size}812701");
        assert_eq!(refused_syn(&syn), Some(CloseReason::INVALID), "{size}");
    }
    assert!(syn(&mut acceptor(), "c10972b8b7b6b5b4b3b2b10a4000812701").is_ok());
    assert_eq!(refused_ack(opener_config(), "e10930a4a3a2a10a3f0000812701"), Some(CloseReason::INVALID));
}

#[test]
fn patch_5_is_answered_with_1() {
    assert_eq!(syn(&mut acceptor(), "c10972b8b7b6b5b4b3b2b10ac8ff812705"), Ok(hex(INIT_ACK)));
}

#[test]
fn shared_memory_and_multilink_are_never_answered() {
    assert_eq!(syn(&mut acceptor(), "c10972b8b7b6b5b4b3b2b10ac8ff81c20107c401aa2701"), Ok(hex(INIT_ACK)));
}

// ---- 9.1: to an opener ----

#[test]
fn ack_resolution_above_ours() {
    let narrow = HandshakeConfig { resolution: Resolution::new(1, 2), ..opener_config() };
    assert_eq!(refused_ack(narrow, INIT_ACK), Some(CloseReason::INVALID));
    // A missing size means the defaults, which are above the local ones too.
    let narrow = HandshakeConfig { resolution: Resolution::new(2, 1), ..opener_config() };
    assert_eq!(refused_ack(narrow, "a10930a4a3a2a100812701"), Some(CloseReason::INVALID));
}

#[test]
fn ack_patch_above_ours() {
    assert_eq!(refused_ack(opener_config(), "e10930a4a3a2a10a00c000812702"), Some(CloseReason::GENERIC));
}

#[test]
fn ack_with_unknown_mandatory_extension() {
    assert_eq!(refused_ack(opener_config(), "e10930a4a3a2a10a00c0001e"), Some(CloseReason::INVALID));
}

#[test]
fn acceptor_that_is_a_client_or_ourselves_is_told_after_open_ack() {
    for (ack, reason) in [
        ("e10932a4a3a2a10a00c000812701", CloseReason::GENERIC),
        ("e10970b8b7b6b5b4b3b2b10a00c000812701", CloseReason::CONNECTION_TO_SELF),
    ] {
        let mut opener = Opener::new(opener_config());
        assert_eq!(opener.handle_batch(hex(ack)), Ok(Step::Continue));
        assert_eq!(opener.handle_batch(hex(OPEN_ACK)).unwrap_err().close_reason(), Some(reason));
    }
}

#[test]
fn ack_with_version_8_empty_cookie_no_sizes_no_extensions_is_accepted() {
    let mut opener = Opener::new(opener_config());
    assert_eq!(opener.handle_batch(hex("210830a4a3a2a100")), Ok(Step::Continue));
    let Ok(Step::Done(params)) = opener.handle_batch(hex(OPEN_ACK)) else { panic!("not open") };
    assert_eq!((params.batch_size, params.qos, params.patch), (65_480, false, 0));
}

#[test]
fn ack_with_more_than_was_offered_is_not_taken() {
    let mut opener = Opener::new(HandshakeConfig { qos: false, ..opener_config() });
    opener.handle_batch(hex("e10930a4a3a2a10affff 00 81 85 86 2701")).unwrap();
    let Ok(Step::Done(params)) = opener.handle_batch(hex(OPEN_ACK)) else { panic!("not open") };
    assert!(!params.qos && !params.low_latency && !params.compression);
    assert_eq!(params.batch_size, 65_480, "a larger batch size is tolerated, and not used");
}

#[test]
fn an_opener_that_is_closed_says_nothing() {
    let mut opener = Opener::new(opener_config());
    let error = opener.handle_batch(hex("0304")).unwrap_err();
    assert_eq!(error, HandshakeError::Closed { reason: CloseReason::MAX_LINKS, echo: false });
    assert_eq!(error.close_reason(), None);
    assert_eq!(opening().handle_batch(hex("0307")).unwrap_err().close_reason(), None);
}

#[test]
fn another_node_than_expected() {
    let config = HandshakeConfig { expected: Some(client()), ..opener_config() };
    assert_eq!(refused_ack(config, INIT_ACK), Some(CloseReason::INVALID));
    let config = HandshakeConfig { expected: Some(router()), ..opener_config() };
    assert_eq!(Opener::new(config).handle_batch(hex(INIT_ACK)), Ok(Step::Continue));
}

#[test]
fn an_opener_refuses_what_is_not_the_next_message() {
    assert_eq!(refused_ack(opener_config(), INIT_SYN), Some(CloseReason::INVALID));
    assert_eq!(refused_ack(opener_config(), OPEN_ACK), Some(CloseReason::INVALID));
    let error = opening().handle_batch(hex(INIT_ACK)).unwrap_err();
    assert_eq!(error, HandshakeError::Unexpected { expected: "OPEN ACK", got: "INIT ACK" });
    let error = opening().handle_batch(hex("620a8080808001")).unwrap_err();
    assert_eq!(error.close_reason(), Some(CloseReason::INVALID));
}

// ---- opener against acceptor ----

#[test]
fn both_sides_agree_under_every_configuration() {
    let widths = [Resolution::new(0, 2), Resolution::new(1, 1), Resolution::DEFAULT, Resolution::new(3, 3)];
    let mut sessions = 0;
    for bits in 0..256_u32 {
        for (n, (resolution, other)) in
            widths.into_iter().flat_map(|a| widths.into_iter().map(move |b| (a, b))).enumerate()
        {
            let bit = |n: u32| bits >> n & 1 == 1;
            let sizes = [64, 2048, 49_152, 65_535];
            let opener = HandshakeConfig {
                resolution,
                batch_size: sizes[n % 4],
                qos: bit(0),
                compression: bit(1),
                low_latency: bit(2),
                region_name: bit(3).then(|| "a".into()),
                streamed: bit(7),
                ..HandshakeConfig::new(client(), WhatAmI::Peer)
            };
            let acceptor = HandshakeConfig {
                resolution: other,
                batch_size: sizes[(n / 3) % 4],
                qos: bit(4),
                compression: bit(5),
                low_latency: bit(6),
                streamed: bit(7),
                lease: Duration::from_millis(1234),
                ..HandshakeConfig::new(router(), WhatAmI::Router)
            };
            let (o, a) = (opener.clone(), acceptor.clone());
            let (opened, accepted) = match shake_hands(opener, acceptor) {
                Ok(params) => params,
                Err(error) => panic!("{error}: {o:?} {a:?}"),
            };
            sessions += 1;
            assert_eq!(opened.resolution, o.resolution.min(a.resolution));
            assert_eq!(opened.batch_size, o.batch_size.min(a.batch_size));
            assert_eq!(opened.qos, o.qos && a.qos);
            let low_latency = o.low_latency && a.low_latency && !o.qos && !a.qos;
            assert_eq!(opened.low_latency, low_latency);
            let compression = cfg!(feature = "lz4") && o.compression && a.compression;
            assert_eq!(opened.compression, compression && !low_latency);
            assert_eq!((opened.own_lease, opened.peer_lease), (o.lease, a.lease));
            assert_eq!(accepted.region_name, o.region_name);
            // The other side has the same parameters, with the roles exchanged.
            let mirrored = LinkParams {
                remote: crate::zenoh::Remote { zid: client(), whatami: WhatAmI::Peer },
                tx_initial_sn: opened.rx_initial_sn,
                rx_initial_sn: opened.tx_initial_sn,
                own_lease: opened.peer_lease,
                peer_lease: opened.own_lease,
                region_name: accepted.region_name.clone(),
                ..opened
            };
            assert_eq!(accepted, mirrored);
        }
    }
    assert_eq!(sessions, 4096);
}

#[test]
fn lending_needs_the_offers_of_both() {
    let offer = |byte, door| LendingOffer { secret: ChannelSecret([byte; 16]), door };
    let door = ChannelSecret([9; 16]);
    for bits in 0..4 {
        let opener = (bits & 1 != 0).then(|| offer(1, None));
        let acceptor = (bits & 2 != 0).then(|| offer(2, Some(door)));
        let (opened, accepted) = shake_hands(
            HandshakeConfig { lending: opener, ..opener_config() },
            HandshakeConfig { lending: acceptor, ..acceptor_config() },
        )
        .unwrap();
        let (Some(opener), Some(acceptor)) = (opener, acceptor) else {
            assert_eq!((opened.lending, accepted.lending), (None, None));
            continue;
        };
        let (ours, theirs) = (opener.secret, acceptor.secret);
        assert_eq!(opened.lending, Some(LendingTerms { ours, theirs, door: Some(door) }));
        assert_eq!(accepted.lending, Some(LendingTerms { ours: theirs, theirs: ours, door: None }));
    }
}

/// A node without lending sees no other bytes than before, and one that offers it says nothing of doors to others.
#[test]
fn a_door_is_told_to_nodes_that_have_offered_lending() {
    let door = Some(ChannelSecret([9; 16]));
    let lending = Some(LendingOffer { secret: ChannelSecret([2; 16]), door });
    let config = HandshakeConfig { lending, ..acceptor_config() };
    let mut acceptor = Acceptor::new(config, hex(COOKIE_33));
    assert_eq!(syn(&mut acceptor, INIT_SYN), Ok(hex(INIT_ACK)));
}

/// Segments of two nodes, 1 and 2, the first of which sees itself.
struct Segments(u32);

impl HandshakeSegments for Segments {
    fn own(&self) -> Option<OwnSegment> {
        Some(OwnSegment { number: self.0, challenge: u64::from(self.0) << 40 })
    }

    fn read(&self, number: u32) -> Option<Vec<u8>> {
        let mut segment = HandshakeSegment::encode(u64::from(number) << 40);
        segment.resize(HANDSHAKE_SIZE, 0);
        (number < 3).then_some(segment)
    }
}

#[test]
fn shared_memory_with_names_needs_both_and_gives_way_to_lending() {
    let named = |number| Some(NamedOffer(Arc::new(Segments(number))));
    let terms = |segment| Some(NamedTerms { generation: NamedGeneration::Second, segment, counters: None });
    for (opener, acceptor, expected) in [
        (named(1), named(2), (terms(2), terms(1))),
        (named(1), None, (None, None)),
        (None, named(2), (None, None)),
        // The opener, or the acceptor, cannot read the segment of the other.
        (named(1), named(3), (None, None)),
        (named(3), named(2), (None, None)),
    ] {
        let (opened, accepted) = shake_hands(
            HandshakeConfig { named: opener, ..opener_config() },
            HandshakeConfig { named: acceptor, ..acceptor_config() },
        )
        .unwrap();
        assert_eq!((opened.named, accepted.named), expected);
    }
    let lending = |byte, door| Some(LendingOffer { secret: ChannelSecret([byte; 16]), door });
    let (opened, accepted) = shake_hands(
        HandshakeConfig { named: named(1), lending: lending(1, None), ..opener_config() },
        HandshakeConfig {
            named: named(2),
            lending: lending(2, Some(ChannelSecret([9; 16]))),
            ..acceptor_config()
        },
    )
    .unwrap();
    assert!(opened.lending.is_some() && accepted.lending.is_some());
    assert_eq!((opened.named, accepted.named), (None, None));
}

/// Sends INIT SYN with the segment 1 and OPEN SYN with these bytes as its Shm extension.
fn open_with_shm(shm: &str) -> Result<Step, HandshakeError> {
    let config = HandshakeConfig { named: Some(NamedOffer(Arc::new(Segments(2)))), ..acceptor_config() };
    let mut acceptor = Acceptor::new(config, hex(COOKIE_33));
    let ack = syn(&mut acceptor, "810922010203c2010127 01").unwrap();
    // The challenge of segment 1 is 2 to the power of 40.
    assert!(ack.ends_with(&hex("c207 808080808020 02 2701")), "{ack:02x?}");
    acceptor.handle_batch(hex(&format!("c20a0521{COOKIE_33}{shm}")))
}

#[test]
fn a_peer_that_counts_on_memory_that_is_not_read_is_refused() {
    assert!(matches!(open_with_shm("4207 808080808040 00"), Ok(Step::Admit(_))));
    // No extension that counts: the link goes without.
    assert!(matches!(open_with_shm("0a"), Ok(Step::Admit(_))));
    for wrong in ["4207 808080808020 00", "4206 808080808040", "420f 808080808040 01 0001020304050600"] {
        let error = open_with_shm(wrong).unwrap_err();
        assert!(matches!(error, HandshakeError::Named(_)), "{wrong}: {error}");
        assert_eq!(error.close_reason(), Some(CloseReason::GENERIC));
    }
}

#[test]
fn init_ack_never_exceeds_init_syn() {
    for size in [64, 100, 2048, 65_535] {
        let mut opener = Opener::new(HandshakeConfig { batch_size: size, ..opener_config() });
        let mut acceptor = acceptor();
        acceptor.handle_batch(opener.poll_transmit().unwrap()).unwrap();
        let ack = acceptor.poll_transmit().unwrap();
        let mut r = crate::buf::Reader::new(&ack);
        let Ok(TransportMessage::Init(Init { size: Some((_, answered)), .. })) =
            TransportMessage::decode(&mut r)
        else {
            panic!("no sizes")
        };
        assert!(answered <= size);
    }
}
