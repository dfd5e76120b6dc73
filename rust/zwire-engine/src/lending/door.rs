//! [`Doors`]: where neighbours connect the channels of links that a session has accepted.

use super::{LendingFailure, channel, lender::Lending};
use core::{pin::Pin, time::Duration};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    io,
    sync::{Arc, Weak},
};
use tokio::{
    io::unix::AsyncFd,
    sync::{Semaphore, oneshot},
};
use zwire_proto::lending::{ChannelMessage, ChannelSecret, LendingOffer};
use zwire_shm::{Channel, Door};

/// Time within which a process that connects has to say which link it is for: it does so at once.
const HELLO_LIMIT: Duration = Duration::from_secs(1);

/// Channels that have not said yet which link they are for. Any process of the host can open them; those beyond are
/// closed.
const STRANGERS: usize = 32;

/// Pause after a connection could not be accepted: the table of descriptors may be full.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The door of a session, which opens for the first neighbour on the same host, and the links that wait for a channel.
#[derive(Default)]
pub(super) struct Doors {
    name: Mutex<Option<ChannelSecret>>,
    expected: Mutex<HashMap<ChannelSecret, oneshot::Sender<Channel>>>,
}

/// Offer of an acceptor, and the channel that comes for it. Without it the channel is closed.
pub(crate) struct Ticket {
    offer: LendingOffer,
    channel: oneshot::Receiver<Channel>,
    lending: Arc<Lending>,
}

/// Task of a door.
pub(crate) type DoorTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The name of a door in the abstract name space.
pub(super) fn name_of(door: ChannelSecret) -> Vec<u8> {
    let mut name = b"zwire-".to_vec();
    name.extend(door.0.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()));
    name
}

pub(super) fn random() -> Option<ChannelSecret> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(ChannelSecret(bytes))
}

impl Lending {
    /// Offer of the side that opens a link; `None` without random numbers.
    pub(crate) fn offer_to_acceptor() -> Option<LendingOffer> {
        random().map(|secret| LendingOffer { secret, door: None })
    }

    /// Offer of the side that accepts a link, with the place for its channel. `spawn` starts the task of the door, which
    /// runs until it is aborted. `None` if the system has no door.
    pub(crate) fn ticket(self: &Arc<Self>, spawn: impl FnOnce(DoorTask)) -> Option<Ticket> {
        let door = self.door(spawn)?;
        let secret = random()?;
        let (sender, channel) = oneshot::channel();
        self.doors.expected.lock().insert(secret, sender);
        let offer = LendingOffer { secret, door: Some(door) };
        Some(Ticket { offer, channel, lending: self.clone() })
    }

    /// The name of the door, which is opened if it is not.
    fn door(self: &Arc<Self>, spawn: impl FnOnce(DoorTask)) -> Option<ChannelSecret> {
        let mut known = self.doors.name.lock();
        if known.is_some() {
            return *known;
        }
        let name = random()?;
        let door = match Door::open(&name_of(name)).and_then(watched) {
            Ok(door) => door,
            Err(error) => {
                tracing::debug!(%error, "no door for shared memory");
                return None;
            }
        };
        spawn(Box::pin(serve(Arc::downgrade(self), door)));
        *known = Some(name);
        *known
    }
}

/// A door that a task waits for.
#[allow(unsafe_code, reason = "tokio wants a promise about the descriptor")]
fn watched(door: Door) -> io::Result<AsyncFd<Door>> {
    // SAFETY: a door owns its descriptor, and neither closes nor replaces it while it exists.
    Ok(unsafe { AsyncFd::register(door) }?)
}

impl Ticket {
    pub(crate) const fn offer(&self) -> LendingOffer {
        self.offer
    }

    /// The channel of the other end.
    pub(super) async fn channel(mut self) -> Result<Channel, LendingFailure> {
        (&mut self.channel).await.map_err(|_| LendingFailure::Unreachable)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.lending.doors.expected.lock().remove(&self.offer.secret);
    }
}

/// Hands channels to the links that wait for them.
async fn serve(lending: Weak<Lending>, door: AsyncFd<Door>) {
    let places = Arc::new(Semaphore::new(STRANGERS));
    loop {
        let accepted = match door.readable().await {
            Ok(mut ready) => ready.try_io(|door| door.get_ref().accept()),
            Err(_) => return,
        };
        match accepted {
            // Before it takes a place: the name of the door is no secret on this host.
            Ok(Ok(channel)) if !is_allowed(&lending, &channel) => {}
            Ok(Ok(channel)) => {
                if let Ok(place) = places.clone().try_acquire_owned() {
                    let lending = lending.clone();
                    tokio::spawn(async move {
                        let greeted = tokio::time::timeout(HELLO_LIMIT, greet(&lending, channel)).await;
                        if let Ok(Err(error)) = greeted {
                            tracing::debug!(%error, "a channel for shared memory is closed");
                        }
                        drop(place);
                    });
                }
            }
            Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(Err(error)) => {
                tracing::debug!(%error, "a channel for shared memory cannot be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            // Not ready after all.
            Err(_) => {}
        }
    }
}

/// Whether a process may share memory with this one.
fn is_allowed(lending: &Weak<Lending>, channel: &Channel) -> bool {
    lending.upgrade().is_some_and(|lending| channel.is_of_this_user_or(lending.users()).unwrap_or(false))
}

/// Hands a new channel to the link that waits for it.
async fn greet(lending: &Weak<Lending>, connected: Channel) -> io::Result<()> {
    let connected = channel::watched(Arc::new(connected))?;
    let Some((ChannelMessage::Hello(secret), _)) = channel::receive(&connected).await? else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "its first message is not HELLO"));
    };
    let Some(lending) = lending.upgrade() else { return Ok(()) };
    let waiting = lending.doors.expected.lock().remove(&secret);
    if let (Some(waiting), Some(connected)) = (waiting, Arc::into_inner(connected.into_inner())) {
        // The link may have ended meanwhile.
        let _ = waiting.send(connected);
    }
    Ok(())
}
