//! Tasks of a session: receiving, accepting, connecting, timers. They drive the state machines; every
//! decision that a protocol document prescribes is made in `zwire-proto`.

use crate::{
    config::{Budget, LinkOptions, NodeConfig, Target},
    error::{ConnectReason, Error},
    net::{
        io::{Bound, Incoming, Io, Listener, PROTOCOLS},
        tap::TappedConnection,
    },
    rt::clock,
    zenoh::{
        connectivity::{LinkEnd, LinkInfo, PeerFault},
        contacts::Contact,
        core::{Effects, Side},
        establish::{self, Established},
        intercept::Guard,
        link::{Link, LinkPolicy},
        multicast,
        reassembly::Share,
        scouting,
        shared::{Listening, Shared},
    },
};
use bytes::{Bytes, BytesMut};
use core::time::Duration;
use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Weak, atomic::Ordering},
};
use tokio::task::AbortHandle;
use zwire_proto::zenoh::{
    Remote, WhatAmI, ZenohId,
    link::{
        Acceptor, Credentials, HandshakeConfig, HandshakeError, LinkParams, LinkRx, LinkTx, Opener, Progress,
        QosLink, RxConfig, StreamFramer, TxConfig,
    },
    node::{FaceError, FaceId, FaceKind},
    wire::{CloseReason, Resolution},
};

/// Least size of one read: four full batches. `rx/buffer_size` may ask for more.
const READ_BYTES: usize = 256 * 1024;

/// Share of `wait_before_close` that a destination of forwarded messages gets. While this node waits for
/// it, it does not read from the source, and a source that blocks gives this link up after its own
/// `wait_before_close`, which is the same 5 s by default: this wait has to be shorter, or the innocent
/// link is the one that dies.
const FORWARDING_PATIENCE: f64 = 0.6;

/// Largest batch that arrives as a datagram beside streams: other implementations send at most 1.2 KB.
const DATAGRAM_BATCH: u16 = 2048;

/// Pause after an accept error, as in eclipse-zenoh: the file descriptor table may be full.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub(crate) fn handshake_config(shared: &Shared, io: &Io) -> HandshakeConfig {
    let config = &shared.config;
    HandshakeConfig {
        zid: shared.zid,
        whatami: config.mode,
        resolution: Resolution::new(config.link.sn_resolution as u8, Resolution::DEFAULT.request_id()),
        batch_size: config.link.batch_size.min(io.mtu()),
        streamed: io.is_streamed(),
        lease: config.link.lease,
        qos: config.unicast.qos,
        compression: config.unicast.compression,
        low_latency: config.unicast.lowlatency,
        credentials: config.usrpwd.own.as_ref().map(|(user, password)| Credentials {
            user: user.as_str().into(),
            password: password.reveal().into(),
        }),
        ..HandshakeConfig::new(shared.zid, config.mode)
    }
}

/// Connects to one endpoint and opens a session, only with the node of that id if one is given.
pub(crate) async fn connect(
    shared: &Arc<Shared>,
    target: &Target,
    expected: Option<ZenohId>,
) -> Result<Established, ConnectReason> {
    let limit = shared.config.unicast.open_timeout;
    let io = tokio::time::timeout(limit, Io::connect(target, &shared.config.link))
        .await
        .map_err(|_| ConnectReason::TimedOut(limit))??;
    let tap = tapped(shared, &io, false)?;
    // The metadata of a listener is not offered: as in eclipse-zenoh, the accepting side takes the
    // priority range and the reliability of the connecting side.
    let LinkOptions { priorities, reliability, .. } = target.options;
    let qos_link = QosLink { priorities, reliability };
    let config = HandshakeConfig { expected, qos_link, ..handshake_config(shared, &io) };
    establish::open(io, tap, Opener::new(config), limit, &shared.contacts).await
}

fn tapped(shared: &Shared, io: &Io, accepted: bool) -> Result<Option<TappedConnection>, ConnectReason> {
    let Some(tap) = &shared.tap else { return Ok(None) };
    let ends = io.ends().map_err(ConnectReason::io)?;
    Ok(Some(TappedConnection::open(tap, &ends, accepted)))
}

/// Makes a link of an established session, registers it with the machines, and starts its tasks. The link
/// ends when it is closed.
pub(crate) fn start_link(shared: &Arc<Shared>, established: Established) -> io::Result<Arc<Link>> {
    let Established { io, params, rest, tap, contact } = established;
    let config = &shared.config;
    let policy = link_policy(config);
    // The bound is enforced by the engine, because a blocking message waits outside of the machine.
    let tx = LinkTx::new(
        &params,
        TxConfig { bytes_per_priority: usize::MAX, keep_alive: config.link.keep_alive },
        clock::now(),
    );
    // The handshake does not negotiate the batch size of datagrams beside a stream.
    let beside = io.ways().and_then(|ways| ways.best_effort).map_or(0, |_| DATAGRAM_BATCH);
    let received = LinkParams { batch_size: params.batch_size.max(beside), ..params.clone() };
    let rx = LinkRx::new(
        &received,
        RxConfig {
            max_message_size: config.link.max_message_size,
            reassembly_bytes: reassembly_bytes(config),
        },
        clock::now(),
    );
    let framer = StreamFramer::new(&received);
    io.set_open(params.low_latency);
    let remote = params.remote;
    let link = Link::new(io, params, tx, &policy, tap, shared.progress.clone())?;
    link.set_guard(Guard::of(&config.intercept, &link, Some(remote.zid)));
    let mut effects = Effects::default();
    let info = Arc::new(LinkInfo::of(&link));
    let face = shared.with_core(&mut effects, |core, now, _| {
        if shared.is_closed() {
            // The session has closed all links that it knew, and this one was not among them.
            return None;
        }
        core.connectivity.up(info.clone());
        Some(match &mut core.side {
            Side::Client(slot) => {
                *slot = Some(link.clone());
                core.api.handle_link_up(now, remote);
                core.client_link_up(&link.peer);
                FaceId(1)
            }
            Side::Node(side) => {
                let face = side.new_face();
                side.links.insert(face, link.clone());
                core.origins.add(face.0, &link.peer);
                side.node.handle_face_up(now, face, remote, FaceKind::Unicast);
                face
            }
        })
    });
    let Some(face) = face else {
        link.finish(CloseReason::GENERIC);
        link.close();
        return Err(io::Error::new(io::ErrorKind::NotConnected, "the session is closed"));
    };
    tracing::info!(
        peer = link.peer, zid = %remote.zid, whatami = %remote.whatami, local = link.local,
        "connected"
    );
    let weak = Arc::downgrade(shared);
    let tasks = [
        shared.runtime.spawn(link.clone().run_tx()).abort_handle(),
        shared
            .runtime
            .spawn(receive(weak, link.clone(), (face, contact, info), rx, framer, rest))
            .abort_handle(),
    ];
    shared.adopt(tasks);
    if let Some(at) = link.io().expires() {
        shared.adopt([shared.runtime.spawn(end_with_certificate(link.clone(), at)).abort_handle()]);
    }
    Ok(link)
}

pub(crate) fn link_policy(config: &NodeConfig) -> LinkPolicy {
    LinkPolicy {
        lane_bytes: config.link.queue_size.map(|batches| lane_bytes(config, batches)),
        batching: config.link.batching,
        time_limit: config.link.batching_time_limit,
        keep_alive: config.link.keep_alive,
    }
}

/// Longest wait of a forwarded message for its destination.
pub(crate) fn patience(config: &NodeConfig) -> Duration {
    config.link.wait_before_close.mul_f64(FORWARDING_PATIENCE)
}

/// Bytes of incomplete messages that peers not chosen by this node may occupy per link or group, 256 MiB
/// at most.
pub(crate) fn stranger_bytes(config: &NodeConfig) -> usize {
    const STRANGER: usize = 256 << 20;
    config.link.max_message_size.min(STRANGER)
}

/// Ends a link at a wall-clock time, unless it has ended before.
async fn end_with_certificate(link: Arc<Link>, at: Duration) {
    /// The wall clock may be set, so it is read again at this interval.
    const LOOK: Duration = Duration::from_secs(60);
    loop {
        let left = at.saturating_sub(clock::now().wall);
        if left.is_zero() {
            tracing::warn!(peer = %link.peer, zid = %link.params.remote.zid, "the certificate of the peer has expired: closing its link");
            link.finish(CloseReason::EXPIRED);
            link.close();
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(left.min(LOOK)) => {}
            () = link.closed() => return,
        }
    }
}

/// Bytes of incomplete messages that one link may occupy. A client or peer chooses its neighbours; a
/// router accepts any node, and fragments of strangers must not exhaust its memory.
fn reassembly_bytes(config: &NodeConfig) -> usize {
    match config.mode {
        WhatAmI::Router => stranger_bytes(config),
        WhatAmI::Peer | WhatAmI::Client => config.link.max_message_size,
    }
}

/// Byte bound of a lane. Scaled by its size in batches: 2 is the default of `queue/size/*`.
const fn lane_bytes(config: &NodeConfig, batches: usize) -> usize {
    const DEFAULT_BATCHES: usize = 2;
    (config.zwire.queue_bytes_per_priority / DEFAULT_BATCHES).saturating_mul(batches)
}

/// Messages that are decoded before they are delivered: few enough to stay in the caches of the
/// processor, enough to make the lock cheap.
const AT_ONCE: usize = 128;

/// Reads until the link ends, then removes it from the machines.
async fn receive(
    shared: Weak<Shared>,
    link: Arc<Link>,
    // Released only when the machines know that the link is gone.
    (face, _contact, info): (FaceId, Contact, Arc<LinkInfo>),
    mut rx: LinkRx,
    framer: StreamFramer,
    mut buf: BytesMut,
) {
    let reason = receive_loop(&shared, &link, face, &mut rx, &framer, &mut buf).await;
    if let Some(reason) = reason {
        link.finish(reason);
    }
    link.close();
    if let Some(shared) = shared.upgrade() {
        shared.link_down(face, &link, &info);
    }
}

/// Records that the peer has broken a rule: the reason for the CLOSE that it gets.
fn blame(link: &Link, fault: PeerFault) -> Option<CloseReason> {
    // A face that is gone already is no fault of the peer: its link ends for another reason.
    if fault != PeerFault::Face(FaceError::UnknownFace) {
        tracing::warn!(peer = %link.peer, zid = %link.params.remote.zid, error = %fault, "closing the link: the peer violated the protocol");
    }
    let reason = fault.close_reason();
    link.note_end(LinkEnd::Protocol(fault));
    reason
}

async fn receive_loop(
    shared: &Weak<Shared>,
    link: &Arc<Link>,
    face: FaceId,
    rx: &mut LinkRx,
    framer: &StreamFramer,
    buf: &mut BytesMut,
) -> Option<CloseReason> {
    let mut messages = Vec::new();
    let mut effects = Effects::default();
    let sleep = tokio::time::sleep(Duration::ZERO);
    tokio::pin!(sleep);
    let (mut armed, mut closed) = (false, false);
    let several = link.io().ways().is_some();
    let (read_bytes, most, mut share) = {
        let shared = shared.upgrade()?;
        let read_bytes = shared.config.link.rx_buffer_size.max(READ_BYTES);
        (read_bytes, reassembly_bytes(&shared.config), Share::new(shared.reassembly.clone()))
    };
    let deliver = |messages: &mut Vec<_>, effects: &mut Effects, end: &mut Option<Option<CloseReason>>| {
        link.stats.rx_messages.fetch_add(messages.len() as u64, Ordering::Relaxed);
        link.admit(messages);
        if let Err(fault) = shared.upgrade()?.deliver(face, messages, effects) {
            let reason = blame(link, fault);
            end.get_or_insert(reason);
        }
        Some(())
    };
    loop {
        let mut end = None;
        let mut any = false;
        rx.set_reassembly_bytes(share.update(rx.reassembling(), most));
        loop {
            let batch: Bytes = match framer.next(buf) {
                Ok(Some(batch)) => batch,
                Ok(None) => break,
                Err(error) => {
                    end = Some(blame(link, error.into()));
                    break;
                }
            };
            if let Err(error) = rx.begin_batch(clock::now(), batch) {
                end = Some(blame(link, error.into()));
                break;
            }
            loop {
                let progress = rx.read_batch(&mut messages, AT_ONCE);
                match &progress {
                    Ok(Progress::Closed(reason)) => {
                        link.note_end(LinkEnd::ByPeer(*reason));
                        closed = true;
                        // With several streams, data sent before the CLOSE on the others is still read.
                        if !several {
                            end = Some(None);
                        }
                    }
                    Err(error) => {
                        end = Some(blame(link, error.clone().into()));
                    }
                    Ok(_) => {}
                }
                if messages.len() >= AT_ONCE {
                    any = true;
                    deliver(&mut messages, &mut effects, &mut end)?;
                }
                if progress != Ok(Progress::More) || end.is_some() {
                    break;
                }
            }
            if end.is_some() {
                break;
            }
        }
        if !messages.is_empty() {
            any = true;
            deliver(&mut messages, &mut effects, &mut end)?;
        }
        if any {
            let shared = shared.upgrade()?;
            shared.settle(&mut effects);
            effects.wait_all(patience(&shared.config)).await;
        }
        if let Some(reason) = end {
            return reason;
        }
        // Reads while data is available, then waits for more or for the lease.
        loop {
            buf.reserve(read_bytes);
            let before = buf.len();
            match link.io().try_read(buf) {
                Ok(0) => {
                    link.note_end(LinkEnd::Lost);
                    return None;
                }
                Ok(n) => {
                    link.stats.rx_bytes.fetch_add(n as u64, Ordering::Relaxed);
                    link.tap_received(&buf[before..]);
                    break;
                }
                Err(_) if closed => return None,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    link.note_end(LinkEnd::of(&error));
                    return None;
                }
            }
            // The deadline moves with every batch; the timer is only moved when it fires.
            if !armed {
                sleep.as_mut().reset(clock::instant(rx.poll_timeout()?));
                armed = true;
            }
            tokio::select! {
                ready = link.io().readable() => if ready.is_err() { return None },
                () = &mut sleep => {
                    armed = false;
                    if rx.handle_timeout(clock::now()) {
                        link.note_end(LinkEnd::Silent);
                        return None;
                    }
                }
                () = link.closed() => return None,
            }
        }
    }
}

/// Handshakes under way, oldest first.
type Pending = Arc<parking_lot::Mutex<VecDeque<(u64, AbortHandle)>>>;

/// Accepts connections. At most `accept_pending` handshakes run at once; when one more arrives, the
/// oldest is aborted, so that connections that never send anything cannot keep others out.
async fn accept_loop(shared: Weak<Shared>, listener: Listener, endpoint: String) {
    let pending: Pending = Arc::default();
    let mut next = 0;
    loop {
        let accepted = listener.accept().await;
        let Some(strong) = shared.upgrade() else { return };
        if strong.is_closed() {
            return;
        }
        let incoming = match accepted {
            Ok(incoming) => incoming,
            Err(error) => {
                tracing::warn!(endpoint, %error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        next += 1;
        let id = next;
        let task = {
            let (shared, pending) = (shared.clone(), pending.clone());
            strong.runtime.spawn(async move {
                let peer = incoming.peer();
                match accept_one(&shared, incoming).await {
                    Ok(()) => {}
                    // TLS or the authentication of the peer failed: worth a log line at info level.
                    Err(
                        reason @ (ConnectReason::Tls(_) | ConnectReason::Handshake(HandshakeError::Auth(_))),
                    ) => tracing::info!(%peer, %reason, "a connection was refused"),
                    Err(reason) => tracing::debug!(%peer, %reason, "an incoming connection failed"),
                }
                pending.lock().retain(|(known, _)| *known != id);
            })
        };
        let mut pending = pending.lock();
        // The task may have finished already; its entry then leaves when it is the oldest.
        if !task.is_finished() {
            pending.push_back((id, task.abort_handle()));
        }
        while pending.len() > strong.config.unicast.accept_pending {
            if let Some((_, oldest)) = pending.pop_front() {
                oldest.abort();
            }
        }
    }
}

/// Listens at an endpoint: retries as long as `budget` allows, with the configured pauses.
///
/// # Errors
/// Why the last attempt failed.
pub(crate) async fn listen(
    shared: &Weak<Shared>,
    target: &Target,
    budget: Budget,
) -> Result<(), ConnectReason> {
    let start = clock::mono();
    let mut attempt = 0;
    loop {
        let Some(strong) = shared.upgrade() else { return Ok(()) };
        let bound = Listener::bind(target, &strong.config.link).await;
        let left = match budget {
            Budget::Once => Duration::ZERO,
            Budget::Forever => Duration::MAX,
            Budget::Within(budget) => budget.saturating_sub(clock::mono().saturating_sub(start)),
        };
        match bound {
            // The session was closed meanwhile.
            Ok(_) if strong.is_closed() => return Ok(()),
            Ok(Bound { listener, locator, guard }) => {
                tracing::info!(locator, "listening");
                let task = strong.runtime.spawn(accept_loop(shared.clone(), listener, locator.clone()));
                strong.listening.lock().push(Listening { locator, guard });
                strong.adopt([task.abort_handle()]);
                scouting::update_locators(&strong);
                return Ok(());
            }
            Err(reason) if left.is_zero() => return Err(reason),
            Err(reason) => {
                tracing::info!(endpoint = %target.endpoint, %reason, attempt, "not listening yet, trying again");
            }
        }
        drop(strong);
        // The last attempt comes when the budget ends, not after it.
        tokio::time::sleep(target.rules.retry.delay(attempt).min(left)).await;
        attempt = attempt.saturating_add(1);
    }
}

async fn accept_one(shared: &Weak<Shared>, incoming: Incoming) -> Result<(), ConnectReason> {
    let Some(limit) = shared.upgrade().map(|shared| shared.config.unicast.accept_timeout) else {
        return Ok(());
    };
    let start = clock::mono();
    let io =
        tokio::time::timeout(limit, incoming.ready()).await.map_err(|_| ConnectReason::TimedOut(limit))??;
    // The limit covers accepting and the handshake together.
    let limit = limit.saturating_sub(clock::mono().saturating_sub(start));
    let no_randomness = |_| ConnectReason::io(io::Error::other("no randomness"));
    let (tap, acceptor) = {
        let Some(shared) = shared.upgrade() else { return Ok(()) };
        let mut cookie = [0; 32];
        getrandom::fill(&mut cookie).map_err(no_randomness)?;
        let mut acceptor = Acceptor::new(handshake_config(&shared, &io), Bytes::copy_from_slice(&cookie));
        if let Some(users) = &shared.users {
            let mut nonce = [0; 8];
            getrandom::fill(&mut nonce).map_err(no_randomness)?;
            acceptor = acceptor.with_users(users.clone(), u64::from_le_bytes(nonce));
        }
        (tapped(&shared, &io, true)?, acceptor)
    };
    let admit = |remote: &Remote| match shared.upgrade() {
        Some(shared) => shared.admit(remote),
        None => Err(CloseReason::GENERIC),
    };
    let established = establish::accept(io, tap, acceptor, limit, admit).await?;
    let Some(shared) = shared.upgrade() else { return Ok(()) };
    start_link(&shared, established).map_err(ConnectReason::io)?;
    Ok(())
}

/// Checks certificates and keys of the endpoints: unusable ones are an error of `open`, not of each
/// attempt.
pub(crate) fn check_endpoints(config: &NodeConfig) -> Result<(), Error> {
    let name = |target: &Target| target.endpoint.as_str().to_owned();
    for target in config.connect.targets() {
        Io::check(target, &config.link)
            .map_err(|reason| Error::Connect { endpoint: name(target), reason })?;
    }
    for target in &config.listen.targets {
        Listener::check(target, &config.link)
            .map_err(|reason| Error::Bind { endpoint: name(target), reason })?;
    }
    multicast::check(config)?;
    Ok(())
}

/// Whether this build speaks the protocol of an endpoint and the configuration allows it.
pub(crate) fn is_supported(config: &NodeConfig, target: &Target) -> bool {
    let protocol = target.endpoint.protocol();
    PROTOCOLS.contains(&protocol)
        && config.link.protocols.as_ref().is_none_or(|all| all.iter().any(|p| p == protocol))
}
