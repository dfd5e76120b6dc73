//! The worked examples of `zre` 20, octet by octet: encoded, decoded, cut at each octet.

use super::*;

const UUID: &str = "0F1E2D3C4B5A69788796A5B4C3D2E1F0";

fn collector(address: Address, endpoint: &'static str) -> Hello {
    Hello {
        address,
        groups: vec![text("CHAT")],
        status: 1,
        name: Bytes::new(),
        headers: vec![(text("X-ZRELOG"), text(endpoint))],
    }
}

/// 20.2, 20.4, 20.6: all messages but HELLO; the header frames differ.
fn others(generation: Generation, version: &str) {
    let group = text("ALERTS");
    let chat = |content: &[&'static str]| Body::Shout {
        group: text("CHAT"),
        content: content.iter().map(|part| text(part)).collect(),
    };
    for (hex, sequence, body) in [
        ("AAA102 V 0002", 2, Body::Whisper { content: vec![text("temp=21.5")] }),
        ("AAA103 V 0003 04 43484154", 3, chat(&["Hello"])),
        ("AAA104 V 0004 06 414C45525453 03", 4, Body::Join { group: group.clone(), status: 3 }),
        ("AAA105 V 0005 06 414C45525453 04", 5, Body::Leave { group, status: 4 }),
        ("AAA106 V 0006", 6, Body::Ping),
        ("AAA107 V 0007", 7, Body::PingOk),
    ] {
        both_ways(generation, &hex.replace('V', version), &message(sequence, body));
    }
    if generation != Generation::Rfc20 {
        both_ways(
            generation,
            &"AAA103 V 0008 04 43484154".replace('V', version),
            &message(8, chat(&["multi", "part"])),
        );
    }
}

#[test]
fn rfc_20() {
    let hex = "AAA10100010931302E39392E302E33C0300204434841540753454E534F525302\
               010B582D524F4C453D65646765";
    both_ways(Generation::Rfc20, hex, &message(1, Body::Hello(hello(Generation::Rfc20))));
    others(Generation::Rfc20, "");

    let hex = "AAA10100010931302E39392E302E33C03001044348415401011E582D5A52454C\
               4F473D7463703A2F2F31302E39392E302E333A3530313030";
    let address = Address::Mailbox { ip: text("10.99.0.3"), port: 49200 };
    let hello = collector(address, "tcp://10.99.0.3:50100");
    assert_eq!(hello.header(Hello::LOG_COLLECTOR), Some(&text("tcp://10.99.0.3:50100")));
    both_ways(Generation::Rfc20, hex, &message(1, Body::Hello(hello)));
}

#[test]
fn zyre_1_0_0() {
    let hex = "AAA10100010931302E39392E302E33C030 00000002 00000004 43484154 00000007\
               53454E534F5253 02 00000001 06 582D524F4C45 00000004 65646765";
    both_ways(Generation::Zyre1, hex, &message(1, Body::Hello(hello(Generation::Zyre1))));
    others(Generation::Zyre1, "");
}

const HELLO_36: &str = "AAA101 V 0001 15 7463703A2F2F31302E39392E302E333A3439323030 00000002\
                        00000004 43484154 00000007 53454E534F5253 02 05 6564676531 00000001\
                        06 582D524F4C45 00000004 65646765";

#[test]
fn rfc_36() {
    let generation = Generation::Rfc36;
    both_ways(generation, &HELLO_36.replace('V', "02"), &message(1, Body::Hello(hello(generation))));
    others(generation, "02");
}

/// "Literal form (version octet 3): not checked against any peer, none exists."
#[test]
fn rfc_43_to_the_letter() {
    let generation = Generation::Rfc43;
    both_ways(generation, &HELLO_36.replace('V', "03"), &message(1, Body::Hello(hello(generation))));
    others(generation, "03");
}

#[test]
fn rfc_43_as_zyre_speaks_it() {
    let hex = "AAA101020001157463703A2F2F31302E39392E302E333A34393230300000000100000004434841540105\
               6564676531000000010B582D5055424C49434B4559000000 28\
               61722E7B4E6251423D2B635B6352406567264663664 64C7373673D6D664969352532596A75553E29";
    let key: [u8; 32] = core::array::from_fn(|i| 0x20 + i as u8);
    let hello = Hello {
        groups: vec![text("CHAT")],
        status: 1,
        headers: vec![(text("X-PUBLICKEY"), text("ar.{NbQB=+c[cR@eg&FcfFLssg=mfIi5%2YjuU>)"))],
        ..hello(Generation::Rfc36)
    };
    assert_eq!(hello.public_key(), Some(key));
    both_ways(Generation::Rfc36, hex, &message(1, Body::Hello(hello)));
}

#[test]
fn what_zyre_added() {
    let digits: String = UUID.bytes().map(|octet| format!("{octet:02X}")).collect();
    let (group, id) = (text("CHAT"), text(UUID));
    let elect = Body::Elect { group: group.clone(), challenger: id.clone() };
    let leader = Body::Leader { group, leader: id };
    let generation = Generation::Rfc36;
    both_ways(generation, &format!("AAA108020009 04 43484154 20 {digits}"), &message(9, elect));
    both_ways(generation, &format!("AAA10902000A 04 43484154 20 {digits}"), &message(10, leader));
    both_ways(generation, "AAA10A02000B", &message(11, Body::Goodbye));
}
