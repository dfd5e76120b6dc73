//! Rules of a bridge between a ZRE network and Zenoh, without IO.
//!
//! | File | Content |
//! | --- | --- |
//! | `escape` | names with any octets as chunks of a key |
//! | `key` | keys of peers, groups and messages |
//! | `attachment` | sender, bridge, number and hops of a message |
//! | `frames` | contents of several frames as one payload |
//! | `window` | duplicates among numbered messages |
//! | `beat` | signs of life that bridges send to each other |
//! | `election` | the one bridge of a LAN that forwards |
//! | `reserve` | messages that the forwarding bridge may not have passed on |
//! | `takeover` | end of what the bridge before has passed on |
//! | `lanes` | a bounded queue for each sender |
//! | `rules` | groups that cross, with directions and rates |
//!
//! The reasons are in the design note on the bridge (`docs/design/2026-11-28-zre-bridge.md`).

mod attachment;
mod beat;
mod election;
mod escape;
mod frames;
mod key;
mod lanes;
mod reserve;
mod rules;
mod takeover;
mod window;

pub use attachment::{Attachment, MAX_HOPS};
pub use beat::Beat;
pub use election::{Channel, Election, Standing};
pub use escape::{EscapeError, escape, unescape};
pub use frames::{MAX_FRAMES, encoding, join, split};
pub use key::{Network, NetworkError, Place, Sender, uuid_of};
pub use lanes::{LaneBounds, Lanes};
pub use reserve::{Fingerprint, Reserve};
pub use rules::{GroupRule, PatternError, Rules, Way};
pub use takeover::Takeover;
pub use window::{Window, Windows};
