//! Types of sockets, their names and numbers, and which of them may be connected (`zmtp` 8.2, 13.1).

use crate::named::named;
use core::fmt;

named! {
    /// The type of a socket, in the order of their numbers in ZMTP 2.0, with the names of metadata.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[allow(missing_docs, reason = "the names say what they are")]
    pub enum SocketType {
        Pair = "PAIR",
        Pub = "PUB",
        Sub = "SUB",
        Req = "REQ",
        Rep = "REP",
        Dealer = "DEALER",
        Router = "ROUTER",
        Pull = "PULL",
        Push = "PUSH",
        XPub = "XPUB",
        XSub = "XSUB",
    }
}

impl SocketType {
    /// The type of that name; names are compared exactly.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.name().as_bytes() == name)
    }

    /// Number in ZMTP 2.0; those of XPUB and XSUB are numbers of libzmq.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The type of that number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Whether a socket of this type may have a connection to one of the other.
    #[must_use]
    pub const fn accepts(self, peer: Self) -> bool {
        match self {
            Self::Req => matches!(peer, Self::Rep | Self::Router),
            Self::Rep => matches!(peer, Self::Req | Self::Dealer),
            Self::Dealer => matches!(peer, Self::Rep | Self::Dealer | Self::Router),
            Self::Router => matches!(peer, Self::Req | Self::Dealer | Self::Router),
            Self::Pub | Self::XPub => matches!(peer, Self::Sub | Self::XSub),
            Self::Sub | Self::XSub => matches!(peer, Self::Pub | Self::XPub),
            Self::Push => matches!(peer, Self::Pull),
            Self::Pull => matches!(peer, Self::Push),
            Self::Pair => matches!(peer, Self::Pair),
        }
    }

    /// Whether its READY contains an identity, be it empty, as in libzmq.
    #[must_use]
    pub const fn has_identity(self) -> bool {
        matches!(self, Self::Req | Self::Dealer | Self::Router)
    }
}

impl fmt::Display for SocketType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_both_ways() {
        for t in SocketType::ALL {
            assert_eq!(SocketType::from_name(t.name().as_bytes()), Some(t));
            assert_eq!(SocketType::from_code(t.code()), Some(t));
        }
        assert_eq!(SocketType::from_name(b"dealer"), None);
        assert_eq!(SocketType::from_name(b"DEALER\0"), None);
        assert_eq!(SocketType::from_code(11), None);
        assert_eq!((SocketType::Router.code(), SocketType::XSub.code()), (6, 10));
    }

    /// `zmtp` 8.2, the table.
    #[test]
    fn each_legal_pair_and_no_other() {
        use SocketType::*;
        const LEGAL: [(SocketType, &[SocketType]); 11] = [
            (Req, &[Rep, Router]),
            (Rep, &[Req, Dealer]),
            (Dealer, &[Rep, Dealer, Router]),
            (Router, &[Req, Dealer, Router]),
            (Pub, &[Sub, XSub]),
            (XPub, &[Sub, XSub]),
            (Sub, &[Pub, XPub]),
            (XSub, &[Pub, XPub]),
            (Push, &[Pull]),
            (Pull, &[Push]),
            (Pair, &[Pair]),
        ];
        for (own, legal) in LEGAL {
            for peer in SocketType::ALL {
                assert_eq!(own.accepts(peer), legal.contains(&peer), "{own} {peer}");
                assert_eq!(own.accepts(peer), peer.accepts(own), "{own} {peer}");
            }
        }
    }
}
