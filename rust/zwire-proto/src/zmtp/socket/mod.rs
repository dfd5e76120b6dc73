//! Rules of a socket with several connections (`zmtp` 12), without IO: the queues belong to the
//! connections ([`super::link::ZmtpTx`]), and the driver asks here where a message goes.
//!
//! | Socket | Keeps |
//! | --- | --- |
//! | ROUTER | [`Router`]: which connection has which identity |
//! | DEALER | [`Dealer`]: the next connection in turn |
//! | PUB | [`Subscriptions`]: prefixes of each subscriber |
//! | SUB | [`SubscriberSocket`]: its own prefixes |

mod dealer;
mod router;
mod subscriber;
mod subscriptions;

pub use dealer::{Dealer, Undealt};
pub use router::{Admission, Router};
pub use subscriber::SubscriberSocket;
pub use subscriptions::{PeerKey, Subscriptions, TooManySubscriptions};
