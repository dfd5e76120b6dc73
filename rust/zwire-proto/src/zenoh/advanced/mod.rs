//! Advanced publishers and subscribers: publications that can be queried again (`zenoh-behaviour` 6.3).
//!
//! All parts use ordinary entities of a session. A [`AdvancedPublisher`] numbers its publications, or has them
//! stamped with times, stores the last ones in a [`Cache`] for its queryable, and sends heartbeats with
//! the last number. A [`AdvancedSubscriber`] orders the samples of each publisher, queries missing ones, and
//! reports lost ones.
//!
//! | Family | Publisher | Subscriber |
//! | --- | --- | --- |
//! | input | [`handle_timeout`](AdvancedPublisher::handle_timeout) | [`handle_sample`](AdvancedSubscriber::handle_sample), [`handle_token`](AdvancedSubscriber::handle_token), [`handle_heartbeat`](AdvancedSubscriber::handle_heartbeat), [`handle_reply`](AdvancedSubscriber::handle_reply), [`handle_answered`](AdvancedSubscriber::handle_answered), [`handle_timeout`](AdvancedSubscriber::handle_timeout) |
//! | command | [`publish`](AdvancedPublisher::publish), [`answer`](AdvancedPublisher::answer) | |
//! | output | [`poll_timeout`](AdvancedPublisher::poll_timeout) | [`poll_output`](AdvancedSubscriber::poll_output), [`poll_timeout`](AdvancedSubscriber::poll_timeout) |
//!
//! Both work beside a session: the driver declares its entities, under the keys of [`keys`].

mod cache;
mod forgetting;
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
pub use keys::{SampleSource, decode_heartbeat, encode_heartbeat};
pub use publisher::{AdvancedPublisher, HeartbeatMode, PublisherConfig, Sequencing};
pub use subscriber::AdvancedSubscriber;
pub use types::{Answered, Ask, AskId, History, Miss, Output, Recovery, SubscriberConfig};
