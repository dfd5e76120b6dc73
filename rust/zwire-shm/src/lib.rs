//! Memory that processes of one host share: without names in a file system between processes of zwire, and with names in
//! `/dev/shm` where processes of Eclipse Zenoh take part.
//!
//! A [`Pool`] lends chunks of [`Segment`]s, which are sealed memfds: their size never changes, and only the process
//! that has made them writes to them. A process that receives a segment over a [`Channel`] maps it as a [`View`] and
//! says through a [`ReturnRing`] which chunks it has finished with. The kernel closes the channel and frees the memory
//! when a process ends, however it ends.
//!
//! All `unsafe` code about shared memory is in this crate. It decides no protocol: messages of the channel, numbers of
//! segments and bounds of loans are the caller's.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "mapped memory needs it; each place has its argument")]

mod channel;
mod mapping;
mod named;
mod pool;
mod process;
mod ring;
mod segment;

pub use channel::{Channel, Door, MAX_FDS, MAX_MESSAGE, Received};
pub use mapping::{Memory, Place, SegmentError, WeakMemory};
pub use named::{NamedAccess, NamedFile, NewName};
pub use pool::{Chunk, Pool};
pub use process::hasten;
pub use ring::{ReturnRing, Returns};
pub use segment::{Segment, View};
