//! ZMTP in streams, and the messages of ZRE nodes in it.
//!
//! | Module | Does |
//! | --- | --- |
//! | [`opening`] | recognises and decodes greetings |
//! | [`stream`] | frames and commands of one connection |
//! | [`talk`] | messages: of ZRE, of ZRE/LOG, of zgossip, of an application |
//! | [`curve`] | opens boxes, if keys are given |
//! | [`search`] | finds frames in a stream without its beginning |

mod curve;
mod opening;
mod search;
mod stream;
mod talk;

pub(super) use opening::greets;
pub(super) use stream::ZmtpStream;

use super::{limits, record, said, shared, side};
