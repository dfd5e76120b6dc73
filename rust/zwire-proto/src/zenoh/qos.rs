//! Priority, congestion control and the other small enumerations (`zenoh-wire` 1.11, 4.2).

use crate::named::named;
use core::fmt;

named! {
    /// The role of a node, in the order of its numbers on the wire.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum WhatAmI {
        /// Forwards messages of other nodes.
        Router = "router",
        /// Talks to routers and other peers.
        Peer = "peer",
        /// Has one router or peer that routes for it.
        Client = "client",
    }
}

impl WhatAmI {
    /// The two-bit form of INIT, JOIN and HELLO.
    #[must_use]
    pub const fn to_bits(self) -> u8 {
        self as u8
    }
    /// From the two-bit form; 3 is invalid.
    #[must_use]
    pub fn from_bits(bits: u8) -> Option<Self> {
        Self::ALL.get(usize::from(bits)).copied()
    }
    /// The mask form of SCOUT and link state: 1, 2 or 4.
    #[must_use]
    pub const fn to_mask(self) -> u8 {
        1 << self.to_bits()
    }
    /// From the mask form with exactly one bit.
    #[must_use]
    pub fn from_mask(mask: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.to_mask() == mask)
    }
}

impl fmt::Display for WhatAmI {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Message priority; lower numbers go first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Priority {
    /// Session-internal traffic.
    Control = 0,
    /// Highest priority of applications.
    RealTime = 1,
    /// Second priority of applications.
    InteractiveHigh = 2,
    /// Third priority of applications.
    InteractiveLow = 3,
    /// Just above the default.
    DataHigh = 4,
    /// The default.
    #[default]
    Data = 5,
    /// Just below the default.
    DataLow = 6,
    /// Lowest priority.
    Background = 7,
}

impl Priority {
    /// Number of priorities.
    pub const COUNT: usize = 8;
    /// All priorities, highest first.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Control,
        Self::RealTime,
        Self::InteractiveHigh,
        Self::InteractiveLow,
        Self::DataHigh,
        Self::Data,
        Self::DataLow,
        Self::Background,
    ];
    /// From the low three bits; the others are ignored, as receivers do.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self::ALL[(bits & 0x07) as usize]
    }
}

named! {
    /// Handling of a message when its queue is full, with the names of rows and configurations.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum CongestionControl {
        /// The message is dropped.
        #[default]
        Drop = "drop",
        /// The sender waits.
        Block = "block",
        /// The first such message of a priority waits, the next ones are dropped.
        BlockFirst = "block_first",
    }
}

impl CongestionControl {
    /// Value by name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|value| value.name() == name)
    }
}

/// Channel of the transport that carries the message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reliability {
    /// FRAME and FRAGMENT with R=0.
    BestEffort,
    /// FRAME and FRAGMENT with R=1.
    #[default]
    Reliable,
}

/// The QoS byte of network messages: bits 2:0 priority, 3 Block, 4 express, 5 BlockFirst.
///
/// Kept as a byte, because bits 7:6 are reserved and must be forwarded.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Qos(pub u8);

impl Qos {
    /// Data, Drop, not express: the value if the extension is absent, and elided if equal.
    pub const DEFAULT: Self = Self(0x05);
    /// Control, Block: DECLARE, INTEREST and OAM.
    pub const DECLARE: Self = Self(0x08);
    /// Data, Block: the default of REQUEST.
    pub const REQUEST: Self = Self(0x0d);

    const BLOCK: u8 = 0x08;
    const EXPRESS: u8 = 0x10;
    const BLOCK_FIRST: u8 = 0x20;

    /// From its parts.
    #[must_use]
    pub const fn new(priority: Priority, congestion: CongestionControl, express: bool) -> Self {
        let congestion = match congestion {
            CongestionControl::Drop => 0,
            CongestionControl::Block => Self::BLOCK,
            CongestionControl::BlockFirst => Self::BLOCK_FIRST,
        };
        Self(priority as u8 | congestion | if express { Self::EXPRESS } else { 0 })
    }
    /// Bits 2:0.
    #[must_use]
    pub const fn priority(self) -> Priority {
        Priority::from_bits(self.0)
    }
    /// Bits 3 and 5. With both set a receiver reports Block.
    #[must_use]
    pub const fn congestion(self) -> CongestionControl {
        if self.0 & Self::BLOCK != 0 {
            CongestionControl::Block
        } else if self.0 & Self::BLOCK_FIRST != 0 {
            CongestionControl::BlockFirst
        } else {
            CongestionControl::Drop
        }
    }
    /// Bit 4.
    #[must_use]
    pub const fn express(self) -> bool {
        self.0 & Self::EXPRESS != 0
    }
}

impl Default for Qos {
    fn default() -> Self {
        Self::DEFAULT
    }
}
impl fmt::Debug for Qos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Qos({:?}, {:?}{})",
            self.priority(),
            self.congestion(),
            if self.express() { ", express" } else { "" }
        )
    }
}
