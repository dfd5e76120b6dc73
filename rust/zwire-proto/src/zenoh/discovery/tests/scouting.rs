use super::{at, zid};
use crate::{
    Text,
    zenoh::{
        WhatAmI,
        discovery::{Found, MAX_TRIED_LOCATORS, Scouting, ScoutingConfig, Transmit},
    },
};
use bytes::Bytes;
use core::net::SocketAddr;

const PEER: ScoutingConfig = ScoutingConfig { zid: ONE, whatami: WhatAmI::Peer, what: 7, answer: true };
const ONE: crate::zenoh::ZenohId = match crate::zenoh::ZenohId::new(1) {
    Some(zid) => zid,
    None => unreachable!(),
};

fn from(last: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], port))
}

fn hello(zid: u128, whatami: WhatAmI, locators: &[&str]) -> Bytes {
    let config = ScoutingConfig { zid: super::zid(zid), whatami, what: 0, answer: true };
    Scouting::new(config, at(0)).hello(locators.iter().map(|text| Text::from(*text)).collect())
}

#[test]
fn it_asks_after_1_2_4_8_and_8_seconds() {
    let mut scouting = Scouting::new(PEER, at(0));
    let mut asked = Vec::new();
    while let Some(due) = scouting.poll_timeout().filter(|due| due.as_secs() < 40) {
        scouting.handle_timeout(crate::Now::at(due));
        // The bytes that Eclipse Zenoh sends.
        assert_eq!(scouting.poll_transmit(), Some(Transmit::Scout(Bytes::from_static(&[0x01, 0x09, 0x07]))));
        asked.push(due.as_secs());
        assert!(asked.len() < 20);
    }
    assert_eq!(asked, [0, 1, 3, 7, 15, 23, 31, 39]);
    scouting.restart(at(39_500));
    scouting.handle_timeout(at(39_500));
    assert!(scouting.poll_transmit().is_some(), "another network is asked at once");
    assert_eq!(scouting.poll_timeout().unwrap().as_millis(), 40_500);
}

#[test]
fn a_router_asks_nobody_and_answers() {
    let config = ScoutingConfig { whatami: WhatAmI::Router, what: 0, ..PEER };
    let mut router = Scouting::new(config, at(0));
    router.restart(at(0));
    assert_eq!(router.poll_timeout(), None);
    for (n, (scout, answered)) in
        [("010901", true), ("010902", false), ("010907", true), ("010807", true), ("010900", false)]
            .into_iter()
            .enumerate()
    {
        let asker = from(1, 1000 + n as u16);
        let datagram: Vec<u8> =
            (0..scout.len()).step_by(2).map(|i| u8::from_str_radix(&scout[i..i + 2], 16).unwrap()).collect();
        router.handle_datagram(at(0), asker, &datagram.into());
        let answer = router.poll_transmit();
        assert_eq!(answer, answered.then_some(Transmit::Answer { to: asker }), "{scout}");
    }
    let mut mute = Scouting::new(ScoutingConfig { answer: false, ..config }, at(0));
    mute.handle_datagram(at(0), from(1, 1), &Bytes::from_static(&[1, 9, 7]));
    assert_eq!(mute.poll_transmit(), None);
}

#[test]
fn answers_are_heard() {
    let mut scouting = Scouting::new(ScoutingConfig { what: 3, ..PEER }, at(0));
    scouting.handle_datagram(at(0), from(9, 5), &hello(7, WhatAmI::Router, &["tcp/10.0.0.9:7447"]));
    let found = Found {
        zid: zid(7),
        whatami: WhatAmI::Router,
        locators: vec!["tcp/10.0.0.9:7447".into()],
        from: from(9, 5),
    };
    assert_eq!(scouting.poll_found(), Some(found));
    scouting.handle_datagram(at(0), from(9, 5), &hello(8, WhatAmI::Client, &["tcp/10.0.0.9:7447"]));
    scouting.handle_datagram(at(0), from(9, 5), &hello(1, WhatAmI::Peer, &["tcp/10.0.0.9:7447"]));
    assert_eq!(scouting.poll_found(), None, "a role that is not looked for, and ourselves");
    scouting.handle_datagram(at(0), from(9, 5), &Bytes::from_static(b"\x1fnonsense"));
    assert_eq!((scouting.stats().hellos, scouting.stats().malformed), (3, 1));
    let many: Vec<String> = (0..200).map(|n| format!("tcp/10.0.0.9:{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    scouting.handle_datagram(at(0), from(9, 5), &hello(9, WhatAmI::Peer, &many));
    assert_eq!(scouting.poll_found().unwrap().locators.len(), MAX_TRIED_LOCATORS);
}

#[test]
fn one_asker_is_answered_once_at_a_time() {
    let mut scouting = Scouting::new(PEER, at(0));
    let scout = Bytes::from_static(&[1, 9, 7]);
    let mut answers = 0;
    for ms in 0..1000 {
        scouting.handle_datagram(at(ms), from(1, 1), &scout);
        while scouting.poll_transmit().is_some() {
            answers += 1;
        }
    }
    assert_eq!(answers, 5);
}

#[test]
fn floods_cost_a_bounded_number_of_answers() {
    let mut scouting = Scouting::new(PEER, at(0));
    let scout = Bytes::from_static(&[1, 9, 7]);
    let (mut answers, mut found) = (0_u32, 0_u32);
    for n in 0..200_000_u32 {
        let now = at(u64::from(n / 20));
        let asker = SocketAddr::from((n.to_be_bytes(), 1));
        scouting.handle_datagram(now, asker, &scout);
        let fake = hello(u128::from(n) + 2, WhatAmI::Peer, &["tcp/10.0.0.9:7447"]);
        scouting.handle_datagram(now, asker, &fake);
        while scouting.poll_transmit().is_some() {
            answers += 1;
        }
        while scouting.poll_found().is_some() {
            found += 1;
        }
    }
    // In ten seconds: the burst and the rate.
    assert!((2900..3100).contains(&answers), "{answers}");
    assert!((6900..7100).contains(&found), "{found}");
    assert!(scouting.stats().flooded > 300_000);
    // A driver that polls nothing costs no memory either.
    let mut idle = Scouting::new(PEER, at(0));
    for n in 0..10_000_u32 {
        idle.handle_datagram(at(0), SocketAddr::from((n.to_be_bytes(), 1)), &scout);
        idle.handle_datagram(at(0), from(1, 1), &hello(u128::from(n) + 2, WhatAmI::Peer, &[]));
    }
    let waiting = core::iter::from_fn(|| idle.poll_transmit()).count()
        + core::iter::from_fn(|| idle.poll_found()).count();
    assert!(waiting <= 320, "{waiting}");
}
