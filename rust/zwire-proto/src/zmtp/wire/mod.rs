//! Wire format of ZMTP, one file for each greeting, command and primitive.
//!
//! | Phase | Content | Types |
//! | --- | --- | --- |
//! | greeting | 64 bytes of 3.x; forms of older peers | [`Greeting`], [`ZmtpGeneration`], [`Greeting2`], [`Greeting1`] |
//! | handshake | commands | [`Ready`], [`Error`], [`plain`], [`curve`] |
//! | traffic | frames of messages, commands between them | [`FrameHead`], [`TrafficCommand`], [`Subscription`], [`curve::CurveMessage`] |
//!
//! Every command is a [`Command`], with its name and the codec of its data. All numbers are big-endian.
//! Decoded byte fields are slices of the buffer.

mod command;
pub mod curve;
mod error;
mod frame;
mod generation;
mod greeting;
mod greeting1;
mod greeting2;
mod loan;
mod metadata;
mod ping;
pub mod plain;
mod ready;
mod socket_type;
mod subscribe;
mod subscription;
#[cfg(test)]
pub(super) mod testing;
mod traffic_command;

pub use command::{Command, command_name};
pub use error::Error;
pub use frame::{FrameHead, put_frame};
pub use generation::ZmtpGeneration;
pub use greeting::{Greeting, Mechanism};
pub use greeting1::Greeting1;
pub use greeting2::Greeting2;
pub use loan::Loan;
pub use metadata::{Metadata, Property};
pub use ping::{Ping, Pong};
pub use ready::Ready;
pub use socket_type::SocketType;
pub use subscribe::{Cancel, Subscribe};
pub use subscription::Subscription;
pub use traffic_command::TrafficCommand;
