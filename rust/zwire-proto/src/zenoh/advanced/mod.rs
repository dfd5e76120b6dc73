//! Advanced publishers and subscribers: publications that can be asked for again (`zenoh-behaviour` 6.3).
//!
//! Everything here is made of what a session has already. A [`Publisher`] numbers what it publishes, or has
//! it stamped with times, keeps the last of it in a [`Cache`] that a queryable answers from, and says from
//! time to time how far it has got. A [`Subscriber`] takes samples of any publishers, puts those of each in
//! order, asks for what is missing, and says what is lost.
//!
//! | Family | Publisher | Subscriber |
//! | --- | --- | --- |
//! | input | [`handle_timeout`](Publisher::handle_timeout) | [`handle_sample`](Subscriber::handle_sample), [`handle_token`](Subscriber::handle_token), [`handle_heartbeat`](Subscriber::handle_heartbeat), [`handle_reply`](Subscriber::handle_reply), [`handle_answered`](Subscriber::handle_answered), [`handle_timeout`](Subscriber::handle_timeout) |
//! | command | [`publish`](Publisher::publish), [`answer`](Publisher::answer) | |
//! | output | [`poll_timeout`](Publisher::poll_timeout) | [`poll_output`](Subscriber::poll_output), [`poll_timeout`](Subscriber::poll_timeout) |
//!
//! Both sit beside a session: its entities are the driver's, who knows from [`keys`] what they are called.

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
