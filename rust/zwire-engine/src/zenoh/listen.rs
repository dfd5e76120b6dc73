//! Listening: accepts connections and opens sessions with the nodes that connect.

use super::link_settings::{handshake_config, tapped};
use crate::{
    config::{Budget, Target},
    error::ConnectReason,
    lending::Ticket,
    net::io::{Bound, IncomingLink, LinkListener},
    rt::clock,
    zenoh::{
        establish::{self, Established},
        link_task::start_link,
        scouting,
        shared::{Listening, SessionShared},
    },
};
use bytes::Bytes;
use core::time::Duration;
use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Weak},
};
use tokio::task::JoinHandle;
use zwire_proto::zenoh::{
    Remote,
    discovery::Proof,
    link::{Acceptor, HandshakeConfig, HandshakeError},
    wire::CloseReason,
};

/// Pause after an accept error, as in eclipse-zenoh: the file descriptor table may be full.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Handshakes under way, oldest first.
type Pending = Arc<parking_lot::Mutex<VecDeque<(u64, JoinHandle<()>)>>>;

/// Accepts connections. At most `accept_pending` handshakes run at once; when one more arrives, the
/// oldest is aborted, so that connections that never send anything cannot keep others out.
async fn accept_loop(shared: Weak<SessionShared>, listener: LinkListener, endpoint: String) {
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
                    // TLS, the authentication or the origin of the peer: worth a log line at info level.
                    Err(
                        reason @ (ConnectReason::Tls(_)
                        | ConnectReason::WebSocket(_)
                        | ConnectReason::Handshake(HandshakeError::Auth(_))),
                    ) => tracing::info!(%peer, %reason, "a connection was refused"),
                    Err(reason) => tracing::debug!(%peer, %reason, "an incoming connection failed"),
                }
                pending.lock().retain(|(known, _)| *known != id);
            })
        };
        let oldest = {
            let mut pending = pending.lock();
            // The task may have finished already; its entry then leaves when it is the oldest.
            if !task.is_finished() {
                pending.push_back((id, task));
            }
            let excess = pending.len() > strong.config.unicast.accept_pending;
            if excess { pending.pop_front() } else { None }
        };
        drop(strong);
        if let Some((_, oldest)) = oldest {
            oldest.abort();
            // No further connection until the one of this handshake is closed: they are bounded, too.
            let _aborted = oldest.await;
        }
    }
}

/// Listens at an endpoint: retries as long as `budget` allows, with the configured pauses.
///
/// # Errors
/// Why the last attempt failed.
pub(crate) async fn listen(
    shared: &Weak<SessionShared>,
    target: &Target,
    budget: Budget,
) -> Result<(), ConnectReason> {
    let start = clock::mono();
    let mut attempt = 0;
    loop {
        let Some(strong) = shared.upgrade() else { return Ok(()) };
        let bound = LinkListener::bind(target, &strong.config.link).await;
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
                strong.spawn(accept_loop(shared.clone(), listener, locator.clone()));
                strong.listening.lock().push(Listening { locator, guard });
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

async fn accept_one(shared: &Weak<SessionShared>, incoming: IncomingLink) -> Result<(), ConnectReason> {
    let Some(limit) = shared.upgrade().map(|shared| shared.config.unicast.accept_timeout) else {
        return Ok(());
    };
    let start = clock::mono();
    let io =
        tokio::time::timeout(limit, incoming.ready()).await.map_err(|_| ConnectReason::TimedOut(limit))??;
    // The limit covers accepting and the handshake together.
    let limit = limit.saturating_sub(clock::mono().saturating_sub(start));
    let no_randomness = |_| ConnectReason::io(io::Error::other("no randomness"));
    let (tap, acceptor, lending, contacts) = {
        let Some(shared) = shared.upgrade() else { return Ok(()) };
        let mut cookie = [0; 32];
        getrandom::fill(&mut cookie).map_err(no_randomness)?;
        let lending = shared.lending.expect(&shared, &io);
        let offer = lending.as_ref().map(Ticket::offer);
        let config = HandshakeConfig {
            lending: offer,
            named: shared.lending.offer_named(&io),
            ..handshake_config(&shared, &io)
        };
        let mut acceptor = Acceptor::new(config, Bytes::copy_from_slice(&cookie));
        if let Some(users) = shared.users() {
            let mut nonce = [0; 8];
            getrandom::fill(&mut nonce).map_err(no_randomness)?;
            acceptor = acceptor.with_users(users, u64::from_le_bytes(nonce));
        }
        (tapped(&shared, &io, true)?, acceptor, lending, shared.contacts.clone())
    };
    let admit = |remote: &Remote, proof: Proof<'_>| match shared.upgrade() {
        Some(shared) => shared.admit(remote, proof),
        None => Err(CloseReason::GENERIC),
    };
    let established = establish::accept(io, tap, acceptor, limit, &contacts, admit).await?;
    let Some(shared) = shared.upgrade() else { return Ok(()) };
    start_link(&shared, Established { lending, ..established }).map_err(ConnectReason::io)?;
    Ok(())
}
