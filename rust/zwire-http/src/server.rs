//! The listener and its connections.

use crate::{
    access::Way,
    body::BodyRoom,
    client::{Caller, Site},
    counters::Counters,
    error::Error,
    limits::{ALL_BODIES, BACKLOG, HANDSHAKE, HEAD, MAX_HEAD, MAX_HEADERS, PAUSE, STALLED},
    lobby::Seat,
    options::Options,
    remote::report,
};
use core::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll, ready},
};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use serde_json::{Value, json};
use socket2::SockRef;
use std::{
    io,
    net::{SocketAddr, TcpListener as StdListener},
    sync::Arc,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    select,
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{Sleep, sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use zwire_engine::{
    Error as EngineError, PLUGIN_PATH, Session, StatusEntry, clock, plugin_report,
    runtime::{self, ServerTask},
    tls_common_name, tls_server_config,
};
use zwire_proto::zenoh::Encoding;

/// A server, from its start until [`Self::close`].
pub struct HttpServer {
    address: SocketAddr,
    task: ServerTask,
    /// Keys of the admin space, as long as the server runs.
    status: Mutex<Option<Arc<Vec<StatusEntry>>>>,
}

/// Keys of the admin space about a server: those of zenohd, with the address in the place of its options.
fn status_of(options: &Options) -> Vec<StatusEntry> {
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    let (id, port) = match options.rest || options.ui.is_some() {
        true => ("rest", "http_port"),
        false => ("remote_api", "websocket_port"),
    };
    let entry = |name: &str, encoding, value: String| {
        (format!("status/plugins/{id}/{name}"), encoding, value.into_bytes())
    };
    let json = |name: &str, value: Value| entry(name, Encoding::APPLICATION_JSON, value.to_string());
    vec![
        plugin_report(id, VERSION),
        json("version", VERSION.into()),
        json("port", json!({ port: options.listen })),
        entry("__path__", Encoding::TEXT_PLAIN, PLUGIN_PATH.to_owned()),
    ]
}

impl HttpServer {
    /// Serves a session. Fails with [`Error::Listen`] for an address that is not free, and with [`Error::Tls`] for
    /// certificates that cannot be used.
    pub fn start(session: Session, options: Options) -> Result<Self, Error> {
        session.check()?;
        let tls = options.tls.as_ref().map(|tls| tls_server_config(&tls.settings())).transpose()?;
        let failed = |source| Error::Listen { address: options.listen.clone(), source: Arc::new(source) };
        let listener = bind(&options.listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let handle = runtime::handle()?;
        let _inside = handle.enter();
        let listener = TcpListener::from_std(listener).map_err(failed)?;
        if options.ui.is_some() {
            session.serve_log();
        }
        let status = Arc::new(status_of(&options));
        let weak = Arc::downgrade(&status);
        session.add_status(Arc::new(move || weak.upgrade().map(|status| (*status).clone())));
        let limits = options.limits;
        let (open, closing) = watch::channel(());
        let site = Arc::new(Site {
            session,
            lobby: Arc::default(),
            bodies: BodyRoom::new(limits.body, ALL_BODIES),
            streams: Arc::new(Semaphore::new(limits.streams)),
            counters: Counters::default(),
            clients: Arc::default(),
            closing,
            options,
        });
        let tls = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        let task = ServerTask::start(async move {
            let report = report(site.clone());
            let accept = accept(listener, site.clone(), tls);
            if site.options.websocket && site.session.config().adminspace.enabled {
                tokio::join!(accept, report);
            } else {
                accept.await;
            }
            // WebSockets end when this is dropped.
            drop(open);
        })?;
        Ok(Self { address, task, status: Mutex::new(Some(status)) })
    }

    /// Address that it listens on.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops listening, and closes all connections. Requests in progress are not answered.
    pub fn close(&self) -> Result<(), EngineError> {
        self.status.lock().take();
        self.task.close()
    }
}

/// Listens on an address. A machine without IPv6 has only the addresses of IPv4.
fn bind(listen: &str) -> io::Result<StdListener> {
    let bound = StdListener::bind(listen).or_else(|error| match listen.strip_prefix("[::]:") {
        Some(port) if error.kind() != io::ErrorKind::AddrInUse => {
            StdListener::bind(format!("0.0.0.0:{port}"))
        }
        _ => Err(error),
    })?;
    // The standard library queues 128, and a client beyond these waits for a second before it tries again.
    SockRef::from(&bound).listen(BACKLOG)?;
    Ok(bound)
}

async fn accept(listener: TcpListener, site: Arc<Site>, tls: Option<TlsAcceptor>) {
    let mut connections = JoinSet::new();
    loop {
        select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    if connections.len() >= site.options.limits.connections {
                        if site.lobby.evict() {
                            site.counters.evicted();
                        } else {
                            site.counters.refused();
                            tracing::debug!(target: "zwire.http", "{peer}: connection refused: all that may be open have a request");
                            continue;
                        }
                    }
                    // Known at once: of clients that come together each can make room for the next one.
                    let seat = Arc::new(site.lobby.enter());
                    connections.spawn(serve((stream, peer), seat, site.clone(), tls.clone()));
                }
                Err(error) => {
                    // Too many open files: the connection that is idle for longest makes room.
                    if site.lobby.evict() {
                        site.counters.evicted();
                    }
                    tracing::warn!(target: "zwire.http", "cannot accept a connection: {error}");
                    sleep(PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(
    (stream, peer): (TcpStream, SocketAddr),
    seat: Arc<Seat>,
    site: Arc<Site>,
    tls: Option<TlsAcceptor>,
) {
    // Answers are complete when they are written; a socket that refuses the option is slower.
    let _ = stream.set_nodelay(true);
    let Ok(here) = stream.local_addr() else { return };
    let mut way = Way { here: here.ip(), tls: tls.is_some(), common_name: None };
    let stream = Watched::new(stream);
    let Some(tls) = tls else {
        return converse(stream, Arc::new(Caller::new(site, peer, way)), seat).await;
    };
    let handshake = timeout(HANDSHAKE, tls.accept(stream));
    let result = select! {
        result = handshake => result,
        () = seat.evicted() => return,
    };
    match result {
        Ok(Ok(stream)) => {
            let chain = stream.get_ref().1.peer_certificates();
            way.common_name = chain.and_then(|chain| tls_common_name(chain.first()?));
            converse(stream, Arc::new(Caller::new(site, peer, way)), seat).await;
        }
        Ok(Err(error)) => tracing::debug!(target: "zwire.http", "{peer}: connection closed: TLS: {error}"),
        Err(_) => tracing::debug!(target: "zwire.http", "{peer}: connection closed: TLS took too long"),
    }
}

/// Answers the requests of a connection, one after the other.
async fn converse<S>(stream: S, caller: Arc<Caller>, seat: Arc<Seat>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let peer = caller.peer;
    let occupied = seat.clone();
    let service = service_fn(move |request| {
        let (caller, busy) = (caller.clone(), occupied.occupy());
        async move { Ok::<_, Infallible>(caller.answer(request).await.map(|body| body.with(busy))) }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD);
    let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
    select! {
        end = connection => if let Err(error) = end {
            tracing::debug!(target: "zwire.http", "{peer}: connection closed: {error}");
        },
        () = seat.evicted() => tracing::debug!(target: "zwire.http", "{peer}: idle connection closed to make room"),
    }
}

/// Stream on which writes fail once the client accepts nothing for some time.
struct Watched<S> {
    stream: S,
    stalled: Pin<Box<Sleep>>,
    waits: bool,
}

impl<S> Watched<S> {
    fn new(stream: S) -> Self {
        Self { stream, stalled: Box::pin(sleep(STALLED)), waits: false }
    }

    /// Starts the time limit when a write has to wait, and ends it when one is done.
    fn watch<T>(&mut self, result: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.waits = false;
            return result;
        }
        if !self.waits {
            self.waits = true;
            self.stalled.as_mut().reset(clock::instant(clock::mono() + STALLED));
        }
        ready!(self.stalled.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client reads no answer")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, buf);
        self.watch(result, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, bufs);
        self.watch(result, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(result, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(result, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{BODY, KEEP_ALIVE};
    use core::time::Duration;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use zwire_engine::Config;

    /// Moment before a time limit.
    const BEFORE: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_not_waited_for() {
        let (mut client, server) = duplex(64);
        let mut server = Watched::new(server);
        server.write_all(&[0; 64]).await.unwrap();
        assert!(timeout(STALLED / 2, server.write_all(&[0; 1])).await.is_err(), "it may read later");
        let error = server.write_all(&[0; 1]).await.unwrap_err();
        assert_eq!(error.to_string(), "the client reads no answer");
        client.read_exact(&mut [0; 64]).await.unwrap();
        server.write_all(&[0; 1]).await.unwrap();
    }

    /// A connection to a server of a session without a network, with a clock of the test.
    fn connected() -> DuplexStream {
        let json = "{mode: 'peer', listen: {endpoints: []}, scouting: {multicast: {enabled: false}}}";
        let session = Session::open(&Config::from_json5(json).unwrap(), &mut || false).unwrap();
        let options = Options::from_json(r#"{"http_port": 0}"#).unwrap();
        let (_, closing) = watch::channel(());
        let site = Arc::new(Site {
            session,
            lobby: Arc::default(),
            bodies: BodyRoom::new(options.limits.body, ALL_BODIES),
            streams: Arc::new(Semaphore::new(1)),
            counters: Counters::default(),
            clients: Arc::default(),
            closing,
            options,
        });
        let seat = Arc::new(site.lobby.enter());
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let way = Way { here: nowhere.ip(), tls: false, common_name: None };
        let (client, server) = duplex(4096);
        tokio::spawn(converse(Watched::new(server), Arc::new(Caller::new(site, nowhere, way)), seat));
        client
    }

    /// All that the server sends until it closes the connection; `None` if it does not within a time.
    async fn whole(client: &mut DuplexStream, within: Duration) -> Option<String> {
        let mut got = Vec::new();
        // A connection that is cut has ended as well.
        timeout(within, client.read_to_end(&mut got)).await.ok().map(|_| String::from_utf8(got).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_mute_client_is_not_waited_for() {
        for sent in ["", "G", "GET /a HTTP/1.1\r\nHost:", "GET /health HTTP/1.1\r\nHost: x\r\n"] {
            let mut client = connected();
            client.write_all(sent.as_bytes()).await.unwrap();
            assert_eq!(whole(&mut client, HEAD - BEFORE).await, None, "{sent}");
            let answer = whole(&mut client, 2 * BEFORE).await.unwrap();
            assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408 "), "{sent}: {answer}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_drips_is_not_waited_for() {
        let mut client = connected();
        let drips = async {
            client.write_all(b"GET /a HTTP/1.1\r\n").await?;
            loop {
                client.write_all(b"X: y\r\n").await?;
                sleep(BEFORE).await;
            }
        };
        let end: Result<io::Result<()>, _> = timeout(HEAD + 2 * BEFORE, drips).await;
        assert!(end.is_ok(), "the connection was closed under the client");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_drips_is_not_waited_for() {
        let mut client = connected();
        client.write_all(b"PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n").await.unwrap();
        for _ in 1..BODY.as_secs() {
            client.write_all(b"x").await.unwrap();
            sleep(BEFORE).await;
        }
        let answer = whole(&mut client, 2 * BEFORE).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        assert!(answer.ends_with("did not arrive in time"), "{answer}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_without_events_has_comments() {
        let mut client = connected();
        let request = "GET /a HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n";
        client.write_all(request.as_bytes()).await.unwrap();
        let mut got = String::new();
        let mut part = [0; 1024];
        while got.matches("3\r\n:\n\n\r\n").count() < 3 {
            let read = timeout(KEEP_ALIVE + BEFORE, client.read(&mut part)).await.unwrap().unwrap();
            assert_ne!(read, 0, "{got}");
            got.push_str(core::str::from_utf8(&part[..read]).unwrap());
        }
        assert!(got.starts_with("HTTP/1.1 200 "), "{got}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_read_is_not_kept() {
        let mut client = connected();
        let requests = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(50);
        // The requests wait for answers that the client does not take.
        let _ = timeout(BEFORE, client.write_all(requests.as_bytes())).await;
        sleep(STALLED + BEFORE).await;
        let answers = whole(&mut client, BEFORE).await.unwrap();
        assert!(answers.len() < 16 << 10, "{} octets", answers.len());
    }
}
