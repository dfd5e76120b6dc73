//! [`SubscriberSocket`]: the subscriptions of a SUB (`zmtp` 9).

use super::{Subscriptions, TooManySubscriptions};
use bytes::Bytes;
use std::collections::BTreeMap;

/// The tree supports several subscribers; here there is one.
const SELF: u64 = 0;

/// The prefixes that a SUB has subscribed to, counted: a prefix subscribed to twice must be cancelled
/// twice. Publishers only keep whether a prefix is subscribed, so they are told of the first and of the
/// last.
#[derive(Debug, Default)]
pub struct SubscriberSocket {
    counts: BTreeMap<Bytes, usize>,
    tree: Subscriptions,
    /// Reused to avoid an allocation for each message.
    found: Vec<u64>,
}

impl SubscriberSocket {
    /// Subscribes to a prefix. Returns whether publishers must be told.
    ///
    /// # Errors
    /// The subscriptions would exceed the bytes that a publisher must remember.
    pub fn subscribe(&mut self, prefix: &Bytes) -> Result<bool, TooManySubscriptions> {
        if let Some(count) = self.counts.get_mut(prefix) {
            *count += 1;
            return Ok(false);
        }
        self.tree.subscribe(SELF, prefix)?;
        // A copy, which does not keep the receive buffer alive.
        self.counts.insert(Bytes::copy_from_slice(prefix), 1);
        Ok(true)
    }

    /// Cancels one subscription. Returns whether publishers must be told; `None` if there was none.
    pub fn cancel(&mut self, prefix: &[u8]) -> Option<bool> {
        let count = self.counts.get_mut(prefix)?;
        *count -= 1;
        if *count > 0 {
            return Some(false);
        }
        self.counts.remove(prefix);
        self.tree.cancel(SELF, prefix);
        Some(true)
    }

    /// Whether a message with this first frame matches. Received messages are filtered again: a
    /// publisher of ZMTP 1.0 sends everything, and a CANCEL may be late.
    pub fn wants(&mut self, topic: &[u8]) -> bool {
        // The empty prefix matches everything; skip the search.
        if self.counts.first_key_value().is_some_and(|(prefix, _)| prefix.is_empty()) {
            return true;
        }
        self.tree.matches(topic, &mut self.found);
        !self.found.is_empty()
    }

    /// All prefixes, each once, to send on a new connection.
    pub fn prefixes(&self) -> impl Iterator<Item = &Bytes> {
        self.counts.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zmtp::limits::MAX_SUBSCRIPTION_BYTES;
    use proptest::prelude::*;

    fn bytes(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[test]
    fn the_first_and_the_last_are_told() {
        let mut sub = SubscriberSocket::default();
        assert!(!sub.wants(b"temperature"));
        assert_eq!(sub.subscribe(&bytes("temp")), Ok(true));
        assert_eq!(sub.subscribe(&bytes("temp")), Ok(false));
        assert_eq!(sub.subscribe(&bytes("b")), Ok(true));
        assert!(sub.wants(b"temperature") && sub.wants(b"temp") && !sub.wants(b"tem"));
        assert_eq!(sub.prefixes().collect::<Vec<_>>(), ["b", "temp"]);
        assert_eq!(sub.cancel(b"temp"), Some(false));
        assert!(sub.wants(b"temp"));
        assert_eq!(sub.cancel(b"temp"), Some(true));
        assert_eq!(sub.cancel(b"temp"), None);
        assert!(!sub.wants(b"temp") && sub.wants(b"battery"));
    }

    #[test]
    fn the_empty_prefix_is_everything() {
        let mut sub = SubscriberSocket::default();
        sub.subscribe(&Bytes::new()).unwrap();
        assert!(sub.wants(b"") && sub.wants(b"anything"));
        sub.cancel(b"");
        assert!(!sub.wants(b""));
    }

    #[test]
    fn what_no_publisher_would_remember_is_refused() {
        let mut sub = SubscriberSocket::default();
        let long = Bytes::from(vec![1; MAX_SUBSCRIPTION_BYTES]);
        sub.subscribe(&long).unwrap_err();
        assert_eq!(sub.cancel(&long), None);
        assert_eq!(sub.prefixes().count(), 0);
    }

    proptest! {
        /// Compares with a list of all prefixes subscribed to and not cancelled.
        #[test]
        fn it_wants_what_a_list_says(
            steps in proptest::collection::vec((any::<bool>(), "[ab]{0,3}"), 0..40),
            topic in "[ab]{0,4}",
        ) {
            let mut sub = SubscriberSocket::default();
            let mut list: Vec<Bytes> = Vec::new();
            for (add, prefix) in steps {
                let prefix = Bytes::from(prefix);
                if add {
                    prop_assert_eq!(sub.subscribe(&prefix), Ok(!list.contains(&prefix)));
                    list.push(prefix);
                } else {
                    let at = list.iter().position(|p| *p == prefix);
                    at.map(|at| list.remove(at));
                    prop_assert_eq!(sub.cancel(&prefix), at.map(|_| !list.contains(&prefix)));
                }
            }
            prop_assert_eq!(sub.wants(topic.as_bytes()), list.iter().any(|p| topic.as_bytes().starts_with(p)));
        }
    }
}
