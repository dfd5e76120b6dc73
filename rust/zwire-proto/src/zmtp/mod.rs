//! ZMTP 3.1 and 3.0, the protocol of ZeroMQ sockets over streams, and 2.0 as far as its peers need it.
//!
//! | Module | Is |
//! | --- | --- |
//! | [`wire`] | the bytes: greetings, frames, commands, metadata |
//! | `crypto` | keys and boxes of CURVE, with the feature `curve` |
//! | [`link`] | one connection: handshake, sending, receiving, heartbeats |
//! | [`socket`] | rules of a socket with several connections: identities, round-robin, subscriptions |
//!
//! Comments cite the ZMTP reference as `zmtp` with its section.

#[cfg(feature = "curve")]
pub mod crypto;
pub mod limits;
pub mod link;
pub mod socket;
pub mod wire;
