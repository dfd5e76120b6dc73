//! Advanced publishers and subscribers: publications that can be queried again (`zenoh-behaviour` 6.3).
//!
//! All parts use ordinary entities of a session. A [`Publisher`] numbers its publications, or has them
//! stamped with times, stores the last ones in a [`Cache`] for its queryable, and sends heartbeats with
//! the last number. A [`Subscriber`] orders the samples of each publisher, queries missing ones, and
//! reports lost ones.
//!
//! | Family | Publisher | Subscriber |
//! | --- | --- | --- |
//! | input | [`handle_timeout`](Publisher::handle_timeout) | [`handle_sample`](Subscriber::handle_sample), [`handle_token`](Subscriber::handle_token), [`handle_heartbeat`](Subscriber::handle_heartbeat), [`handle_reply`](Subscriber::handle_reply), [`handle_answered`](Subscriber::handle_answered), [`handle_timeout`](Subscriber::handle_timeout) |
//! | command | [`publish`](Publisher::publish), [`answer`](Publisher::answer) | |
//! | output | [`poll_timeout`](Publisher::poll_timeout) | [`poll_output`](Subscriber::poll_output), [`poll_timeout`](Subscriber::poll_timeout) |
//!
//! Both work beside a session: the driver declares its entities, under the keys of [`keys`].

mod cache;
mod forgetting;
mod heartbeat;
mod keeping;
pub mod keys;
pub mod limits;
mod publisher;
mod stamped;
mod subscriber;
#[cfg(test)]
mod tests;
mod types;
mod window;

pub use cache::{Answer, Cache};
pub use heartbeat::{decode_heartbeat, encode_heartbeat};
pub use keys::Source;
pub use publisher::{Heartbeat, Publisher, PublisherConfig, Sequencing};
pub use subscriber::Subscriber;
pub use types::{Answered, Ask, AskId, History, Miss, Output, Recovery, SubscriberConfig};
