//! The listener and its connections.

use crate::{
    broker::Broker,
    error::Error,
    limits::{FIRST_READ, FIRST_REQUEST, IDLE, MAX_CONNECTIONS, MAX_REQUEST, STALLED},
    topic::Topic,
};
use bytes::Bytes;
use core::time::Duration;
use std::{
    io,
    net::{SocketAddr, TcpListener as StdListener},
    sync::Arc,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    select,
    task::JoinSet,
    time::timeout,
};
use zwire_engine::{
    Error as EngineError,
    runtime::{self, ServerTask},
};
use zwire_spool::Spool;

/// Pause after an error of the listener, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);
/// Time after which files of earlier requests are closed: the blocks of a deleted file are not freed until then.
const REST: Duration = Duration::from_secs(5);

/// Options of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address to listen on, `host:port`.
    pub listen: String,
    /// Address under which clients reach it, `host:port`, if that is another one.
    pub advertised: Option<String>,
    /// Whether groups may commit.
    pub commits: bool,
}

/// A server, from its start until [`Self::close`].
pub struct KafkaServer {
    address: SocketAddr,
    task: ServerTask,
}

impl KafkaServer {
    /// Serves spools, each as a topic with a name. Fails with [`Error::Usage`] for two with the same name, for names
    /// that are not allowed and addresses without a port.
    pub fn start(spools: Vec<(String, Spool)>, options: Options) -> Result<Self, Error> {
        let mut topics: Vec<Topic> = Vec::new();
        for (name, spool) in spools {
            if topics.iter().any(|topic| topic.name() == name) {
                return Err(Error::Usage(format!(
                    "topic {name}: two spools have this name; name one of them"
                )));
            }
            topics.push(Topic::new(name, spool)?);
        }
        let advertised = options.advertised.as_deref().map(address).transpose()?;
        let (host, port) = address(&options.listen)?;
        let failed = |source| Error::Listen { address: options.listen.clone(), source: Arc::new(source) };
        let listener = StdListener::bind((host.as_str(), port)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let handle = runtime::handle()?;
        let _inside = handle.enter();
        let listener = TcpListener::from_std(listener).map_err(failed)?;
        let broker = Arc::new(Broker::new(topics, options.commits, advertised));
        let task = ServerTask::start(accept(listener, broker))?;
        Ok(Self { address, task })
    }

    /// Address that it listens on.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes all connections. Requests in progress are not answered.
    pub fn close(&self) -> Result<(), EngineError> {
        self.task.close()
    }
}

/// Host and port of an address.
fn address(text: &str) -> Result<(String, u16), Error> {
    let split = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let host = |host: &str| {
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).to_owned()
    };
    match split {
        Some((name, port)) if !name.is_empty() => Ok((host(name), port)),
        _ => Err(Error::Usage(format!("address {text:?}: expected HOST:PORT, such as 127.0.0.1:9092"))),
    }
}

async fn accept(listener: TcpListener, broker: Arc<Broker>) {
    let mut connections = JoinSet::new();
    let mut rest = tokio::time::interval(REST);
    loop {
        select! {
            accepted = listener.accept() => match accepted {
                Ok((_, peer)) if connections.len() >= MAX_CONNECTIONS => tracing::warn!(
                    target: "zwire.spool.kafka",
                    "{peer}: connection refused: {MAX_CONNECTIONS} connections are open"
                ),
                Ok((stream, peer)) => {
                    connections.spawn(converse(stream, peer, broker.clone()));
                }
                Err(error) => {
                    tracing::warn!(target: "zwire.spool.kafka", "cannot accept a connection: {error}");
                    tokio::time::sleep(PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
            _ = rest.tick() => broker.rest(),
        }
    }
}

/// Answers the requests of a connection, one after the other, until the client closes it or breaks a rule.
async fn converse(mut stream: TcpStream, peer: SocketAddr, broker: Arc<Broker>) {
    // Answers are complete when they are written; a socket that refuses the option is slower.
    let _ = stream.set_nodelay(true);
    let Ok(here) = stream.local_addr() else { return };
    let mut idle = FIRST_REQUEST;
    loop {
        let request = match read_request(&mut stream, idle).await {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(error) => {
                return tracing::info!(target: "zwire.spool.kafka", "{peer}: connection closed: {error}");
            }
        };
        idle = IDLE;
        match broker.answer(&request, here).await {
            Ok(answer) => {
                if let Err(error) = write_answer(&mut stream, &answer).await {
                    return tracing::info!(target: "zwire.spool.kafka", "{peer}: connection closed: {error}");
                }
            }
            Err(refusal) => {
                return tracing::warn!(target: "zwire.spool.kafka", "{peer}: connection closed: {refusal}");
            }
        }
    }
}

/// Reads a request; `None` if the connection ends before one. Memory is allocated as octets arrive.
async fn read_request(stream: &mut (impl AsyncRead + Unpin), idle: Duration) -> io::Result<Option<Bytes>> {
    let late = |what: &'static str| move |_| io::Error::new(io::ErrorKind::TimedOut, what);
    let mut len = [0; 4];
    let first = timeout(idle, stream.read(&mut len)).await.map_err(late("no request arrived in time"))??;
    if first == 0 {
        return Ok(None);
    }
    let rest = async {
        stream.read_exact(&mut len[first..]).await?;
        let len = u32::from_be_bytes(len) as usize;
        if len > MAX_REQUEST {
            let problem = format!("a request of {len} octets: more than {MAX_REQUEST}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        let mut request = Vec::with_capacity(len.min(FIRST_READ));
        if stream.take(len as u64).read_to_end(&mut request).await? < len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some(request.into()))
    };
    timeout(STALLED, rest).await.map_err(late("the rest of a request did not arrive in time"))?
}

/// Writes an answer to a client that goes on reading.
async fn write_answer(stream: &mut (impl AsyncWrite + Unpin), mut answer: &[u8]) -> io::Result<()> {
    while !answer.is_empty() {
        let written = timeout(STALLED, stream.write(answer)).await;
        let stalled = |_| io::Error::new(io::ErrorKind::TimedOut, "the client reads no answer");
        match written.map_err(stalled)?? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => answer = &answer[written..],
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    #[tokio::test(start_paused = true)]
    async fn a_length_that_lies_costs_no_memory_and_ends_in_time() {
        let (mut client, mut server) = duplex(64);
        client.write_all(&[0, 0x0f, 0, 0, 1]).await.unwrap();
        let error = read_request(&mut server, IDLE).await.unwrap_err();
        assert_eq!(error.to_string(), "the rest of a request did not arrive in time");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_too_long_is_refused_at_once() {
        let (mut client, mut server) = duplex(64);
        client.write_all(&[0x7f, 0xff, 0xff, 0xff]).await.unwrap();
        let error = read_request(&mut server, IDLE).await.unwrap_err();
        assert_eq!(error.to_string(), "a request of 2147483647 octets: more than 1048576");
    }

    #[tokio::test(start_paused = true)]
    async fn requests_arrive_in_any_pieces() {
        let (mut client, mut server) = duplex(3);
        let sent = tokio::spawn(async move {
            for octet in b"\0\0\0\x05first\0\0\0\x06second" {
                client.write_all(&[*octet]).await.unwrap();
            }
        });
        assert_eq!(read_request(&mut server, IDLE).await.unwrap().unwrap(), "first");
        assert_eq!(read_request(&mut server, IDLE).await.unwrap().unwrap(), "second");
        assert_eq!(read_request(&mut server, IDLE).await.unwrap(), None);
        sent.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_client_is_not_waited_for() {
        let (_client, mut server) = duplex(64);
        let error = read_request(&mut server, FIRST_REQUEST).await.unwrap_err();
        assert_eq!(error.to_string(), "no request arrived in time");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_not_waited_for() {
        let (_client, mut server) = duplex(64);
        let error = write_answer(&mut server, &[0; 1000]).await.unwrap_err();
        assert_eq!(error.to_string(), "the client reads no answer");
    }

    #[test]
    fn addresses_have_a_host_and_a_port() {
        assert_eq!(address("127.0.0.1:9092").unwrap(), ("127.0.0.1".to_owned(), 9092));
        assert_eq!(address("[::1]:0").unwrap(), ("::1".to_owned(), 0));
        for wrong in ["9092", ":9092", "host", "host:", "host:65536"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
