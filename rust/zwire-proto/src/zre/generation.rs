//! Generations of ZRE: the form of the protocol that a peer speaks (`zre` 2, 15).

use crate::named::named;
use core::fmt;

named! {
    /// Generation of the message format, oldest first. The RFC numbers alone do not describe the shipped
    /// implementations.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Generation {
        /// RFC 20 to the letter, and zyre from November 2012 to March 2014: counts of one octet, headers
        /// `name=value`, no version.
        Rfc20 = "20",
        /// zyre 1.0.0 of May 2014: like RFC 20, but with the lists of HELLO in the form of RFC 36. No
        /// document describes it.
        Zyre1 = "zyre1",
        /// RFC 36, message version 2: zyre from August 2014 to today, pyre.
        Rfc36 = "36",
        /// RFC 43 to the letter, message version 3. No other implementation is known; programs that claim
        /// RFC 43 send version 2 inside CURVE.
        Rfc43 = "43",
    }
}

impl Generation {
    /// The version octet behind the message id, if the generation has one.
    #[must_use]
    pub const fn version(self) -> Option<u8> {
        match self {
            Self::Rfc20 | Self::Zyre1 => None,
            Self::Rfc36 => Some(2),
            Self::Rfc43 => Some(3),
        }
    }

    /// Whether the generation predates the version octet. Such peers abort where later ones raise EXIT
    /// (`zre` 15.5).
    #[must_use]
    pub const fn is_legacy(self) -> bool {
        self.version().is_none()
    }

    /// Octets in front of the body: signature, id, version, sequence.
    #[must_use]
    pub const fn header_len(self) -> usize {
        if self.is_legacy() { 5 } else { 6 }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rfc20 => "20/ZRE",
            Self::Zyre1 => "zyre 1.0.0",
            Self::Rfc36 => "36/ZRE",
            Self::Rfc43 => "43/ZRE",
        })
    }
}

/// Set of generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Generations(u8);

impl Generations {
    /// Empty set; a start for [`Self::with`].
    pub const NONE: Self = Self(0);

    /// All but 43/ZRE, which crashes pyre (`zre` 21.1).
    pub const ALL_REAL: Self =
        Self::NONE.with(Generation::Rfc20).with(Generation::Zyre1).with(Generation::Rfc36);

    /// A set of one generation.
    #[must_use]
    pub const fn only(generation: Generation) -> Self {
        Self::NONE.with(generation)
    }

    /// Adds a generation.
    #[must_use]
    pub const fn with(self, generation: Generation) -> Self {
        Self(self.0 | generation.bit())
    }

    /// Whether the set contains the generation.
    #[must_use]
    pub const fn contains(self, generation: Generation) -> bool {
        self.0 & generation.bit() != 0
    }

    /// The generations in the set, oldest first.
    pub fn iter(self) -> impl Iterator<Item = Generation> {
        Generation::ALL.into_iter().filter(move |generation| self.contains(*generation))
    }
}

impl Default for Generations {
    fn default() -> Self {
        Self::only(Generation::Rfc36)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets() {
        assert_eq!(Generations::default().iter().collect::<Vec<_>>(), [Generation::Rfc36]);
        assert_eq!(Generations::ALL_REAL.iter().count(), 3);
        assert!(!Generations::ALL_REAL.contains(Generation::Rfc43));
        assert_eq!(Generations::NONE.iter().count(), 0);
    }

    #[test]
    fn headers() {
        for generation in Generation::ALL {
            assert_eq!(generation.is_legacy(), generation.header_len() == 5, "{generation}");
        }
        assert_eq!(Generation::Rfc43.version(), Some(3));
    }
}
