//! [`Listener`]: accepts connections.

use super::{CloseReason, Connection, ConnectionConfig, Owner, endpoint, establish};
use crate::{error::Error, net::tcp, rt::runtime::Birth};
use core::{fmt, time::Duration};
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
    task::AbortHandle,
};

/// Pause after an accept error: the file descriptor table may be full.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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
}

#[derive(Default)]
struct ListenerState {
    /// Handshakes in progress, oldest first.
    shaking: VecDeque<(u64, AbortHandle)>,
    connections: HashMap<u64, Arc<Connection>>,
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
        let (shaking, connections) = {
            let mut state = self.inner.state.lock();
            (core::mem::take(&mut state.shaking), core::mem::take(&mut state.connections))
        };
        shaking.iter().for_each(|(_, task)| task.abort());
        connections.values().for_each(|connection| connection.close());
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
        // Under the lock, so that the task cannot end before its entry exists.
        let mut state = inner.state.lock();
        if state.connections.len() >= inner.config.max_connections {
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
                    inner.state.lock().shaking.retain(|(known, _)| *known != id);
                    tracing::debug!(%reason, "an incoming connection failed");
                    inner.owner.closed(None, &reason);
                }
            })
        };
        state.shaking.push_back((id, task.abort_handle()));
        while state.shaking.len() > inner.config.max_handshakes.max(1) {
            if let Some((_, oldest)) = state.shaking.pop_front() {
                oldest.abort();
            }
        }
    }
}

async fn welcome(inner: &Arc<ListenerInner>, stream: TcpStream, id: u64) -> Result<(), CloseReason> {
    tcp::established(&stream)?;
    let established = establish::establish(stream, &inner.config, &inner.owner).await?;
    let fresh = Connection::fresh(established, &inner.config, VecDeque::new())?;
    let connection = fresh.connection.clone();
    {
        let mut state = inner.state.lock();
        state.shaking.retain(|(known, _)| *known != id);
        if inner.closed.load(Ordering::Acquire) {
            return Ok(());
        }
        if state.connections.len() >= inner.config.max_connections {
            return Err(CloseReason::TooMany);
        }
        state.connections.insert(connection.id, connection);
    }
    let listener = inner.clone();
    fresh.start(&inner.runtime, inner.owner.clone(), move |connection| {
        listener.state.lock().connections.remove(&connection.id);
    });
    Ok(())
}
