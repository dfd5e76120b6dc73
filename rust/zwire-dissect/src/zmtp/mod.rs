//! ZMTP among streams, and what nodes of ZRE say in it.
//!
//! | Module | Does |
//! | --- | --- |
//! | [`opening`] | greetings, and what is one |
//! | [`stream`] | frames and commands of one connection |
//! | [`parts`] | frames of a message that is not whole |
//! | [`talk`] | messages: of ZRE, of ZRE/LOG, of zgossip, of an application |
//! | [`curve`] | opens boxes, where the keys are given |
//! | [`search`] | finds frames in a stream whose beginning is missing |

mod curve;
mod opening;
mod parts;
mod search;
mod stream;
mod talk;

pub(super) use opening::greets;
pub(super) use stream::ZmtpStream;

use super::{limits, record, said, shared};
