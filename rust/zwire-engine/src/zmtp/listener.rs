//! [`Listener`]: accepts connections.

use super::{CloseReason, Connection, ConnectionConfig, Owner, endpoint, establish};
use crate::{
    error::Error,
    net::tcp,
    rt::{clock, runtime::Birth},
};
use core::{fmt, pin::pin, time::Duration};
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
};

/// Pause after an accept error: the file descriptor table may be full.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Age from which a handshake is aborted in favour of a new connection: peers of a burst have sent their
/// greetings by then, and the aborted one has time to be a slow one of the network.
const PATIENCE: Duration = Duration::from_millis(100);

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
    /// Notified when a handshake ends, or is promised.
    room: Notify,
}

#[derive(Default)]
struct ListenerState {
    /// Handshakes before the READY of this side, oldest first.
    shaking: VecDeque<Shaking>,
    /// Handshakes after it: the peer may have completed them.
    promised: HashMap<u64, AbortHandle>,
    connections: HashMap<u64, Arc<Connection>>,
}

/// A handshake in progress.
struct Shaking {
    id: u64,
    task: JoinHandle<()>,
    /// On the monotonic clock.
    since: Duration,
}

/// Room for one more handshake.
enum Room {
    Free,
    /// Time that the oldest handshake still has.
    After(Duration),
    /// The oldest handshake, which has used its time.
    Abort(Shaking),
}

impl ListenerState {
    /// Whether a handshake more is within the bound; removes the oldest one if it has used its time.
    fn room(&mut self, bound: usize) -> Room {
        let Some(oldest) = self.shaking.front().filter(|_| self.shaking.len() >= bound) else {
            return Room::Free;
        };
        let left = PATIENCE.saturating_sub(clock::mono().saturating_sub(oldest.since));
        if left.is_zero() {
            self.shaking.pop_front().map_or(Room::Free, Room::Abort)
        } else {
            Room::After(left)
        }
    }

    /// Removes the handshake of a connection.
    fn settle(&mut self, id: u64) -> Option<AbortHandle> {
        let shaking = self.shaking.iter().position(|shaking| shaking.id == id);
        let shaking =
            shaking.and_then(|at| self.shaking.remove(at)).map(|shaking| shaking.task.abort_handle());
        shaking.or_else(|| self.promised.remove(&id))
    }
}

impl ListenerInner {
    /// Notes that the peer of a handshake may complete it from now on. Fails if it was aborted.
    fn promise(&self, id: u64) -> Result<(), CloseReason> {
        let mut state = self.state.lock();
        let task = state.settle(id).ok_or(CloseReason::TooManyHandshakes)?;
        state.promised.insert(id, task);
        drop(state);
        self.room.notify_one();
        Ok(())
    }

    /// Waits until one more handshake may begin; aborts the oldest one if that takes too long.
    async fn make_room(&self) {
        loop {
            let mut room = pin!(self.room.notified());
            room.as_mut().enable();
            let found = self.state.lock().room(self.config.max_handshakes.max(1));
            match found {
                Room::Free => return,
                Room::After(left) => drop(tokio::time::timeout(left, room).await),
                Room::Abort(Shaking { task, .. }) => {
                    task.abort();
                    // Its descriptor is free when the task has ended.
                    let _ = task.await;
                    tracing::debug!("an incoming connection was aborted: too many handshakes at once");
                    self.owner.closed(None, &CloseReason::TooManyHandshakes);
                }
            }
        }
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
                    let inner = Arc::new(ListenerInner {
                        runtime: runtime.clone(),
                        birth: Birth::here(),
                        config,
                        owner,
                        state: Mutex::default(),
                        closed: AtomicBool::new(false),
                        room: Notify::new(),
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
        state.shaking.iter().for_each(|shaking| shaking.task.abort());
        state.promised.values().for_each(AbortHandle::abort);
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
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) if inner.closed.load(Ordering::Acquire) => return,
            Err(error) => {
                tracing::warn!(endpoint = listener.local_addr().ok().map(tracing::field::display), %error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        next += 1;
        let id = next;
        inner.make_room().await;
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
                    if inner.state.lock().settle(id).is_some() {
                        inner.room.notify_one();
                        tracing::debug!(%reason, "an incoming connection failed");
                        inner.owner.closed(None, &reason);
                    }
                }
            })
        };
        state.shaking.push_back(Shaking { id, task, since: clock::mono() });
    }
}

async fn welcome(inner: &Arc<ListenerInner>, stream: TcpStream, id: u64) -> Result<(), CloseReason> {
    tcp::established(&stream)?;
    let promise = || inner.promise(id);
    let established = establish::establish(stream, &inner.config, &inner.owner, promise).await?;
    let fresh = Connection::fresh(established, &inner.config, VecDeque::new())?;
    let connection = fresh.connection.clone();
    {
        let mut state = inner.state.lock();
        drop(state.settle(id));
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
