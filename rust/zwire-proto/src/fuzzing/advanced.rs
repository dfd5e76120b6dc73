//! Fuzz body of advanced publishers and subscribers: numbers, heartbeats, tokens, queries.

use crate::{
    Now,
    zenoh::{
        KeyExpr, Ntp64, Parameters, Qos, Reliability, Timestamp, ZenohId,
        advanced::{
            AdvancedSubscriber, Answered, AskId, Cache, History, Output, Recovery, SubscriberConfig,
            decode_heartbeat, encode_heartbeat,
        },
        session::Sample,
        wire::{PushBody, Put, SourceInfo},
    },
};
use core::time::Duration;

const PENDING: usize = 20;
const SOURCES: usize = 3;
const ZID: u128 = 0x1e;

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn sample(key: &str, put: Put) -> Option<Sample> {
    Some(Sample::new(key.parse().ok()?, PushBody::Put(put), Qos::DEFAULT, Reliability::Reliable))
}

#[allow(clippy::cast_possible_truncation, reason = "any number will do")]
fn numbered(eid: u8, bytes: &[u8]) -> Option<Sample> {
    let zid = ZenohId::new(ZID)?;
    let info = SourceInfo { zid, eid: u32::from(eid), sn: number(bytes) as u32 };
    sample("a", Put { source_info: Some(Box::new(info)), ..Put::new("x") })
}

fn stamped(key: &str, bytes: &[u8]) -> Option<Sample> {
    let timestamp = Some(Timestamp { time: Ntp64(number(bytes)), id: ZenohId::new(ZID)? });
    sample(key, Put { timestamp, ..Put::new("x") })
}

/// Drains the outputs of the subscriber.
fn drain(subscriber: &mut AdvancedSubscriber, asks: &mut Vec<AskId>) {
    while let Some(output) = subscriber.poll_output() {
        match output {
            Output::Ask(ask) => {
                // A query of a recovery never carries an empty `_sn`.
                assert!(!Parameters::new(ask.parameters).get("_sn").is_some_and(str::is_empty));
                asks.push(ask.id);
            }
            Output::Miss(miss) => assert!(miss.count > 0),
            Output::Sample(_) => {}
        }
    }
    let (held, _) = subscriber.pending();
    let (windows, lines) = subscriber.sources();
    assert!(held <= PENDING && windows <= SOURCES && lines <= SOURCES);
}

/// Runs the bytes as a script: the configuration of the subscriber, then pieces that each begin with an
/// operation, its target and a length.
pub fn advanced(script: &[u8]) {
    let mut config = SubscriberConfig::new(KeyExpr::new("a/**").expect("a key"));
    let mode = script.first().copied().unwrap_or_default();
    config.history = (mode & 1 != 0).then(|| History { late: mode & 2 != 0, ..History::default() });
    config.recovery = match mode >> 2 & 3 {
        0 => None,
        1 => Some(Recovery::Periodic(Duration::from_millis(100))),
        _ => Some(Recovery::Heartbeat),
    };
    (config.max_pending, config.max_sources) = (PENDING, SOURCES);
    let mut subscriber = AdvancedSubscriber::new(config);
    let mut cache = Cache::new(usize::from(mode >> 4));
    let (mut asks, mut at) = (Vec::new(), 1);
    let mut now = Now::at(Duration::from_secs(1));
    drain(&mut subscriber, &mut asks);
    while let [what, who, len, rest @ ..] = script.get(at..).unwrap_or_default() {
        let bytes = &rest[..rest.len().min(usize::from(*len))];
        at += 3 + bytes.len();
        let text = core::str::from_utf8(bytes).unwrap_or_default();
        now.mono += Duration::from_millis(u64::from(what >> 3) * 100);
        subscriber.handle_timeout(now);
        drain(&mut subscriber, &mut asks);
        let place = usize::from(*who).checked_rem(asks.len());
        match what & 7 {
            0 => {
                if let Some(sample) = numbered(who & 7, bytes) {
                    subscriber.handle_sample(now, sample);
                }
            }
            1 => {
                let key = if *who < 128 { text.to_owned() } else { format!("a/{}", who & 7) };
                if let Some(sample) = stamped(&key, bytes) {
                    subscriber.handle_sample(now, sample);
                }
            }
            2 => {
                if let Ok(key) = KeyExpr::new(format!("a/@adv/pub/1e/{}/_", who & 7)) {
                    subscriber.handle_heartbeat(now, &key, bytes);
                }
                if let Some(last) = decode_heartbeat(bytes) {
                    assert_eq!(&encode_heartbeat(last)[..], bytes);
                }
            }
            3 => {
                if let Ok(key) = KeyExpr::new(text) {
                    subscriber.handle_heartbeat(now, &key, &[*who, 0, 0, 0]);
                }
            }
            4 => {
                if let Ok(key) = KeyExpr::new(text) {
                    subscriber.handle_token(now, &key, who & 1 != 0);
                }
            }
            5 => {
                if let (Some(place), Some(sample)) = (place, numbered(who & 7, bytes)) {
                    subscriber.handle_reply(now, asks[place], sample);
                }
            }
            6 => {
                if let Some(place) = place {
                    let how = match bytes {
                        [0, ..] => Answered::NotAsked,
                        [1, ..] => Answered::Partly,
                        _ => Answered::Fully,
                    };
                    subscriber.handle_answered(now, asks.swap_remove(place), how);
                }
            }
            _ => {
                let mut answer = cache.answer(&Parameters::new(text), now.wall);
                let mut most = cache.len();
                loop {
                    let some = cache.next(&mut answer, 2);
                    if some.is_empty() {
                        break;
                    }
                    assert!(some.len() <= most);
                    most -= some.len();
                }
                if let Some(sample) = numbered(7, &[*who; 4]) {
                    let (source_info, timestamp) = (sample.source_info, sample.timestamp);
                    cache.keep(PushBody::Put(Put { source_info, timestamp, ..Put::new("x") }));
                }
                assert!(cache.len() <= usize::from(mode >> 4));
            }
        }
        drain(&mut subscriber, &mut asks);
    }
    // Once every query is answered no sample may stay queued.
    for _ in 0..1000 {
        for ask in core::mem::take(&mut asks) {
            subscriber.handle_answered(now, ask, Answered::Fully);
            drain(&mut subscriber, &mut asks);
        }
        if subscriber.pending() == (0, 0) {
            return;
        }
        now.mono += Duration::from_millis(100);
        subscriber.handle_timeout(now);
        drain(&mut subscriber, &mut asks);
    }
    panic!("what waits has no end: {:?}", subscriber.pending());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Numbers, a time, a key of a token, parameters.
    const PIECES: [&[u8]; 8] = [
        b"\x01\0\0\0",
        b"\x02\0\0\0",
        b"\x05\0\0\0",
        b"\xff\xff\xff\xff",
        b"\x01\0\0\0\0\0\0\x01",
        b"a/@adv/pub/1e/2/_",
        b"a/@adv/pub/1e/uhlc/_",
        b"_sn=1..2;_max=3;_time=[now(-1s)..]",
    ];

    proptest! {
        #[test]
        fn whatever_comes(data in prop::collection::vec(any::<u8>(), 0..400)) {
            advanced(&data);
        }

        #[test]
        fn whatever_is_said(
            mode: u8,
            steps in prop::collection::vec((any::<u8>(), any::<u8>(), 0..8_usize), 0..120),
        ) {
            let mut script = vec![mode];
            for (what, who, piece) in steps {
                script.extend([what, who, PIECES[piece].len() as u8]);
                script.extend(PIECES[piece]);
            }
            advanced(&script);
        }
    }
}
