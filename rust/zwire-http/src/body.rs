//! Bodies: of answers, whole or in parts, and of requests, with their bounds.

use crate::{
    error::Problem,
    limits::{BODY, CHUNKS, COMPRESSED_FROM, STALLED},
    lobby::Busy,
};
use bytes::Bytes;
use core::{
    pin::Pin,
    task::{Context, Poll},
};
use flate2::{Compression, write::GzEncoder};
use http_body_util::BodyExt as _;
use hyper::{
    Response, StatusCode,
    body::{Body as HttpBody, Frame, Incoming, SizeHint},
    header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, VARY},
};
use std::io::{self, Write as _};
use tokio::{
    sync::{Semaphore, SemaphorePermit, mpsc},
    time::timeout,
};
use zwire_proto::zenoh::{Payload, PayloadParts};

/// Body of an answer.
pub(crate) struct Body {
    content: Content,
    /// Released when the answer is sent, or its client gone.
    _busy: Option<Busy>,
}

enum Content {
    Whole(Option<Bytes>),
    Parts(mpsc::Receiver<io::Result<Bytes>>),
}

impl Body {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self { content: Content::Whole((!bytes.is_empty()).then_some(bytes)), _busy: None }
    }

    /// A body in parts, and the sender of these. An error cuts the connection, so that the client knows that the
    /// answer is incomplete.
    pub(crate) fn parts() -> (Self, Parts) {
        let (sender, receiver) = mpsc::channel(CHUNKS);
        (Self { content: Content::Parts(receiver), _busy: None }, Parts(sender))
    }

    pub(crate) fn with(self, busy: Busy) -> Self {
        Self { _busy: Some(busy), ..self }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut self.content {
            Content::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Content::Parts(parts) => parts.poll_recv(context).map_ok(Frame::data),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.content, Content::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Content::Parts(_) => SizeHint::default(),
        }
    }
}

/// Sender of the parts of a body.
pub(crate) struct Parts(mpsc::Sender<io::Result<Bytes>>);

impl Parts {
    /// Sends a part; false if the client is gone, or accepts nothing any more.
    pub(crate) async fn send(&self, part: impl Into<Bytes>) -> bool {
        matches!(timeout(STALLED, self.0.send(Ok(part.into()))).await, Ok(Ok(())))
    }

    /// Cuts the connection.
    pub(crate) async fn fail(&self, problem: String) {
        // The client is gone if it is not accepted.
        let _ = timeout(STALLED, self.0.send(Err(io::Error::other(problem)))).await;
    }

    /// Completed when the client is gone.
    pub(crate) async fn gone(&self) {
        self.0.closed().await;
    }
}

/// An answer with a text.
pub(crate) fn text(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::whole(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Compression of the parts of an answer, if its client accepts that.
pub(crate) struct Packer(Option<GzEncoder<Vec<u8>>>);

impl Packer {
    pub(crate) fn new(gzip: bool) -> Self {
        Self(gzip.then(|| GzEncoder::new(Vec::new(), Compression::fast())))
    }

    /// Octets to send for `part`; there may be none yet.
    pub(crate) fn pack(&mut self, part: Vec<u8>) -> Vec<u8> {
        let Some(encoder) = &mut self.0 else { return part };
        // Writing to memory does not fail.
        let _ = encoder.write_all(&part);
        core::mem::take(encoder.get_mut())
    }

    /// The last octets.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.0.and_then(|encoder| encoder.finish().ok()).unwrap_or_default()
    }
}

/// Marks an answer as compressed.
pub(crate) fn mark_packed(response: &mut Response<Body>) {
    response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept-encoding"));
}

/// An answer with a text, compressed if that is worth it.
pub(crate) fn packed(gzip: bool, content_type: &'static str, body: Vec<u8>) -> Response<Body> {
    if !gzip || body.len() < COMPRESSED_FROM {
        return text(StatusCode::OK, content_type, body);
    }
    let mut packer = Packer::new(true);
    let mut whole = packer.pack(body);
    whole.extend(packer.finish());
    let mut response = text(StatusCode::OK, content_type, whole);
    mark_packed(&mut response);
    response
}

/// Memory of request bodies, which all connections share.
pub(crate) struct BodyRoom {
    octets: Semaphore,
    /// Most octets of one body.
    most: usize,
}

impl BodyRoom {
    /// Room for `all` octets, in bodies of at most `most`.
    pub(crate) fn new(most: usize, all: usize) -> Self {
        Self { octets: Semaphore::new(all.max(most)), most }
    }

    /// Reads the body of a request. Its memory is counted until the permit is dropped.
    pub(crate) async fn read(
        &self,
        body: Incoming,
    ) -> Result<(Payload, Option<SemaphorePermit<'_>>), Problem> {
        let late =
            || Problem::new(StatusCode::REQUEST_TIMEOUT, "the body of the request did not arrive in time");
        timeout(BODY, self.collect(body)).await.map_err(|_| late())?
    }

    async fn collect(&self, mut body: Incoming) -> Result<(Payload, Option<SemaphorePermit<'_>>), Problem> {
        let too_large = || {
            let text = format!("the body of the request has more than {} octets", self.most);
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, text)
        };
        if HttpBody::size_hint(&body).lower() > self.most as u64 {
            return Err(too_large());
        }
        let mut parts = PayloadParts::default();
        let mut len = 0;
        let mut held: Option<SemaphorePermit<'_>> = None;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Problem::bad(format!("the body of the request: {error}")))?;
            // Trailers mean nothing here.
            let Ok(data) = frame.into_data() else { continue };
            len += data.len();
            if len > self.most {
                return Err(too_large());
            }
            self.hold(&mut held, data.len())?;
            parts.push(data);
        }
        Ok((parts.finish(), held))
    }

    /// Counts more octets of a body until the permit is dropped.
    pub(crate) fn hold<'room>(
        &'room self,
        held: &mut Option<SemaphorePermit<'room>>,
        octets: usize,
    ) -> Result<(), Problem> {
        let busy = || {
            let text = "the bodies of other requests have all the memory there is: try again later";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, text)
        };
        let wanted = u32::try_from(octets).map_err(|_| busy())?;
        let permit = self.octets.try_acquire_many(wanted).map_err(|_| busy())?;
        match held {
            Some(held) => held.merge(permit),
            None => *held = Some(permit),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read as _;

    fn unpacked(packed: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        GzDecoder::new(packed).read_to_end(&mut plain).unwrap();
        plain
    }

    #[test]
    fn parts_that_were_compressed_are_one_stream() {
        let mut packer = Packer::new(true);
        let mut sent = Vec::new();
        for part in 0..100u8 {
            sent.extend(packer.pack(vec![part; 1000]));
        }
        sent.extend(packer.finish());
        let plain = unpacked(&sent);
        assert_eq!(plain.len(), 100_000);
        assert!(plain.chunks(1000).zip(0..).all(|(chunk, part)| chunk.iter().all(|octet| *octet == part)));
    }

    #[test]
    fn short_answers_are_not_compressed() {
        let response = packed(true, "text/plain", vec![b'a'; COMPRESSED_FROM - 1]);
        assert_eq!(response.headers().get(CONTENT_ENCODING), None);
        let response = packed(true, "text/plain", vec![b'a'; COMPRESSED_FROM]);
        assert_eq!(response.headers()[CONTENT_ENCODING], "gzip");
        let response = packed(false, "text/plain", vec![b'a'; COMPRESSED_FROM]);
        assert_eq!(response.headers().get(CONTENT_ENCODING), None);
    }
}
