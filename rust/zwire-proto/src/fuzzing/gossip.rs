//! Fuzz body of gossip: its messages and both machines.

use super::assert_refused_for_a_reason;
use crate::{
    Now,
    zre::{
        gossip::{Client, Hub, HubConfig, Tuple},
        wire::Gossip,
    },
};
use bytes::Bytes;
use core::time::Duration;

/// Decodes a gossip message; encoding it must reproduce all bytes up to its end. Then runs the bytes as
/// a script: each piece begins with an operation and its length.
pub fn zre_gossip(data: &[u8]) {
    let raw = Bytes::copy_from_slice(data);
    check(&raw);
    machines(&raw);
}

fn check(raw: &Bytes) -> Option<Gossip> {
    match Gossip::decode(raw) {
        Ok(message) => {
            match message.encode() {
                Ok(canonical) => {
                    assert_eq!(canonical, raw[..canonical.len()]);
                    assert_eq!(Gossip::decode(&canonical).as_ref(), Ok(&message));
                }
                Err(error) => assert_refused_for_a_reason(&error),
            }
            if let Gossip::Publish { key, value, .. } = &message
                && let Some(tuple) = Tuple::of(key, value)
            {
                let Gossip::Publish { key, value, .. } = tuple.publish() else { panic!("{tuple:?}") };
                assert_eq!(Tuple::of(&key, &value), Some(tuple));
            }
            Some(message)
        }
        Err(error) => {
            assert!(error.offset <= raw.len(), "{error}");
            None
        }
    }
}

fn machines(script: &Bytes) {
    let config = HubConfig { max_clients: 3, max_tuples: 4, max_bytes: 100, ..HubConfig::default() };
    let (mut hub, mut client) = (Hub::new(config.clone()), Client::new());
    let mut now = Duration::ZERO;
    let mut at = 0;
    while let [what, len, rest @ ..] = &script[at..] {
        let len = rest.len().min(usize::from(*len));
        let frame = script.slice(at + 2..at + 2 + len);
        at += 2 + len;
        let connection = u64::from(what >> 4);
        now += Duration::from_millis(u64::from(what & 3) * 250);
        let clock = Now::at(now);
        match what >> 2 & 3 {
            0 | 1 => {
                hub.handle_message(clock, connection, &frame);
                client.handle_message(clock, &frame);
            }
            2 => {
                hub.handle_timeout(clock);
                client.handle_timeout(clock);
                // A key that is too long or not UTF-8 must give the same error on both sides.
                assert_eq!(hub.publish(clock, &frame, &frame), client.publish(clock, &frame, &frame));
                hub.remove(&frame);
            }
            _ if len.is_multiple_of(2) => {
                hub.handle_connected(clock, connection);
                client.handle_opened(clock);
            }
            _ => {
                hub.handle_closed(connection);
                client.handle_closed();
            }
        }
        while let Some((_, sent)) = hub.poll_transmit() {
            assert!(check(&sent).is_some_and(|message| message.encode().as_ref() == Ok(&sent)));
        }
        while let Some(sent) = client.poll_transmit() {
            let message = check(&sent).expect("a client sends what a hub reads");
            assert!(matches!(message, Gossip::Hello | Gossip::Publish { .. } | Gossip::Ping));
        }
        while hub.poll_event().is_some() || client.poll_event().is_some() {}
        assert!(hub.clients() <= config.max_clients);
        assert!(hub.tuples().count() <= config.max_tuples && hub.bytes() <= config.max_bytes);
        assert_eq!(hub.bytes(), hub.tuples().map(|(key, value)| key.len() + value.len()).sum::<usize>());
        assert!(hub.poll_timeout().is_none_or(|due| due + Duration::from_secs(3600) > now));
        assert_eq!(client.poll_timeout().is_some(), client.is_open());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_comes(data in prop::collection::vec(any::<u8>(), 0..400)) {
            zre_gossip(&data);
        }

        /// Scripts of well-formed messages.
        #[test]
        fn whatever_is_said(steps in prop::collection::vec((any::<u8>(), 0..6_u8, "[a-c]{1,2}", "[a-c]{0,60}"), 0..60)) {
            let mut script = Vec::new();
            for (what, message, key, value) in steps {
                let message = match message {
                    0 => Gossip::Hello,
                    1 => Gossip::Ping,
                    2 => Gossip::Pong,
                    3 => Gossip::Invalid,
                    _ => Gossip::Publish { key: key.into(), value: value.into(), ttl: 0 },
                };
                let frame = message.encode().unwrap();
                script.extend([what, frame.len() as u8]);
                script.extend_from_slice(&frame);
            }
            zre_gossip(&script);
        }
    }
}
