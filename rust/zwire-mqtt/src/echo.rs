//! Window of messages that come back from a broker of MQTT 3.1.1, which has no mark for them.
//!
//! A bridge that publishes a topic to which it is subscribed gets each of its messages back, once. The window has a count for
//! each message that is on this way, by the checksums of its topic and payload. A count is taken back when the message comes,
//! so that an equal message of another client, which comes one more time, passes.

use core::time::Duration;
use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher as _, RandomState},
};

/// Most messages in the window: three seconds of 20,000 messages in a second.
const MAX_WAITING: usize = 65_536;
/// Time after which a message no longer comes back.
const LIFETIME: Duration = Duration::from_secs(30);

/// Messages that are expected to come back.
#[derive(Debug, Default)]
pub struct Echoes {
    hasher: RandomState,
    counts: HashMap<u64, u32>,
    order: VecDeque<(Duration, u64)>,
}

impl Echoes {
    fn mark(&self, topic: &str, payload: &[u8]) -> u64 {
        self.hasher.hash_one((topic, payload))
    }

    fn take(&mut self, mark: u64) -> bool {
        let Some(count) = self.counts.get_mut(&mark) else { return false };
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&mark);
        }
        true
    }

    /// Forgets what no longer comes back, and the oldest of more than `most`.
    fn forget(&mut self, most: usize, now: Duration) {
        while let Some((at, mark)) = self.order.front().copied() {
            if self.order.len() <= most && now.saturating_sub(at) < LIFETIME {
                break;
            }
            self.order.pop_front();
            self.take(mark);
        }
    }

    /// Notes a message that was published at a time.
    pub fn expect(&mut self, topic: &str, payload: &[u8], now: Duration) {
        self.forget(MAX_WAITING - 1, now);
        let mark = self.mark(topic, payload);
        *self.counts.entry(mark).or_default() += 1;
        self.order.push_back((now, mark));
    }

    /// Whether a message is one that came back.
    pub fn is_echo(&mut self, topic: &str, payload: &[u8], now: Duration) -> bool {
        self.forget(MAX_WAITING, now);
        if self.counts.is_empty() {
            return false;
        }
        let mark = self.mark(topic, payload);
        if !self.take(mark) {
            return false;
        }
        // Mostly the oldest: messages come back in their order.
        if let Some(at) = self.order.iter().position(|(_, known)| *known == mark) {
            self.order.remove(at);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_comes_back_once() {
        let mut echoes = Echoes::default();
        echoes.expect("a", b"1", Duration::ZERO);
        echoes.expect("a", b"1", Duration::ZERO);
        let mut is_echo = |topic, payload| echoes.is_echo(topic, payload, Duration::ZERO);
        assert!(!is_echo("a", b"2") && !is_echo("b", b"1"));
        assert!(is_echo("a", b"1") && is_echo("a", b"1"));
        // The third is of another client.
        assert!(!is_echo("a", b"1"));
    }

    #[test]
    fn a_message_of_another_client_passes_later() {
        let mut echoes = Echoes::default();
        echoes.expect("a", b"1", Duration::ZERO);
        assert!(!echoes.is_echo("a", b"1", LIFETIME));
    }

    #[test]
    fn the_window_is_bounded() {
        let mut echoes = Echoes::default();
        for number in 0..MAX_WAITING as u64 * 2 {
            echoes.expect("a", &number.to_le_bytes(), Duration::ZERO);
        }
        assert_eq!((echoes.order.len(), echoes.counts.len()), (MAX_WAITING, MAX_WAITING));
        assert!(!echoes.is_echo("a", &0_u64.to_le_bytes(), Duration::ZERO));
        echoes.expect("a", b"new", LIFETIME);
        assert_eq!((echoes.order.len(), echoes.counts.len()), (1, 1));
    }
}
