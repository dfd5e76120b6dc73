//! A bridge between a ZRE network and Zenoh.
//!
//! The rules are in `zwire_proto::bridge`; this crate moves the messages. One thread serves both directions of a bridge, so
//! that the order of a sender needs no lock, and it never waits for a receiver: what does not fit waits in a bounded
//! queue per sender.
//!
//! | Module | Role |
//! |---|---|
//! | `options` | options of a bridge |
//! | `bridge` | public handle: start, counters, close |
//! | `shared` | counters, and the end of the thread |
//! | `worker` | the thread: its loop, deadlines, and the election among bridges |
//! | `lan` | events of ZRE, on their way to Zenoh |
//! | `diary` | records of ZRE/LOG, on their way to Zenoh |
//! | `net` | samples and queries of Zenoh, on their way to ZRE |
//! | `mirror` | nodes that stand for peers of other networks |

mod bridge;
mod diary;
mod error;
mod lan;
mod mirror;
mod net;
mod options;
mod shared;
mod worker;

pub use bridge::ZreBridge;
pub use error::{Error, Result};
pub use options::{Mode, Options};
pub use shared::{State, Stats};
