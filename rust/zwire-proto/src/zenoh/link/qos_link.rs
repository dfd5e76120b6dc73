//! [`QosLink`]: the priorities and the reliability of a link (`zenoh-wire` 3.6).

use crate::zenoh::{Priority, Reliability, wire::QosOffer};

const PRIORITIES: u64 = 0b010;
const RELIABILITY: u64 = 0b100;
const RELIABLE: u64 = 1 << 19;

/// Endpoint metadata `prio` and `rel`. Empty means QoS with all priorities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QosLink {
    /// First and last priority of the link.
    pub priorities: Option<(Priority, Priority)>,
    /// Reliability of the link.
    pub reliability: Option<Reliability>,
}

/// Ranges or reliabilities that are incompatible, or invalid numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Conflict;

impl QosLink {
    /// Form in INIT.
    pub(super) fn to_offer(self) -> QosOffer {
        let mut value = 0;
        if let Some((first, last)) = self.priorities {
            value |= PRIORITIES | (first as u64) << 3 | (last as u64) << 11;
        }
        if let Some(reliability) = self.reliability {
            value |= RELIABILITY | if reliability == Reliability::Reliable { RELIABLE } else { 0 };
        }
        if value == 0 { QosOffer::Plain } else { QosOffer::Link(value) }
    }

    /// Parses the form in INIT; `None` is no QoS at all.
    pub(super) fn from_offer(offer: Option<QosOffer>) -> Result<Option<Self>, Conflict> {
        let value = match offer {
            None | Some(QosOffer::Link(0)) => return Ok(None),
            Some(QosOffer::Plain | QosOffer::Link(1)) => return Ok(Some(Self::default())),
            Some(QosOffer::Link(value)) if value & (PRIORITIES | RELIABILITY) != 0 => value,
            Some(QosOffer::Link(_)) => return Err(Conflict),
        };
        let priorities = if value & PRIORITIES == 0 {
            None
        } else {
            let first = priority(value >> 3)?;
            let last = priority(value >> 11)?;
            if first > last {
                return Err(Conflict);
            }
            Some((first, last))
        };
        let reliability = match (value & RELIABILITY, value & RELIABLE) {
            (0, _) => None,
            (_, 0) => Some(Reliability::BestEffort),
            _ => Some(Reliability::Reliable),
        };
        Ok(Some(Self { priorities, reliability }))
    }

    /// Combines both ends: `inner`, the opener's range, must lie in `outer`, the acceptor's, and is
    /// used; a side without a range takes the other's.
    pub(super) fn merge(outer: Self, inner: Self) -> Result<Self, Conflict> {
        let priorities = match (outer.priorities, inner.priorities) {
            (Some(outer), Some(inner)) if inner.0 < outer.0 || inner.1 > outer.1 => return Err(Conflict),
            (outer, inner) => inner.or(outer),
        };
        let reliability = match (outer.reliability, inner.reliability) {
            (Some(outer), Some(inner)) if outer != inner => return Err(Conflict),
            (outer, inner) => inner.or(outer),
        };
        Ok(Self { priorities, reliability })
    }
}

#[allow(clippy::cast_possible_truncation, reason = "masked to eight bits")]
const fn priority(bits: u64) -> Result<Priority, Conflict> {
    let number = (bits & 0xff) as u8;
    if (number as usize) < Priority::COUNT { Ok(Priority::from_bits(number)) } else { Err(Conflict) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: QosLink = QosLink {
        priorities: Some((Priority::RealTime, Priority::Data)),
        reliability: Some(Reliability::Reliable),
    };

    /// `zenoh-wire` 3.6 and E10: `?prio=1-5;rel=1`.
    #[test]
    fn example_value() {
        assert_eq!(EXAMPLE.to_offer(), QosOffer::Link(0x8280e));
        assert_eq!(QosLink::from_offer(Some(QosOffer::Link(0x8280e))), Ok(Some(EXAMPLE)));
    }

    #[test]
    fn plain_forms() {
        assert_eq!(QosLink::default().to_offer(), QosOffer::Plain);
        assert_eq!(QosLink::from_offer(None), Ok(None));
        assert_eq!(QosLink::from_offer(Some(QosOffer::Link(0))), Ok(None));
        assert_eq!(QosLink::from_offer(Some(QosOffer::Link(1))), Ok(Some(QosLink::default())));
    }

    #[test]
    fn numbers_that_are_no_priority_are_refused() {
        for value in [0b010 | 8 << 3, 0b010 | 8 << 11, 0b010 | 5 << 3 | 1 << 11, 1 << 3, 1 | 1 << 19] {
            assert_eq!(QosLink::from_offer(Some(QosOffer::Link(value))), Err(Conflict), "{value:#x}");
        }
    }

    #[test]
    fn the_inner_range_is_taken_when_it_lies_in_the_outer() {
        let outer = QosLink { priorities: Some((Priority::Control, Priority::DataLow)), reliability: None };
        assert_eq!(QosLink::merge(outer, EXAMPLE), Ok(EXAMPLE));
        assert_eq!(QosLink::merge(EXAMPLE, outer), Err(Conflict));
        assert_eq!(QosLink::merge(QosLink::default(), EXAMPLE), Ok(EXAMPLE));
        assert_eq!(QosLink::merge(EXAMPLE, QosLink::default()), Ok(EXAMPLE));
        let best_effort = QosLink { priorities: None, reliability: Some(Reliability::BestEffort) };
        assert_eq!(QosLink::merge(EXAMPLE, best_effort), Err(Conflict));
    }
}
