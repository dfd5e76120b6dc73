//! [`Watch`]: a connection under CURVE, seen by an observer with keys of its ends (`zmtp` 6.3).
//!
//! Traffic behind INITIATE is encrypted between the transient keys C' and S', so that one of these
//! secrets must be given; S' itself is in the WELCOME, which the server's permanent secret opens.

use bytes::Bytes;
use zwire_proto::{
    buf::Reader,
    zmtp::{
        crypto::{KeyPair, PublicKey, SharedKey},
        link::curve::{CurveOpener, INITIATE, Opened, READY, WELCOME, long_nonce, short_nonce},
        wire::{
            Metadata,
            curve::{CurveHello, CurveInitiate, CurveReady, CurveWelcome},
        },
    },
};

/// Length of the data before the metadata in the box of INITIATE: C and the vouch.
const BEFORE_METADATA: usize = 32 + 96;

#[derive(Debug, Default)]
pub(super) struct Watch {
    /// C'.
    client: Option<PublicKey>,
    /// S'.
    server: Option<PublicKey>,
    key: Option<SharedKey>,
    /// Openers of the client's and of the server's boxes.
    openers: Option<[CurveOpener; 2]>,
}

impl Watch {
    pub(super) const fn handle_hello(&mut self, hello: &CurveHello) {
        self.client = Some(PublicKey(hello.client_transient));
    }

    pub(super) fn handle_welcome(&mut self, welcome: &CurveWelcome, keys: &[KeyPair]) {
        let Some(client) = self.client else { return };
        let nonce = long_nonce(WELCOME, &welcome.nonce);
        let of_server = keys.iter().filter_map(|pair| pair.secret.shared(&client));
        // With the secret of C' the public permanent key of the server suffices as well.
        let of_client = keys.iter().filter(|pair| pair.public == client);
        let of_client =
            of_client.flat_map(|pair| keys.iter().filter_map(|other| pair.secret.shared(&other.public)));
        self.server = of_server
            .chain(of_client)
            .find_map(|key| key.open(&nonce, &welcome.sealed))
            .and_then(|opened| opened.first_chunk().copied())
            .map(PublicKey);
    }

    pub(super) fn handle_initiate(
        &mut self,
        initiate: &CurveInitiate,
        keys: &[KeyPair],
    ) -> Option<zwire_proto::error::Result<Metadata>> {
        let nonce = short_nonce(INITIATE, initiate.nonce);
        self.metadata(self.candidates(keys), &nonce, &initiate.sealed, BEFORE_METADATA)
    }

    pub(super) fn handle_ready(
        &mut self,
        ready: &CurveReady,
        keys: &[KeyPair],
    ) -> Option<zwire_proto::error::Result<Metadata>> {
        let nonce = short_nonce(READY, ready.nonce);
        let candidates = self.key.clone().map_or_else(|| self.candidates(keys), |key| vec![key]);
        self.metadata(candidates, &nonce, &ready.sealed, 0)
    }

    /// The metadata behind `before` octets of a box, opened with the first key that fits, which is kept.
    fn metadata(
        &mut self,
        keys: Vec<SharedKey>,
        nonce: &[u8; 24],
        sealed: &[u8],
        before: usize,
    ) -> Option<zwire_proto::error::Result<Metadata>> {
        let open = |key: SharedKey| Some((key.open(nonce, sealed)?, key));
        let (opened, key) = keys.into_iter().find_map(open)?;
        if self.key.is_none() {
            self.openers = Some([false, true].map(|from_server| CurveOpener::new(key.clone(), from_server)));
            self.key = Some(key);
        }
        Some(Metadata::decode(&mut Reader::new(&Bytes::from(opened).slice(before..))))
    }

    /// Opens a MESSAGE. `None`: no key is known. An error: the known key does not open the box.
    pub(super) fn open(&mut self, from_server: bool, body: &Bytes) -> Option<Result<Opened, ()>> {
        let openers = self.openers.as_mut()?;
        Some(openers[usize::from(from_server)].open(body).map_err(drop))
    }

    /// Candidates for the shared key of C' and S'.
    fn candidates(&self, keys: &[KeyPair]) -> Vec<SharedKey> {
        let Some(client) = self.client else { return Vec::new() };
        let other = |pair: &KeyPair| match self.server {
            Some(server) if pair.public != server => (pair.public == client).then_some(server),
            _ => Some(client),
        };
        keys.iter().filter_map(|pair| pair.secret.shared(&other(pair)?)).collect()
    }
}
