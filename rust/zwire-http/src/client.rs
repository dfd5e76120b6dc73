//! The state of a server, and its clients.

use crate::{
    access::{AccessGate, Identity, Way, identify},
    body::BodyRoom,
    counters::Counters,
    error::Problem,
    listing::Clients,
    lobby::Lobby,
    options::Options,
};
use hyper::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use std::{net::SocketAddr, sync::Arc};
use tokio::sync::{Semaphore, watch};
use zwire_engine::Session;

/// State that all connections share.
pub(crate) struct Site {
    pub(crate) session: Session,
    pub(crate) options: Options,
    pub(crate) lobby: Arc<Lobby>,
    pub(crate) bodies: BodyRoom,
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) counters: Counters,
    /// Clients of the remote API.
    pub(crate) clients: Arc<Clients>,
    /// Fails when the server is closed.
    pub(crate) closing: watch::Receiver<()>,
}

/// Connection of a client, with the policy of its last user.
pub(crate) struct Caller {
    pub(crate) site: Arc<Site>,
    pub(crate) peer: SocketAddr,
    way: Way,
    last: Mutex<Option<Arc<AccessGate>>>,
}

/// Client of one request.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) site: Arc<Site>,
    pub(crate) peer: SocketAddr,
    pub(crate) identity: Identity,
    pub(crate) gate: Arc<AccessGate>,
    /// Whether it accepts compressed answers.
    pub(crate) gzip: bool,
}

impl Caller {
    pub(crate) fn new(site: Arc<Site>, peer: SocketAddr, way: Way) -> Self {
        Self { site, peer, way, last: Mutex::default() }
    }

    /// The client of a request, if its credentials are valid. `foreign`: whether a page of an origin that is not listed
    /// sends it. `gzip`: whether it accepts compressed answers.
    pub(crate) fn client(&self, headers: &HeaderMap, foreign: bool, gzip: bool) -> Result<Client, Problem> {
        let site = &self.site;
        let identity = identify(&site.options, |user| site.session.password_of(user), headers)?;
        let mut way = self.way.clone();
        if foreign {
            let has_certificate = site.options.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
            if !identity.bearer && (identity.user.is_some() || has_certificate) {
                let text = "a browser has added the password or the certificate of its user to a request of a page of \
                            another origin: list the origin in origins, or let the page send a bearer token";
                return Err(Problem::new(StatusCode::FORBIDDEN, text));
            }
            way.common_name = None;
        }
        let mut last = self.last.lock();
        let gate = match &*last {
            Some(gate) if gate.is_of(identity.user.as_deref(), &way) => gate.clone(),
            _ => {
                let gate = Arc::new(AccessGate::new(
                    &site.session,
                    way,
                    identity.user.clone(),
                    site.options.read_only,
                ));
                *last = Some(gate.clone());
                gate
            }
        };
        drop(last);
        let gzip = gzip && site.options.gzip;
        Ok(Client { site: site.clone(), peer: self.peer, identity, gate, gzip })
    }
}

impl Client {
    /// Completed, with the reason, when its credentials are no longer valid.
    pub(crate) async fn expired(&self) -> &'static str {
        self.identity.expired(|user| self.site.session.password_of(user)).await
    }
}
