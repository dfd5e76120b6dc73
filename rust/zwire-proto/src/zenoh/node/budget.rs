//! Costs of declarations and of matching, and the shares of faces in the budgets of a node.
//!
//! | Cost | Bound of a face | Bound of the node |
//! | --- | --- | --- |
//! | memory of declarations | [`FaceLimits::table_bytes`] | [`FaceLimits::node_bytes`], in shares |
//! | time to compare long keys with wildcards | | [`MAX_SLOW_KEYS`], in shares |
//! | time of comparisons | [`MATCHING_SHARE`] | [`MATCHING_SHARE`] |
//!
//! A face gets what it asks for while the node has it, and half of an equal part even if the others have taken
//! all: a face that comes late is not locked out, and the node exceeds its bound by no more than half. The
//! time of comparisons is estimated from the lengths of keys, so that the node needs no clock and a test gives
//! the same in each run. A face that has used its time is not closed: its messages wait.

use super::{config::FaceLimits, error::FaceError, ids::FaceId, trie};
use crate::limits::{MATCHING_BURST, MATCHING_FREE, MATCHING_SHARE, MATCHING_YIELD, MAX_SLOW_KEYS};
use core::time::Duration;

/// The memory of an entry beside its text: maps, numbers, allocator.
const ENTRY: usize = 256;
/// The memory of a declaration that a face was sent: an entry of a map, and its part of the key.
const ANNOUNCED: usize = 96;
/// The memory of one branch of the index.
const BRANCH: usize = 192;
/// Longest key that is quickly compared with another one of that length.
pub(super) const QUICK: usize = 128;
/// Products of lengths that are compared in a nanosecond, in the worst case: 100 µs for two of 4 KiB.
const BYTES_PER_NS: usize = 168;
/// Time to look at a branch or at a key, and to compare it if that is quick.
pub(super) const VISIT_NS: u64 = 20;

/// Longest time to compare two keys of which one has wildcards, in nanoseconds.
pub(super) const fn compare_ns(a: usize, b: usize) -> u64 {
    let product = a.saturating_mul(b);
    VISIT_NS + if product > QUICK * QUICK { (product / BYTES_PER_NS) as u64 } else { 0 }
}

/// Cost of declarations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// Memory.
    pub(super) bytes: usize,
    /// Time to compare each of them with a key of its own length, in nanoseconds; 0 for quick ones.
    pub(super) slow_ns: u64,
}

impl Cost {
    pub(super) fn of(key: &str) -> Self {
        let chunks = 1 + key.bytes().filter(|b| *b == b'/').take(trie::DEPTH - 1).count();
        let is_slow = key.len() > QUICK && key.contains('*');
        Self {
            bytes: ENTRY + key.len() + BRANCH * chunks,
            slow_ns: if is_slow { compare_ns(key.len(), key.len()) } else { 0 },
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.slow_ns += other.slow_ns;
    }

    pub(super) fn subtract(&mut self, other: Self) {
        self.bytes -= other.bytes;
        self.slow_ns -= other.slow_ns;
    }
}

/// Costs of one face.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) used: Cost,
    /// Number of declarations that the face was sent.
    pub(super) announced: usize,
    pace: Pace,
    /// Whether it is a session of this process, which needs no share and never waits.
    is_local: bool,
}

impl Account {
    pub(super) fn new(is_local: bool) -> Self {
        Self { used: Cost::default(), announced: 0, pace: Pace::default(), is_local }
    }

    /// Memory of the declarations that the face has made and was sent.
    pub(super) const fn bytes(&self) -> usize {
        self.used.bytes + ANNOUNCED * self.announced
    }
}

/// Costs of all faces together, and the time that matching takes.
#[derive(Debug, Default)]
pub(super) struct NodeBudget {
    pub(super) used: Cost,
    /// Number of declarations that faces were sent.
    pub(super) announced: usize,
    /// Number of faces that have shares: all but those of this process.
    pub(super) faces: usize,
    pace: Pace,
    /// The face of the last input that has used its time, and the time at which it may go on.
    waits: Option<(FaceId, Duration)>,
}

impl NodeBudget {
    /// Adds a new face.
    pub(super) fn open(&mut self, account: &Account) {
        self.faces += usize::from(!account.is_local);
    }

    /// Removes a face; its declarations cost memory until [`release`](Self::release).
    pub(super) fn close(&mut self, account: &Account) {
        self.faces -= usize::from(!account.is_local);
    }

    /// Removes what the keys and interests of a face still cost, after its declarations were withdrawn.
    pub(super) fn release(&mut self, account: &Account) {
        self.used.subtract(account.used);
    }

    /// Checks that a face may be sent as many more declarations, in answer to an interest.
    pub(super) fn check_answer(
        &self,
        account: &Account,
        more: usize,
        limits: &FaceLimits,
    ) -> Result<(), FaceError> {
        let cost = Cost { bytes: more.saturating_mul(ANNOUNCED), slow_ns: 0 };
        if account.is_local || more == 0 { Ok(()) } else { self.check_share(account, cost, limits) }
    }

    /// Counts a declaration that a face was sent.
    pub(super) const fn announce(&mut self, account: &mut Account) {
        account.announced += 1;
        self.announced += 1;
    }

    /// Counts declarations that a face was sent and that have ended.
    pub(super) const fn withdraw(&mut self, account: &mut Account, number: usize) {
        account.announced -= number;
        self.announced -= number;
    }

    /// Charges a face for a declaration on `key`.
    pub(super) fn charge(
        &mut self,
        account: &mut Account,
        key: &str,
        limits: &FaceLimits,
    ) -> Result<(), FaceError> {
        let cost = Cost::of(key);
        let needed = account.used.bytes + cost.bytes;
        if needed > limits.table_bytes {
            return Err(FaceError::TableFull { needed, bound: limits.table_bytes });
        }
        if !account.is_local {
            self.check_share(account, cost, limits)?;
        }
        account.used.add(cost);
        self.used.add(cost);
        Ok(())
    }

    /// Checks that the node has as much left, or else the face of its share.
    fn check_share(&self, account: &Account, cost: Cost, limits: &FaceLimits) -> Result<(), FaceError> {
        // Half of an equal part.
        let parts = 2 * self.faces.max(1);
        let (all, bound) = (self.used.bytes + ANNOUNCED * self.announced + cost.bytes, limits.node_bytes);
        if all > bound && account.bytes() + cost.bytes > bound / parts {
            return Err(FaceError::NodeFull { needed: all, bound, share: bound / parts });
        }
        let (all, own) = (self.used.slow_ns + cost.slow_ns, account.used.slow_ns + cost.slow_ns);
        let bound = MAX_SLOW_KEYS.as_nanos() as u64;
        if cost.slow_ns > 0 && all > bound && own > bound / parts as u64 {
            return Err(FaceError::SlowKeys { needed: Duration::from_nanos(all), bound: MAX_SLOW_KEYS });
        }
        Ok(())
    }

    /// Takes back what a declaration on `key` cost.
    pub(super) fn refund(&mut self, account: &mut Account, key: &str) {
        let cost = Cost::of(key);
        account.used.subtract(cost);
        self.used.subtract(cost);
    }

    /// Charges a face for comparisons of its last input. It waits if both its own time and that of the node
    /// are used up; the result tells.
    #[cold]
    pub(super) fn spend(&mut self, now: Duration, face: FaceId, account: &mut Account, work_ns: u64) -> bool {
        let Some(work) = Duration::from_nanos(work_ns).checked_sub(MATCHING_FREE) else { return false };
        if account.is_local {
            return false;
        }
        let faces = u32::try_from(self.faces).unwrap_or(u32::MAX).max(1);
        let own = account.pace.spend(now, work.saturating_mul(MATCHING_SHARE.saturating_mul(faces)));
        let all = self.pace.spend(now, work.saturating_mul(MATCHING_SHARE));
        let until = own.min(all).max(now);
        if until > now || work > MATCHING_YIELD {
            self.waits = Some((face, until));
        }
        until > now
    }

    /// After an input of a face: the time until which its further messages wait, `now` if others come first.
    #[inline]
    pub(super) fn take_wait(&mut self, face: FaceId) -> Option<Duration> {
        self.waits.take().filter(|(waits, _)| *waits == face).map(|(_, until)| until)
    }
}

/// Rate of work: the time at which all work so far would be done at that rate.
#[derive(Debug, Default)]
struct Pace(Duration);

impl Pace {
    /// Adds work that takes `time` at this rate. Returns the time from which more is allowed.
    fn spend(&mut self, now: Duration, time: Duration) -> Duration {
        self.0 = self.0.max(now).saturating_add(time);
        self.0.saturating_sub(MATCHING_BURST)
    }
}
