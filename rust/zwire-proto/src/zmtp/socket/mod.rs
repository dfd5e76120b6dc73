//! What a socket does with its connections (`zmtp` 12).

mod subscriptions;

pub use subscriptions::{PeerKey, Subscriptions, TooManySubscriptions};
