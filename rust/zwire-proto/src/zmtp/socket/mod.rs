//! What a socket does with its connections (`zmtp` 12), without doing it: the queues are those of the
//! connections ([`super::link::LinkTx`]), and who drives them asks here where a message goes.
//!
//! | Socket | Keeps |
//! | --- | --- |
//! | ROUTER | [`Router`]: which connection has which identity |
//! | DEALER | [`Dealer`]: whose turn it is |
//! | PUB | [`Subscriptions`]: who wants what |
//! | SUB | [`Subscriber`]: what it wants itself |

mod dealer;
mod router;
mod subscriber;
mod subscriptions;

pub use dealer::{Dealer, Undealt};
pub use router::{Admission, Router};
pub use subscriber::Subscriber;
pub use subscriptions::{PeerKey, Subscriptions, TooManySubscriptions};
