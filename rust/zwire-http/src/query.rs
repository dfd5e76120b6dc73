//! Queries and publications of requests.

use crate::{
    body::{Body, Packer, mark_packed, packed},
    client::Client,
    error::Problem,
    limits::CHUNK,
    node::{self, OpenGet},
    page::{Form, Page, media_type},
};
use hyper::{
    HeaderMap, Response, StatusCode,
    header::{CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS},
};
use std::sync::Arc;
use zwire_proto::zenoh::{
    CongestionControl, Encoding, KeyExpr, Parameters, Payload, Priority, Qos,
    session::{Get, Publication},
    wire::{Consolidation, Del, PushBody, Put, QueryBody},
};

/// Parameter that asks for the value of the first reply alone.
pub(crate) const RAW: &str = "_raw";

/// Encoding that a request names for its body. Links carry no longer one.
pub(crate) fn encoding(headers: &HeaderMap) -> Result<Encoding, Problem> {
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(Encoding::DEFAULT) };
    let encoding = Encoding::from_text(String::from_utf8_lossy(value.as_bytes()).into_owned());
    match encoding.schema.as_ref().map_or(0, |schema| schema.len()) {
        0..=Encoding::MAX_SCHEMA_LEN => Ok(encoding),
        len => {
            let most = Encoding::MAX_SCHEMA_LEN;
            Err(Problem::bad(format!(
                "Content-Type: a schema or custom encoding has at most {most} octets, not {len}"
            )))
        }
    }
}

/// Publishes the body of a request, or deletes the key.
pub(crate) async fn publish(
    client: &Client,
    key: KeyExpr,
    value: Option<(Encoding, Payload)>,
) -> Result<Response<Body>, Problem> {
    let body = match value {
        Some((encoding, payload)) => PushBody::Put(Put { encoding, payload, ..Put::default() }),
        None => PushBody::Del(Del::default()),
    };
    client.gate.publish(&key, &body)?;
    let mut publication = Publication::new(key, body);
    // The reference drops what does not fit, and answers 200 nevertheless.
    publication.qos = Qos::new(Priority::Data, CongestionControl::Block, false);
    node::put(&client.site.session, publication).await?;
    Ok(Response::new(Body::whole("")))
}

/// Queries, and answers with a list or with the first value.
pub(crate) async fn query(
    client: &Client,
    key: KeyExpr,
    parameters: &str,
    value: Option<(Encoding, Payload)>,
    form: Form,
) -> Result<Response<Body>, Problem> {
    let parameters = Parameters::new(parameters.to_owned());
    let mut get = Get::new(key);
    get.parameters = parameters.text().clone();
    get.consolidation = match parameters.time_range() {
        Ok(Some(_)) => Consolidation::None,
        _ => Consolidation::Latest,
    };
    get.body = value.map(|(encoding, payload)| QueryBody { encoding, shm: false, payload });
    client.gate.query(&get)?;
    let replies = node::get(&client.site.session, get, Arc::default()).await?;
    if parameters.contains(RAW) {
        return Ok(first(client, &replies).await);
    }
    list(client, replies, form).await
}

/// The value of the first reply, which may be an error.
async fn first(client: &Client, replies: &OpenGet) -> Response<Body> {
    let (encoding, payload) = loop {
        match replies.next().await {
            Some(reply) if !client.gate.reply(&replies.key, &reply) => {}
            Some(reply) => match reply.result {
                Ok(sample) => break (sample.encoding, sample.payload),
                Err(error) => break (error.encoding, error.payload),
            },
            None => return Response::new(Body::whole("")),
        }
    };
    let mut response = Response::new(Body::whole(payload.into_bytes()));
    let (media, packed) =
        media_type(&encoding).unwrap_or_else(|| ("application/octet-stream".to_owned(), None));
    let headers = response.headers_mut();
    for (name, text) in [(CONTENT_TYPE, Some(media)), (CONTENT_ENCODING, packed)] {
        // A value has no octets that a header may not have: `media_type` has checked that.
        if let Some(value) = text.and_then(|text| HeaderValue::try_from(text).ok()) {
            headers.insert(name, value);
        }
    }
    // The publisher has chosen value and type: a browser must run no script of it as a page of this server.
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// All replies, as a list. A long one is sent while it is collected.
async fn list(client: &Client, replies: OpenGet, form: Form) -> Result<Response<Body>, Problem> {
    let mut page = Page::new(form);
    while page.len() < CHUNK {
        match replies.next().await {
            Some(reply) if client.gate.reply(&replies.key, &reply) => page.add(&reply),
            Some(_) => {}
            None => {
                if let Some(problem) = replies.lost() {
                    return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, problem));
                }
                return Ok(packed(client.gzip, form.content_type(), page.finish()));
            }
        }
    }
    let (body, parts) = Body::parts();
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(form.content_type()));
    if client.gzip {
        mark_packed(&mut response);
    }
    let (client, mut packer) = (client.clone(), Packer::new(client.gzip));
    tokio::spawn(async move {
        loop {
            if page.len() >= CHUNK {
                let part = packer.pack(page.take());
                if !part.is_empty() && !parts.send(part).await {
                    return;
                }
            }
            let next = tokio::select! {
                next = replies.next() => next,
                () = parts.gone() => return,
            };
            match next {
                Some(reply) if client.gate.reply(&replies.key, &reply) => page.add(&reply),
                Some(_) => {}
                None => break,
            }
        }
        if let Some(problem) = replies.lost() {
            tracing::warn!(target: "zwire.http", "an answer was cut: {problem}");
            return parts.fail(problem).await;
        }
        let mut rest = packer.pack(page.finish());
        rest.extend(packer.finish());
        // The client may be gone.
        let _ = parts.send(rest).await;
    });
    Ok(response)
}
