//! [`Listener`]: accepts connections.

use super::{
    CloseReason, Connection, ConnectionConfig, Owner, endpoint, establish, lending::Side, turns::network_of,
};
use crate::{
    error::Error,
    net::tcp,
    rt::{clock, descriptors, runtime::Birth},
};
use core::{fmt, net::IpAddr, pin::pin, time::Duration};
use parking_lot::Mutex;
use socket2::SockRef;
use std::{
    collections::{HashMap, VecDeque},
    io,
    net::{Shutdown, SocketAddr, ToSocketAddrs},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::Handle,
    sync::Notify,
    task::{AbortHandle, JoinHandle},
    time::timeout,
};

/// Pause after an accept error: the file descriptor table may be full.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Age from which a handshake is aborted in favour of a new connection: peers of a burst have sent their
/// greetings by then, and the aborted one has time to be a slow one of the network.
const PATIENCE: Duration = Duration::from_millis(100);

/// The same after the READY of this side, in favour of a connection from the same address: the peer may have
/// completed the handshake and sent messages, which would be lost.
const PROMISED_PATIENCE: Duration = Duration::from_secs(1);

/// A bound endpoint, and the connections accepted by it. Dropping it closes them.
pub struct Listener {
    inner: Arc<ListenerInner>,
    accepting: AbortHandle,
    socket: Arc<TcpListener>,
    local: SocketAddr,
}

struct ListenerInner {
    runtime: Handle,
    birth: Birth,
    config: ConnectionConfig,
    owner: Arc<dyn Owner>,
    state: Mutex<ListenerState>,
    closed: AtomicBool,
    /// Bound of the handshakes before the READY of this side.
    most: usize,
    /// Bound of those after it.
    most_promised: usize,
    /// Notified when a handshake ends before it is promised, or is promised.
    room: Notify,
    /// Notified when a promised handshake ends.
    promise_room: Notify,
}

#[derive(Default)]
struct ListenerState {
    /// Handshakes before the READY of this side, oldest first.
    shaking: VecDeque<Shaking>,
    /// Handshakes after it, oldest first: the peer may have completed them.
    promised: VecDeque<Shaking>,
    connections: HashMap<u64, Arc<Connection>>,
}

/// A handshake in progress.
struct Shaking {
    id: u64,
    /// Network of the peer.
    network: IpAddr,
    task: JoinHandle<()>,
    /// Since its begin, or its promise, on the monotonic clock.
    since: Duration,
}

/// Room for one more handshake.
enum Room {
    Free,
    /// Time that the handshake to be aborted still has.
    After(Duration),
    /// The handshake to be aborted, which has used its time.
    Abort(Shaking),
}

impl Room {
    /// Whether one more handshake of a network is within the bound. Else the oldest one of the network that has
    /// most of them is removed, if it has used its time: a flood from one address leaves the others alone.
    fn among(all: &mut VecDeque<Shaking>, bound: usize, patience: impl Fn(IpAddr) -> Duration) -> Self {
        if all.len() < bound {
            return Self::Free;
        }
        let mut counts = HashMap::<IpAddr, usize>::new();
        all.iter().for_each(|one| *counts.entry(one.network).or_default() += 1);
        let most = counts.values().copied().max().unwrap_or(0);
        let Some(at) = all.iter().position(|one| counts[&one.network] == most) else { return Self::Free };
        let age = clock::mono().saturating_sub(all[at].since);
        let left = patience(all[at].network).saturating_sub(age);
        if left.is_zero() { all.remove(at).map_or(Self::Free, Self::Abort) } else { Self::After(left) }
    }
}

/// Removes a handshake.
fn remove(all: &mut VecDeque<Shaking>, id: u64) -> Option<Shaking> {
    let at = all.iter().position(|one| one.id == id)?;
    all.remove(at)
}

impl ListenerInner {
    /// Notes that the peer of a handshake may complete it from now on, once there is room among those. Fails if
    /// it was aborted.
    async fn promise(&self, id: u64) -> Result<(), CloseReason> {
        loop {
            let mut room = pin!(self.promise_room.notified());
            room.as_mut().enable();
            let found = {
                let mut guard = self.state.lock();
                let state = &mut *guard;
                if state.promised.iter().any(|one| one.id == id) {
                    return Ok(());
                }
                let at = state.shaking.iter().position(|one| one.id == id);
                let at = at.ok_or(CloseReason::TooManyHandshakes)?;
                let network = state.shaking[at].network;
                let patience = |other| if other == network { PROMISED_PATIENCE } else { PATIENCE };
                let found = Room::among(&mut state.promised, self.most_promised, patience);
                if matches!(found, Room::Free)
                    && let Some(one) = state.shaking.remove(at)
                {
                    state.promised.push_back(Shaking { since: clock::mono(), ..one });
                }
                found
            };
            match found {
                Room::Free => {
                    self.room.notify_one();
                    return Ok(());
                }
                Room::After(left) => drop(timeout(left, room).await),
                Room::Abort(oldest) => self.abort(oldest).await,
            }
        }
    }

    /// Waits until one more handshake may begin; aborts an old one if that takes too long.
    async fn make_room(&self) {
        loop {
            let mut room = pin!(self.room.notified());
            room.as_mut().enable();
            let found = Room::among(&mut self.state.lock().shaking, self.most, |_| PATIENCE);
            match found {
                Room::Free => return,
                Room::After(left) => drop(timeout(left, room).await),
                Room::Abort(oldest) => self.abort(oldest).await,
            }
        }
    }

    async fn abort(&self, oldest: Shaking) {
        oldest.task.abort();
        tracing::debug!("an incoming connection was aborted: too many handshakes at once");
        self.owner.closed(None, &CloseReason::TooManyHandshakes);
        // Its descriptor is free when the task has ended.
        let _ = oldest.task.await;
    }

    /// Removes the handshake of a connection; `false`: it was aborted.
    fn settle(&self, id: u64) -> bool {
        let (before, after) = {
            let mut state = self.state.lock();
            (remove(&mut state.shaking, id).is_some(), remove(&mut state.promised, id).is_some())
        };
        if before {
            self.room.notify_one();
        }
        if after {
            self.promise_room.notify_one();
        }
        before || after
    }
}

impl Listener {
    /// Binds `tcp://host:port`; `*` stands for all addresses, and `*` or 0 for any free port. Names are
    /// resolved in the calling thread.
    ///
    /// # Errors
    /// The endpoint is invalid, or cannot be bound.
    pub fn bind(
        runtime: &Handle,
        endpoint: &str,
        config: ConnectionConfig,
        owner: Arc<dyn Owner>,
    ) -> Result<Self, Error> {
        let address = endpoint::bind(endpoint)?;
        let failed = |error| Error::Listen { endpoint: endpoint.to_owned(), source: Arc::new(error) };
        let _runtime = runtime.enter();
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in address.to_socket_addrs().map_err(failed)? {
            let listening = tcp::listen_on(address, &|_, _| Ok(()))
                .and_then(|listener| Ok((listener.local_addr()?, listener)));
            match listening {
                Ok((local, listener)) => {
                    let most_promised = descriptors::for_strangers();
                    let inner = Arc::new(ListenerInner {
                        most: config.max_handshakes.clamp(1, most_promised),
                        most_promised,
                        runtime: runtime.clone(),
                        birth: Birth::here(),
                        config,
                        owner,
                        state: Mutex::default(),
                        closed: AtomicBool::new(false),
                        room: Notify::new(),
                        promise_room: Notify::new(),
                    });
                    let socket = Arc::new(listener);
                    let accepting = runtime.spawn(accept(inner.clone(), socket.clone())).abort_handle();
                    return Ok(Self { inner, accepting, socket, local });
                }
                Err(error) => last = error,
            }
        }
        Err(failed(last))
    }

    /// Address that it listens on, with the port that was chosen.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Open connections accepted by it.
    #[must_use]
    pub fn connections(&self) -> Vec<Arc<Connection>> {
        self.inner.state.lock().connections.values().cloned().collect()
    }

    /// Stops accepting, and closes the accepted connections.
    pub fn close(&self) {
        // A forked child must not wait for a lock that its parent may have held.
        if !self.inner.birth.is_here() {
            return;
        }
        self.inner.closed.store(true, Ordering::Release);
        // Frees the port before this returns, although the task still holds the socket. Some systems
        // report an error because the socket is not connected.
        let _ = SockRef::from(&*self.socket).shutdown(Shutdown::Both);
        self.accepting.abort();
        let state = core::mem::take(&mut *self.inner.state.lock());
        state.shaking.iter().chain(&state.promised).for_each(|shaking| shaking.task.abort());
        state.connections.values().for_each(|connection| connection.close());
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("local", &self.local).finish_non_exhaustive()
    }
}

async fn accept(inner: Arc<ListenerInner>, listener: Arc<TcpListener>) {
    let mut next = 0;
    loop {
        let (stream, remote) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) if inner.closed.load(Ordering::Acquire) => return,
            Err(error) => {
                tracing::warn!(endpoint = listener.local_addr().ok().map(tracing::field::display), %error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        next += 1;
        let id = next;
        // In a box, because most listeners never wait, and the task of each would have the room for it.
        Box::pin(inner.make_room()).await;
        // Under the lock, so that the task cannot end before its entry exists.
        let mut state = inner.state.lock();
        if state.connections.len() + state.promised.len() >= inner.config.max_connections {
            drop(state);
            // Before the handshake, so that the peer cannot have sent messages that would be lost.
            drop(stream);
            inner.owner.closed(None, &CloseReason::TooMany);
            continue;
        }
        let task = {
            let inner = inner.clone();
            inner.runtime.clone().spawn(async move {
                let result = welcome(&inner, stream, id).await;
                if let Err(reason) = result {
                    // An aborted handshake has no entry, and is told of where it was aborted.
                    if inner.settle(id) {
                        tracing::debug!(%reason, "an incoming connection failed");
                        inner.owner.closed(None, &reason);
                    }
                }
            })
        };
        let network = network_of(remote.ip());
        state.shaking.push_back(Shaking { id, network, task, since: clock::mono() });
    }
}

async fn welcome(inner: &Arc<ListenerInner>, stream: TcpStream, id: u64) -> Result<(), CloseReason> {
    tcp::established(&stream)?;
    let promise = || inner.promise(id);
    let established =
        establish::establish(stream, &inner.config, &inner.owner, Side::Accepts, promise).await?;
    let fresh = Connection::fresh(established, &inner.config, VecDeque::new())?;
    let connection = fresh.connection.clone();
    {
        inner.settle(id);
        let mut state = inner.state.lock();
        if inner.closed.load(Ordering::Acquire) {
            return Ok(());
        }
        state.connections.insert(connection.id, connection);
    }
    let listener = inner.clone();
    fresh.start(&inner.runtime, inner.owner.clone(), move |connection| {
        listener.state.lock().connections.remove(&connection.id);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shaking(id: u64, host: u8, age: Duration) -> Shaking {
        let since = clock::mono().saturating_sub(age);
        Shaking { id, network: [10, 0, 0, host].into(), task: tokio::spawn(core::future::pending()), since }
    }

    fn aborted(all: &mut VecDeque<Shaking>, patience: Duration) -> Option<u64> {
        match Room::among(all, 4, |_| patience) {
            Room::Abort(one) => Some(one.id),
            Room::Free | Room::After(_) => None,
        }
    }

    #[tokio::test]
    async fn a_crowd_of_one_address_makes_room_first() {
        // A clock that has run for as long as the handshakes are old.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let age = Duration::from_millis(10);
        let hosts = [(1, 1), (2, 2), (3, 2), (4, 2)];
        let mut all: VecDeque<_> = hosts.into_iter().map(|(id, host)| shaking(id, host, age)).collect();
        assert_eq!(aborted(&mut all, Duration::from_secs(60)), None, "it has time left");
        assert_eq!(all.len(), 4);
        assert_eq!(aborted(&mut all, age), Some(2));
        assert_eq!(aborted(&mut all, age), None, "there is room");
        all.push_back(shaking(5, 1, age));
        assert_eq!(aborted(&mut all, age), Some(1), "of equal crowds the oldest");
    }
}
