//! Clients of the remote API in the admin space: `@/<zid>/remote-plugin/**`, as the reference has it.
//!
//! A query with wildcards that names `clients` gets one list, under its own key; `clients/<uuid>` is one client, by the id
//! that a ping gives. Queries without `clients` get the options and the version.

use crate::{
    client::Site,
    listing::ClientListing,
    node::{self, Declared, Inbox},
    options::Options,
};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;
use zwire_engine::{Full, Handler, Query};
use zwire_proto::zenoh::{
    Encoding, KeyExpr,
    session::{QueryReply, QueryReplyBody, QueryableOptions, ReplyError},
    wire::{PushBody, Put},
};

/// Queries that wait. Each costs an answer; the oldest end without one.
const WAITING: Handler = Handler::Channel(64, Full::DropOldest);

/// Most octets of keys in an answer, as a message of a link may have.
const MOST: usize = 16 << 20;

/// Options of a server, as the reference has those of its plugin.
fn config_of(options: &Options) -> Value {
    let tls = options.tls.as_ref();
    json!({
        "websocket_port": options.listen,
        "secure_websocket": tls.map(|tls| json!({
            "certificate_path": tls.certificate, "private_key_path": tls.private_key,
        })),
        "__path__": null,
        "__required__": null,
        "__config__": null,
    })
}

/// Answers to a query, which is about keys below the `prefix` `@/<zid>/remote-plugin`: keys with JSON.
fn answers(site: &Site, prefix: &str, asked: &KeyExpr) -> Result<Vec<(KeyExpr, String)>, String> {
    let key = |name: &str| KeyExpr::new(format!("{prefix}/{name}")).map_err(|error| error.to_string());
    if !asked.as_str().split('/').any(|chunk| chunk == "clients") {
        let found = [("config", config_of(&site.options)), ("version", env!("CARGO_PKG_VERSION").into())];
        let found = found.into_iter().map(|(name, value)| Ok((key(name)?, value.to_string())));
        return found.filter(|found| found.as_ref().is_ok_and(|(key, _)| asked.intersects(key))).collect();
    }
    let mut clients: Vec<ClientListing> = site.clients.all();
    let all = key("clients")?;
    let is_list = asked.is_wild() || *asked == all;
    if !is_list {
        clients.retain(|client| asked.as_str() == format!("{all}/{}", client.uuid));
    }
    let octets: usize = clients.iter().map(ClientListing::octets).sum();
    if octets > MOST {
        return Err(format!("the keys of the clients have {octets} octets: ask for {all}/<uuid>"));
    }
    if is_list {
        // With a wildcard for the id of the node, lists of several nodes would have one key, and one would be left of them.
        let under = if asked.as_str().starts_with(prefix) { asked.clone() } else { key("clients/**")? };
        return Ok(vec![(under, pretty(&clients)?)]);
    }
    clients.iter().map(|client| Ok((asked.clone(), pretty(client)?))).collect()
}

fn pretty(value: &impl Serialize) -> Result<String, String> {
    serde_json::to_string_pretty(value).map_err(|error| error.to_string())
}

/// Answers queries until the session is closed.
pub(crate) async fn report(site: Arc<Site>) {
    let session = &site.session;
    let prefix = format!("@/{}/remote-plugin", session.zid());
    let declared = KeyExpr::new(format!("{prefix}/**")).map_err(|error| error.to_string()).and_then(|key| {
        let declared = session.declare_queryable(key.clone(), QueryableOptions::default(), WAITING);
        declared
            .map(|(id, queue)| (Declared::new(session, id, key), queue))
            .map_err(|error| error.to_string())
    });
    let (_declared, inbox) = match declared {
        Ok((declared, queue)) => (declared, Inbox::new(queue)),
        Err(error) => {
            tracing::warn!(target: "zwire.http", "{prefix} cannot be declared: {error}");
            return;
        }
    };
    while let Some(query) = inbox.next().await {
        if session.admin_is_readable() {
            answer(&site, &prefix, query).await;
        }
    }
}

async fn answer(site: &Site, prefix: &str, query: Query) {
    let query = Arc::new(query);
    let bodies: Vec<QueryReplyBody> = match answers(site, prefix, &query.key) {
        Ok(found) => {
            let sample = |(key, text): (KeyExpr, String)| {
                let body = PushBody::Put(Put { encoding: Encoding::APPLICATION_JSON, ..Put::new(text) });
                QueryReplyBody::Sample { key, body }
            };
            found.into_iter().map(sample).collect()
        }
        Err(problem) => vec![QueryReplyBody::Err(ReplyError {
            encoding: Encoding::TEXT_PLAIN,
            payload: problem.into_bytes().into(),
            stamps: None,
        })],
    };
    for body in bodies {
        // It fails if the asker is gone.
        if let Err(error) = node::reply(&query, QueryReply { body, express: None, stamps: None }).await {
            tracing::debug!(target: "zwire.http", "a reply under {prefix}: {error}");
        }
    }
    query.finish();
}
