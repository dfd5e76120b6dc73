//! Spools as topics of Kafka: a server that answers the reading clients of Kafka.
//!
//! A topic is a spool, a partition a shard, an offset that of the row. The server knows one broker, itself, and
//! refuses to write. Messages are of the versions in [`wire::Api::TABLE`], none of them with compact fields except
//! `ApiVersions`, with which a client learns these versions.
//!
//! | Module | Content |
//! |---|---|
//! | `wire` | requests and answers, a file each; names of errors |
//! | `batch` | batches of records, with their checksum |
//! | `topic` | a spool as a topic: offsets, fetching, committing |
//! | `group` | members of a group and the generations in which they share partitions |
//! | `broker` | answer to a request |
//! | [`server`] | listener and connections, with their bounds |

mod batch;
mod broker;
mod error;
mod group;
mod limits;
pub mod server;
mod topic;
pub(crate) mod wire;

pub use error::Error;
pub use server::{KafkaServer, Options};
