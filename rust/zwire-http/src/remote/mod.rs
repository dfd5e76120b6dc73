//! The remote API over WebSockets: upgrade, and the script that speaks it.

mod entities;
mod report;
mod session;
mod socket;

use crate::{
    body::{Body, packed},
    client::Client,
    error::Problem,
    events::admit_stream,
};
use hyper::{
    HeaderMap, Request, Response, StatusCode,
    body::Incoming,
    header::{
        CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
        SEC_WEBSOCKET_VERSION, UPGRADE,
    },
};
use tungstenite::handshake::derive_accept_key;

pub(crate) use report::report;

/// Client for pages: one ES module.
const SCRIPT: &str = include_str!("../../js/zwire.js");

/// Subprotocol of clients that offer a token beside it: a browser wants one of its offers back.
const PROTOCOL: &str = "zwire";

/// Answers with the client for pages.
pub(crate) fn script(gzip: bool) -> Response<Body> {
    packed(gzip, "text/javascript; charset=utf-8", SCRIPT.into())
}

/// Whether a request asks for a WebSocket.
pub(crate) fn is_upgrade(headers: &HeaderMap) -> bool {
    headers.get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// Answers a request for a WebSocket, and serves it from then on.
pub(crate) fn accept(client: &Client, request: &mut Request<Incoming>) -> Result<Response<Body>, Problem> {
    if !client.site.options.websocket {
        return Err(Problem::new(StatusCode::NOT_FOUND, "this port serves no WebSockets"));
    }
    let headers = request.headers();
    if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Err(Problem::new(StatusCode::UPGRADE_REQUIRED, "the version of the WebSocket has to be 13"));
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).ok_or_else(|| Problem::bad("no Sec-WebSocket-Key"))?;
    let accepted = HeaderValue::try_from(derive_accept_key(key.as_bytes()));
    let accepted = accepted.map_err(|_| Problem::bad("Sec-WebSocket-Key cannot be answered"))?;
    let offers = headers.get(SEC_WEBSOCKET_PROTOCOL).and_then(|value| value.to_str().ok());
    let offers_ours = offers.is_some_and(|offers| offers.split(',').any(|offer| offer.trim() == PROTOCOL));
    let permit = admit_stream(client)?;
    let upgrade = hyper::upgrade::on(request);
    let client = client.clone();
    tokio::spawn(async move {
        // The client may be gone before the answer is sent.
        if let Ok(stream) = upgrade.await {
            socket::serve(stream, client).await;
        }
        drop(permit);
    });
    let mut response = Response::new(Body::whole(""));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let out = response.headers_mut();
    out.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    out.insert(UPGRADE, HeaderValue::from_static("websocket"));
    out.insert(SEC_WEBSOCKET_ACCEPT, accepted);
    if offers_ours {
        out.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
    }
    Ok(response)
}
