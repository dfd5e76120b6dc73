//! ZMTP among streams, and what nodes of ZRE say in it.
//!
//! | Module | Does |
//! | --- | --- |
//! | [`stream`] | greeting, frames, commands of one connection |
//! | [`talk`] | messages: of ZRE, of ZRE/LOG, of zgossip, of an application |
//! | [`curve`] | opens boxes, where the keys are given |
//! | [`search`] | finds frames in a stream whose beginning is missing |

mod curve;
mod search;
mod stream;
mod talk;

pub(super) use stream::{Stream, greets};

use super::{limits, record, said, shared};
