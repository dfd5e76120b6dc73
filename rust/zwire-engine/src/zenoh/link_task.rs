//! Tasks of one link: reading, decoding and delivering its messages, and its end.

use super::link_settings::{link_policy, patience, reassembly_bytes};
use crate::{
    rt::clock,
    zenoh::{
        connectivity::LinkInfo,
        contacts::Contact,
        core::Side,
        effects::Effects,
        establish::Established,
        intercept::Waiting,
        lending,
        link::{Link, LinkEnd, PeerFault},
        reassembly::Share,
        release,
        shared::SessionShared,
    },
};
use bytes::{Bytes, BytesMut};
use core::time::Duration;
use std::{
    io,
    sync::{Arc, Weak, atomic::Ordering},
};
use zwire_proto::zenoh::{
    Reliability, WhatAmI,
    link::{LinkParams, LinkRx, LinkTx, Progress, RxConfig, StreamFramer, TxConfig},
    node::{FaceError, FaceId, FaceKind},
    wire::{CloseReason, NetworkMessage},
};

/// Least size of one read: four full batches. `rx/buffer_size` may ask for more.
const READ_BYTES: usize = 256 * 1024;

/// Largest batch that arrives as a datagram beside streams: other implementations send at most 1.2 KB.
const DATAGRAM_BATCH: u16 = 2048;

/// Makes a link of an established session, registers it with the machines, and starts its tasks. The link
/// ends when it is closed.
pub(crate) fn start_link(shared: &Arc<SessionShared>, established: Established) -> io::Result<Arc<Link>> {
    let Established { io, params, rest, tap, contact, lending: ticket } = established;
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
    let (remote, resolution) = (params.remote, params.resolution);
    let link = Link::new(io, params, tx, policy, tap, shared.progress.clone())?;
    let rules = shared.rules.in_force();
    let between_routers = [config.mode, remote.whatami] == [WhatAmI::Router; 2];
    link.set_policy(&rules, Some(remote.zid), between_routers);
    let info = Arc::new(LinkInfo::of(&link));
    let face = shared.with_core(&mut Effects::default(), |core, now, _| {
        if shared.is_closed() {
            // The session has closed all links that it knew, and this one was not among them.
            return None;
        }
        let newest = shared.rules.in_force();
        if !Arc::ptr_eq(&rules, &newest) {
            // Replaced in the meantime, when the link was not among those that got the new rules.
            link.set_policy(&newest, Some(remote.zid), between_routers);
        }
        core.connectivity.up(info.clone());
        Some(match &mut core.side {
            Side::Client(slot) => {
                release::prepare(shared, &link, FaceId(1));
                *slot = Some(link.clone());
                core.api.limit_request_ids(resolution);
                core.api.handle_link_up(now, remote);
                core.client_link_up(&link.peer);
                FaceId(1)
            }
            Side::Node(side) => {
                let face = side.new_face();
                release::prepare(shared, &link, face);
                side.links.insert(face, link.clone());
                core.origins.add(face.0, &link.peer);
                side.node.handle_face_up(now, face, remote, FaceKind::Unicast);
                side.node.limit_request_ids(face, resolution);
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
    shared.spawn(link.clone().run_tx());
    lending::start(shared, &link, ticket);
    shared.spawn(receive(weak, link.clone(), (face, contact, info), rx, framer, rest));
    if let Some(at) = link.io.expires() {
        shared.spawn(end_with_certificate(link.clone(), at));
    }
    Ok(link)
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

/// Messages that are decoded before they are delivered: few enough to stay in the caches of the
/// processor, enough to make the lock cheap.
const AT_ONCE: usize = 128;

/// Time of handling declarations after which a link that always has more lets the tasks of other links run: with 64
/// such links on two threads, another one waits for 16 ms.
const TURN: Duration = Duration::from_micros(500);

/// The same for data, of which a link may always have more: a compressed batch of 40 bytes holds thousands of
/// messages. Turns as short as those of declarations would cost a tenth of the rate.
const DATA_TURN: Duration = Duration::from_millis(2);

/// Whether the handling of messages may take long: each changes tables, and others are told.
fn is_slow(messages: &[(NetworkMessage, Reliability)]) -> bool {
    let slow = |message: &NetworkMessage| {
        matches!(message, NetworkMessage::Declare(_) | NetworkMessage::Interest(_) | NetworkMessage::Oam(_))
    };
    messages.first().is_some_and(|(message, _)| slow(message))
}

/// Reads until the link ends, then removes it from the machines.
async fn receive(
    shared: Weak<SessionShared>,
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

/// Hands messages to the machines. A link that has used its time for matching waits here, and so does one with a
/// message that the authority has to decide about: its peer is under back-pressure. `None`: the session is gone, or the
/// link is closed meanwhile.
async fn deliver(
    shared: &Weak<SessionShared>,
    link: &Arc<Link>,
    face: FaceId,
    messages: &mut Vec<(NetworkMessage, Reliability)>,
    effects: &mut Effects,
    end: &mut Option<Option<CloseReason>>,
) -> Option<()> {
    link.stats.rx_messages.fetch_add(messages.len() as u64, Ordering::Relaxed);
    link.borrow(messages);
    let (mut admitted, mut waiting) = link.admit(messages, None);
    loop {
        let shared = shared.upgrade()?;
        match shared.deliver(face, messages, effects, || link.own_guard().changes() == admitted) {
            Ok(None) if messages.is_empty() => {
                let Some(Waiting { messages: rest, question }) = waiting.take() else { return Some(()) };
                // The messages before it go on meanwhile.
                shared.settle(effects);
                drop(shared);
                let answer = tokio::select! {
                    answer = question.answer() => answer,
                    () = link.closed() => return None,
                };
                *messages = rest;
                (admitted, waiting) = link.admit(messages, Some((question.rules(), answer)));
            }
            // The rules were replaced before these messages were in.
            Ok(None) => {
                let (by, first) = link.admit(messages, None);
                admitted = by;
                waiting = match (first, waiting) {
                    (Some(mut first), Some(later)) => {
                        first.messages.extend(later.messages);
                        Some(first)
                    }
                    (first, later) => first.or(later),
                };
            }
            Ok(Some(until)) => {
                shared.settle(effects);
                drop(shared);
                if until <= clock::mono() {
                    tokio::task::yield_now().await;
                    continue;
                }
                tokio::select! {
                    () = tokio::time::sleep_until(clock::instant(until)) => {}
                    () = link.closed() => return None,
                }
            }
            Err(fault) => {
                let reason = blame(link, fault);
                end.get_or_insert(reason);
                return Some(());
            }
        }
    }
}

async fn receive_loop(
    shared: &Weak<SessionShared>,
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
    let several = link.io.ways().is_some();
    let (read_bytes, most, mut share) = {
        let shared = shared.upgrade()?;
        let read_bytes = shared.config.link.rx_buffer_size.max(READ_BYTES);
        (read_bytes, reassembly_bytes(&shared.config), Share::new(shared.reassembly.clone()))
    };
    // Time of this turn, spent on messages that are slow, and its begin.
    let (mut turn, mut begun_at) = (Duration::ZERO, clock::mono());
    loop {
        let mut end = None;
        let mut any = false;
        // Buffers for the next messages do not take memory from other links: they go when there is not plenty.
        rx.set_reassembly_bytes(share.update(rx.incomplete(), most));
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
                    let begun = is_slow(&messages).then(clock::mono);
                    deliver(shared, link, face, &mut messages, &mut effects, &mut end).await?;
                    turn += begun.map_or(Duration::ZERO, |begun| clock::mono().saturating_sub(begun));
                    if turn > TURN || clock::mono().saturating_sub(begun_at) > DATA_TURN {
                        let shared = shared.upgrade()?;
                        shared.settle(&mut effects);
                        drop(shared);
                        tokio::task::yield_now().await;
                        (turn, begun_at) = (Duration::ZERO, clock::mono());
                    }
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
            deliver(shared, link, face, &mut messages, &mut effects, &mut end).await?;
        }
        if any {
            let shared = shared.upgrade()?;
            shared.settle(&mut effects);
            effects.wait_all(patience(&shared.config)).await;
        }
        if let Some(reason) = end {
            return reason;
        }
        if clock::mono().saturating_sub(begun_at) > DATA_TURN {
            tokio::task::yield_now().await;
            begun_at = clock::mono();
        }
        // Reads while data is available, then waits for more or for the lease.
        loop {
            buf.reserve(read_bytes);
            let before = buf.len();
            match link.io.try_read(buf) {
                Ok(0) => {
                    link.note_end(LinkEnd::Lost);
                    return None;
                }
                Ok(n) => {
                    link.stats.rx_bytes.fetch_add(n as u64, Ordering::Relaxed);
                    link.tap.iter().for_each(|tap| tap.received(&buf[before..]));
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
                ready = link.io.readable() => if ready.is_err() { return None },
                () = &mut sleep => {
                    armed = false;
                    if rx.handle_timeout(clock::now()) {
                        link.note_end(LinkEnd::Silent);
                        return None;
                    }
                }
                () = link.closed() => return None,
            }
            begun_at = clock::mono();
        }
    }
}
