//! Replication: storages of one key expression in several sessions converge (`zenoh-services` 4.8).
//!
//! | Module | Role |
//! |---|---|
//! | [`wire`] | octets of digests, queries and replies, as zenohd writes them |
//! | [`log`] | events of a storage by time, and their fingerprints |
//! | [`logged`] | table that writes each change of a volume into the log |
//! | [`answer`] | replies to the queries of a replica |
//! | [`pull`] | queries that fetch the events which a replica has and this storage lacks |
//! | [`inlet`] | updates of replicas on their way to the writing thread |
//! | [`replicator`] | threads that publish digests, fetch events and answer queries |
//!
//! All but the last two are without input, output, threads and clocks. A replica only fetches: it compares the digest of
//! another one with its log, asks for what differs, and applies the events by the rules of every update. Those are a
//! join of states, so that the order, and how often an event comes, changes nothing.

pub mod answer;
pub(crate) mod inlet;
pub mod log;
pub mod logged;
pub mod pull;
pub(crate) mod replicator;
pub mod wire;

use crate::place::Place;
use core::time::Duration;
use twox_hash::XxHash3_64;
use zwire_proto::zenoh::{KeyExpr, Timestamp, keyexpr::KeyExprError};

/// Parameters of replication, equal in all replicas of a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaSettings {
    /// Time between two digests, and length of the intervals that events are grouped by.
    pub interval: Duration,
    /// Parts of an interval; differences of the latest intervals are told by part.
    pub sub_intervals: u64,
    /// Latest intervals, with a fingerprint of each part.
    pub hot: u64,
    /// Intervals before those, with one fingerprint each. All earlier ones share one.
    pub warm: u64,
    /// Time that a publication may take to the replicas.
    pub delay: Duration,
}

impl Default for ReplicaSettings {
    /// The defaults of Eclipse Zenoh.
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(10),
            sub_intervals: 5,
            hot: 6,
            warm: 30,
            delay: Duration::from_millis(250),
        }
    }
}

/// Most fingerprints of a digest: a mebibyte of them.
const MAX_FINGERPRINTS: u64 = 65_536;

impl ReplicaSettings {
    /// Checks the values: zenohd has the last rule, and fails later without the others.
    ///
    /// # Errors
    /// The field and what it has to be.
    pub fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let millis = self.interval.as_millis();
        if millis < 3 {
            return Err(("interval", "expected at least 0.003 s"));
        }
        if self.sub_intervals == 0 || u128::from(self.sub_intervals) > millis {
            return Err((
                "sub_intervals",
                "expected at least 1, and at most the milliseconds of the interval",
            ));
        }
        // Without a value zenohd takes its default for any interval, and the fingerprint has it.
        if self.delay * 2 > self.interval && self.delay != Self::default().delay {
            return Err(("propagation_delay", "expected at most half of the interval"));
        }
        let fingerprints =
            self.hot.checked_mul(self.sub_intervals + 1).and_then(|hot| hot.checked_add(self.warm));
        if fingerprints.is_none_or(|count| count > MAX_FINGERPRINTS) {
            return Err(("hot", "expected at most 65536 fingerprints: hot times sub_intervals, and warm"));
        }
        Ok(())
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.interval.as_millis()).unwrap_or(u64::MAX).max(1)
    }

    /// Interval of a time since the UNIX epoch.
    #[must_use]
    pub fn interval_of(&self, time: Duration) -> u64 {
        u64::try_from(time.as_millis()).unwrap_or(u64::MAX) / self.millis()
    }

    /// Interval and part of it that an event belongs to. As in zenohd the last part is cut short, and one more part
    /// begins, where the interval is no multiple of the parts.
    #[must_use]
    pub(crate) fn slot(&self, stamp: Timestamp) -> (u64, u64) {
        let millis = u64::try_from(stamp.time.to_duration().as_millis()).unwrap_or(u64::MAX);
        (millis / self.millis(), millis % self.millis() / self.part())
    }

    /// Milliseconds of a part of an interval.
    fn part(&self) -> u64 {
        (self.millis() / self.sub_intervals.max(1)).max(1)
    }

    /// Most parts of an interval: of 9 ms in 5 parts there are 9.
    pub(crate) fn most_parts(&self) -> u64 {
        self.millis().div_ceil(self.part()).max(self.sub_intervals.saturating_add(1))
    }

    /// Fingerprint that all replicas of a storage have in common: of its place and these settings.
    #[must_use]
    pub fn fingerprint(&self, place: &Place) -> u64 {
        let mut octets = place.key().as_bytes().to_vec();
        octets.extend_from_slice(place.prefix().map_or("", |prefix| prefix.as_str()).as_bytes());
        octets.extend_from_slice(&self.interval.as_millis().to_le_bytes());
        for number in [self.sub_intervals, self.hot, self.warm] {
            octets.extend_from_slice(&number.to_le_bytes());
        }
        octets.extend_from_slice(&self.delay.as_millis().to_le_bytes());
        XxHash3_64::oneshot(&octets)
    }
}

/// Fingerprint of an event: of the key in the volume, or of the full key expression of a wildcard update, and its time.
pub(crate) fn event_fingerprint(key: &str, stamp: Timestamp) -> u64 {
    let mut octets = Vec::with_capacity(key.len() + 24);
    octets.extend_from_slice(key.as_bytes());
    octets.extend_from_slice(&stamp.time.0.to_le_bytes());
    octets.extend_from_slice(&stamp.id.to_le_bytes());
    XxHash3_64::oneshot(&octets)
}

/// Key that a replica publishes its digests on; `*` for all replicas.
pub(crate) fn digest_key(zid: &str, fingerprint: u64) -> Result<KeyExpr, KeyExprError> {
    KeyExpr::new(format!("@-digest/{zid}/{fingerprint}"))
}

/// Key that a replica answers on; `*` for all replicas.
pub(crate) fn aligner_key(zid: &str, fingerprint: u64) -> Result<KeyExpr, KeyExprError> {
    KeyExpr::new(format!("@zid/{zid}/{fingerprint}/aligner"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zwire_proto::zenoh::{Ntp64, ZenohId};

    fn place(key: &str, prefix: Option<&str>) -> Place {
        Place::new(KeyExpr::new(key).unwrap(), prefix.map(|prefix| KeyExpr::new(prefix).unwrap())).unwrap()
    }

    #[test]
    fn fingerprints_are_those_of_the_reference() {
        let settings = ReplicaSettings::default();
        assert_eq!(settings.fingerprint(&place("demo/**", None)), 5_452_541_923_675_143_030);
        assert_eq!(
            settings.fingerprint(&place("demo/example/**", Some("demo/example"))),
            3_405_878_271_430_550_991
        );
        let stamp = Timestamp { time: Ntp64(7_386_690_599_959_157_260), id: ZenohId::new(0x33).unwrap() };
        assert_eq!(event_fingerprint("a", stamp), 9_047_624_481_632_423_364);
        assert_eq!(stamp.time.to_duration().as_millis(), 1_719_847_926_860);
        assert_eq!(settings.slot(stamp), (171_984_792, 3));
        assert_eq!(settings.interval_of(Duration::from_millis(106_042)), 10);
    }

    #[test]
    fn no_part_is_beyond_the_most_parts() {
        for (millis, parts) in [(10_000, 5), (10_000, 3), (9, 5), (14, 5), (3, 3), (3, 1)] {
            let interval = Duration::from_millis(millis);
            let settings = ReplicaSettings { interval, sub_intervals: parts, ..ReplicaSettings::default() };
            let time = Ntp64::from_duration(Duration::from_millis(2 * millis - 1)).unwrap();
            let (_, last) = settings.slot(Timestamp { time, id: ZenohId::new(1).unwrap() });
            assert!(last < settings.most_parts(), "{millis} ms in {parts}: {last}");
        }
        assert_eq!(ReplicaSettings::default().most_parts(), 6);
    }

    #[test]
    fn each_setting_changes_the_fingerprint() {
        let (usual, of) = (ReplicaSettings::default(), place("demo/**", None));
        let others = [
            ReplicaSettings { interval: Duration::from_secs(11), ..usual },
            ReplicaSettings { sub_intervals: 6, ..usual },
            ReplicaSettings { hot: 7, ..usual },
            ReplicaSettings { warm: 31, ..usual },
            ReplicaSettings { delay: Duration::from_millis(251), ..usual },
        ];
        let mut all: Vec<u64> = others.iter().map(|settings| settings.fingerprint(&of)).collect();
        all.push(usual.fingerprint(&of));
        all.push(usual.fingerprint(&place("demo/*", None)));
        all.push(usual.fingerprint(&place("demo/**", Some("demo"))));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 8);
    }

    #[test]
    fn values_without_sense_are_refused() {
        let usual = ReplicaSettings::default();
        assert_eq!(usual.check(), Ok(()));
        for (settings, field) in [
            (ReplicaSettings { interval: Duration::from_millis(2), ..usual }, "interval"),
            (ReplicaSettings { sub_intervals: 0, ..usual }, "sub_intervals"),
            (ReplicaSettings { sub_intervals: 10_001, ..usual }, "sub_intervals"),
            (ReplicaSettings { delay: Duration::from_millis(5001), ..usual }, "propagation_delay"),
            (ReplicaSettings { hot: u64::MAX, ..usual }, "hot"),
            (ReplicaSettings { warm: u64::MAX, ..usual }, "hot"),
            (ReplicaSettings { hot: 20_000, ..usual }, "hot"),
        ] {
            assert_eq!(settings.check().unwrap_err().0, field, "{settings:?}");
        }
    }
}
