//! Streams of server-sent events: a subscriber for each client.

use crate::{
    body::{Body, Parts},
    client::Client,
    error::Problem,
    limits::{CHUNK, EVENTS, KEEP_ALIVE},
    node::{Declared, Inbox},
    page::json_of,
};
use hyper::{
    Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue},
};
use tokio::{sync::OwnedSemaphorePermit, time::timeout};
use zwire_engine::{Full, Handler};
use zwire_proto::zenoh::{
    KeyExpr,
    session::{Sample, SampleKind, SubscriberOptions},
};

/// Permission for one more stream.
pub(crate) fn admit_stream(client: &Client) -> Result<OwnedSemaphorePermit, Problem> {
    client.site.streams.clone().try_acquire_owned().map_err(|_| {
        let most = client.site.options.limits.streams;
        let text = format!("{most} event streams and WebSockets are open, which is the most");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, text)
    })
}

/// Answers with the samples of a key as events.
pub(crate) fn subscribe(client: &Client, key: KeyExpr) -> Result<Response<Body>, Problem> {
    client.gate.subscribe(&key)?;
    let permit = admit_stream(client)?;
    // A slow client loses its oldest events, and holds up no other receiver.
    let handler = Handler::Channel(EVENTS, Full::DropOldest);
    let (id, queue) =
        client.site.session.declare_subscriber(key.clone(), SubscriberOptions::default(), handler)?;
    let (declared, inbox) = (Declared::new(&client.site.session, id, key), Inbox::new(queue));
    let (body, parts) = Body::parts();
    let client = client.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = run(&client, &declared.key, &inbox, &parts) => {}
            () = parts.gone() => {}
            _ = client.expired() => {}
        }
        drop((declared, permit));
    });
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

async fn run(client: &Client, key: &KeyExpr, inbox: &Inbox<Sample>, parts: &Parts) {
    let mut dropped = 0;
    loop {
        let mut text = Vec::new();
        match timeout(KEEP_ALIVE, inbox.next()).await {
            Err(_) => text.extend_from_slice(b":\n\n"),
            Ok(None) => return,
            // The rules may have changed.
            Ok(Some(_)) if client.gate.subscribe(key).is_err() => return,
            Ok(Some(sample)) => {
                write_event(&mut text, client, &sample);
                // Events that came together are sent together.
                while text.len() < CHUNK
                    && let Ok(Some(sample)) = inbox.queue.try_recv()
                {
                    write_event(&mut text, client, &sample);
                }
            }
        }
        let now = inbox.queue.dropped();
        if now > dropped {
            let lost = now - dropped;
            client.site.counters.events_dropped(lost);
            text.extend_from_slice(
                format!(": {lost} events were dropped, this client is too slow\n\n").as_bytes(),
            );
            dropped = now;
        }
        if !text.is_empty() && !parts.send(text).await {
            return;
        }
    }
}

fn write_event(out: &mut Vec<u8>, client: &Client, sample: &Sample) {
    if !client.gate.leave(sample) {
        return;
    }
    out.extend_from_slice(match sample.kind {
        SampleKind::Put => &b"event: PUT\ndata: "[..],
        SampleKind::Delete => b"event: DELETE\ndata: ",
    });
    // JSON of one line: all control characters in it are escaped.
    out.extend(json_of(sample));
    out.extend_from_slice(b"\n\n");
}
