//! Connection with the broker: session, acknowledgements, reconnecting.

use crate::{
    convert::{Outgoing, Refused, message, publication},
    counters::{Counters, count},
    echo::Echoes,
    error::{Error, Result},
    inbound::{Taken, Work},
    ledger::{Claim, Ledger},
    options::{MAX_WINDOW, Options},
    outbound::{Row, refuse, room_of},
    packet::{
        self, Ack, Connect, Connected, DISCONNECT, Framer, Message, PING, Packet, Version, ack, connect,
        subscribe,
    },
};
use bytes::{Bytes, BytesMut};
use core::{
    future::Future,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf, split},
    net::TcpStream,
    sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc},
    time::{sleep, timeout},
};
use tokio_rustls::TlsConnector;
use zwire_engine::{Queue, Session, clock};
use zwire_proto::zenoh::{
    Encoding, KeyExpr,
    session::{EntityId, Sample, SampleKind},
};

/// Time for a connection, and then for its CONNACK.
const CONNECT: Duration = Duration::from_secs(10);
/// First pause before another attempt; it doubles up to the last one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(5);
/// Length of a connection after which the next pause is the first one again.
const STEADY: Duration = Duration::from_secs(5);
/// Problem of a broker that leaves SUBSCRIBE without an answer for [`CONNECT`].
const UNANSWERED: &str =
    "the broker has not answered the subscriptions for 10 s: it may be overloaded, or no broker";
/// Connections in a row that end soon, from which on the bridge names a reason and waits longer.
const MANY: u32 = 3;
/// Octets that wait for the socket, above which nothing else is taken for it.
const OUT: usize = 1 << 20;
/// Octets that are read at once.
const READ: usize = 64 << 10;
/// Rows and samples that are taken at once.
const AT_ONCE: usize = 256;
/// First identifier of subscriptions.
const SUBSCRIPTION: u16 = MAX_WINDOW * 2;

/// Reason of DISCONNECT: another client has the identifier.
const TAKEN_OVER: u8 = 0x8e;

/// Identifiers of messages.
const IDS: u64 = SUBSCRIPTION as u64 - 1;

/// Identifier of the message of a row: the same after a restart.
fn id_of(offset: u64) -> u16 {
    (offset % IDS) as u16 + 1
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not sent in this session of the broker.
    Waiting,
    Sent,
    /// The broker has it, with QoS 2.
    Released,
    Done,
}

/// Row whose message is not acknowledged yet, or waits for one before it.
struct Flight {
    offset: u64,
    state: State,
    message: Option<Message>,
    room: Option<OwnedSemaphorePermit>,
}

/// End of a connection.
enum End {
    /// The bridge was closed.
    Closed,
    /// It broke.
    Broken(String),
    /// Another attempt has no sense.
    Final(String),
}

impl From<std::io::Error> for End {
    fn from(error: std::io::Error) -> Self {
        Self::Broken(format!("the connection broke: {error}"))
    }
}

/// Queue of a subscriber of a rule with QoS 0, with the key expressions of the subscribers before.
pub(crate) type Direct = (Arc<Queue<Sample>>, Vec<KeyExpr>);

/// Parts that a connection is made of.
pub(crate) struct Parts {
    pub(crate) options: Arc<Options>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) session: Session,
    pub(crate) ledger: Arc<Mutex<Ledger>>,
    /// Offset from which on no row was sent before the bridge started.
    pub(crate) fresh: u64,
    pub(crate) rows: mpsc::Receiver<Row>,
    /// Subscribers of rules with QoS 0.
    pub(crate) direct: Vec<Direct>,
    pub(crate) news: Arc<Notify>,
    pub(crate) work: mpsc::UnboundedSender<Work>,
    pub(crate) done: mpsc::UnboundedReceiver<Taken>,
    pub(crate) room: Arc<Semaphore>,
    pub(crate) all_room: usize,
    pub(crate) cursor: Arc<AtomicU64>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) stopping: Arc<Notify>,
    pub(crate) tls: Option<TlsConnector>,
}

/// Connection with a broker, made again whenever it breaks.
pub(crate) struct Connection {
    with: Parts,
    flights: VecDeque<Flight>,
    /// Row behind so many deleted ones that its identifier may be that of a flight.
    apart: Option<Row>,
    /// Flights that have been sent, or need not be.
    sent: usize,
    /// Messages that wait for their acknowledgement.
    open: usize,
    /// Offset before which a broker that has the session may have got rows of the last life of the bridge.
    known: u64,
    window: usize,
    largest: usize,
    out: BytesMut,
    scratch: Vec<u8>,
    /// Messages to Zenoh, as far as they were read.
    todo: Vec<Work>,
    /// Identifiers of messages with QoS 2 that are being put, with the last connection that brought them.
    flying: HashMap<u16, u64>,
    /// Message without room: nothing is read before it has some.
    held: Option<(Message, u32)>,
    echoes: Echoes,
    returns: Echoes,
    number: u64,
    /// Identifiers of subscriptions that the broker has not answered on this connection.
    subscribing: Vec<u16>,
    token: Option<EntityId>,
}

impl Connection {
    pub(crate) fn new(with: Parts) -> Self {
        Self {
            with,
            flights: VecDeque::new(),
            apart: None,
            sent: 0,
            open: 0,
            known: 0,
            window: 0,
            largest: 0,
            out: BytesMut::new(),
            scratch: Vec::new(),
            todo: Vec::new(),
            flying: HashMap::new(),
            held: None,
            echoes: Echoes::default(),
            returns: Echoes::default(),
            number: 0,
            subscribing: Vec::new(),
            token: None,
        }
    }

    /// Runs until the bridge is closed.
    pub(crate) async fn run(mut self) {
        let (mut pause, mut ended) = (FIRST_PAUSE, 0);
        while !self.with.stop.load(Ordering::Acquire) {
            let (begin, number) = (clock::mono(), self.number);
            let end = self.connect().await;
            let lasted = clock::mono().saturating_sub(begin);
            // Connections in a row that the broker has accepted, and ended soon.
            ended = if number == self.number || lasted >= 2 * LAST_PAUSE { 0 } else { ended + 1 };
            self.with.counters.connected.store(false, Ordering::Relaxed);
            if let Some(token) = self.token.take() {
                // It fails if the session is closed, which undeclared everything.
                let _ = self.with.session.undeclare(token);
            }
            let broker = &self.with.options.broker;
            match end {
                End::Closed => return,
                End::Broken(problem) if ended >= MANY => {
                    let id = &self.with.options.client_id;
                    let hint = format!(
                        "{problem}, {MANY} times in a row or more: another client may have the client_id {id:?}"
                    );
                    self.with.counters.fail(broker, hint);
                    pause = LAST_PAUSE;
                }
                End::Broken(problem) => self.with.counters.fail(broker, problem),
                End::Final(problem) => {
                    self.with.counters.fail(broker, format!("{problem}; the bridge has ended"));
                    return;
                }
            }
            if lasted >= STEADY && ended < MANY {
                pause = FIRST_PAUSE;
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = self.with.stopping.notified() => {}
            }
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    async fn connect(&mut self) -> End {
        let address = self.with.options.address();
        let opened = timeout(CONNECT, async {
            let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
            stream.set_nodelay(true)?;
            Ok::<_, std::io::Error>(stream)
        });
        let stopping = self.with.stopping.clone();
        let Some(opened) = unless(&stopping, opened).await else { return End::Closed };
        let stream = match opened {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return End::Broken(format!("the broker cannot be reached: {error}")),
            Err(_) => return End::Broken("the broker does not accept connections in time".to_owned()),
        };
        let Some(tls) = self.with.tls.clone() else { return self.serve(stream).await };
        let Ok(name) = rustls::pki_types::ServerName::try_from(address.host.clone()) else {
            return End::Final(format!("{:?} is no name that a certificate has", address.host));
        };
        let shaken = timeout(CONNECT, tls.connect(name, stream));
        let Some(shaken) = unless(&stopping, shaken).await else { return End::Closed };
        match shaken {
            Ok(Ok(stream)) => self.serve(stream).await,
            Ok(Err(error)) => End::Broken(format!("TLS with the broker failed: {error}")),
            Err(_) => End::Broken("the handshake of TLS takes too long".to_owned()),
        }
    }

    async fn serve(&mut self, stream: impl AsyncRead + AsyncWrite) -> End {
        let (mut reader, mut writer) = split(stream);
        match self.converse(&mut reader, &mut writer).await {
            Ok(()) => {
                // The broker keeps the session, and forgets the last message. A packet may be half on its way.
                self.out.extend_from_slice(&DISCONNECT);
                // The broker sees the end without it as well.
                let _ = timeout(FIRST_PAUSE, async {
                    writer.write_all_buf(&mut self.out).await?;
                    writer.flush().await
                })
                .await;
                End::Closed
            }
            Err(end) => end,
        }
    }

    /// Sends CONNECT, and waits for the answer.
    async fn greet<S: AsyncRead + AsyncWrite>(
        &mut self,
        reader: &mut ReadHalf<S>,
        writer: &mut WriteHalf<S>,
        (framer, input): (&mut Framer, &mut BytesMut),
    ) -> core::result::Result<Connected, End> {
        let options = self.with.options.clone();
        let octets = connect(
            options.version,
            &Connect {
                client_id: &options.client_id,
                user: options.user.as_deref().map(|user| (user, options.password.as_deref().unwrap_or(""))),
                keep_alive: options.keep_alive,
                expiry: options.session_expiry,
                window: options.window,
                largest: options.max_packet_bytes,
                will: options.will.as_ref(),
            },
        );
        let octets = octets.map_err(|error| End::Final(error.to_string()))?;
        let answer = timeout(CONNECT, async {
            writer.write_all(&octets).await?;
            writer.flush().await?;
            loop {
                match framer.next(input) {
                    Ok(Some(Packet::Connected(answer))) => return Ok(answer),
                    Ok(Some(other)) => return Err(End::Broken(format!("the broker began with {other:?}"))),
                    Ok(None) => {}
                    Err(error) => return Err(End::Broken(error.to_string())),
                }
                if reader.read_buf(input).await? == 0 {
                    let problem = "the broker closed the connection without an answer; it may want TLS, another version or \
                                   other credentials";
                    return Err(End::Broken(problem.to_owned()));
                }
            }
        });
        let Some(answer) = unless(&self.with.stopping, answer).await else { return Err(End::Closed) };
        let answer = answer.map_err(|_| End::Broken("the broker does not answer in time".to_owned()))??;
        match (options.version, answer.code) {
            (_, 0) => Ok(answer),
            // Server unavailable, server busy, quota, connection rate: another attempt may succeed.
            (Version::V3, 3) | (Version::V5, 0x80 | 0x83 | 0x88 | 0x89 | 0x97 | 0x9f) => {
                Err(End::Broken(format!("the broker refuses connections for now, reason {:#x}", answer.code)))
            }
            (_, code) => {
                let reason = match (options.version, code) {
                    (Version::V3, 1) | (_, 0x84) => "it has another version of the protocol",
                    (Version::V3, 2) | (_, 0x85) => "the client id is not valid",
                    (Version::V3, 4 | 5) | (_, 0x86 | 0x87) => {
                        "user or password are wrong, or have no rights"
                    }
                    _ => "see the standard for the reason",
                };
                Err(End::Final(format!("the broker refuses the bridge, reason {code:#x}: {reason}")))
            }
        }
    }

    async fn converse<S: AsyncRead + AsyncWrite>(
        &mut self,
        reader: &mut ReadHalf<S>,
        writer: &mut WriteHalf<S>,
    ) -> core::result::Result<(), End> {
        let options = self.with.options.clone();
        let mut framer = Framer::new(options.version, options.max_packet_bytes);
        let mut input = BytesMut::with_capacity(READ);
        let answer = self.greet(reader, writer, (&mut framer, &mut input)).await?;
        self.begin(&answer)?;
        let keep_alive =
            answer.keep_alive.map_or_else(|| options.keep_alive(), |s| Duration::from_secs(s.into()));
        // Without keep-alive neither side looks.
        let ping = if keep_alive.is_zero() { Duration::from_secs(86_400) } else { keep_alive / 2 };
        let (mut heard, mut next_ping) = (clock::mono(), clock::mono() + ping);
        let mut subscribed_by = Some(clock::mono() + CONNECT);
        let (news, stopping) = (self.with.news.clone(), self.with.stopping.clone());
        // Samples may have come before.
        news.notify_one();
        let mut unflushed = false;
        loop {
            self.turn(&mut framer, &mut input)?;
            if self.with.stop.load(Ordering::Acquire) {
                return Ok(());
            }
            let room = self.out.len() < OUT;
            let takes_rows = room && self.apart.is_none() && self.flights.len() < 2 * self.window;
            let held = self.held.as_ref().map(|(_, wanted)| *wanted);
            let semaphore = self.with.room.clone();
            if input.capacity() - input.len() < READ / 2 {
                input.reserve(READ);
            }
            tokio::select! {
                read = reader.read_buf(&mut input), if held.is_none() => {
                    if read? == 0 {
                        return Err(End::Broken("the broker closed the connection".to_owned()));
                    }
                    heard = clock::mono();
                }
                written = push(writer, &mut self.out, &mut unflushed), if unflushed || !self.out.is_empty() => {
                    written?;
                }
                permit = semaphore.acquire_many_owned(held.unwrap_or(0)), if held.is_some() => {
                    // The semaphore is closed with the bridge.
                    let Ok(permit) = permit else { return Ok(()) };
                    if let Some((message, _)) = self.held.take() {
                        self.take(message, permit);
                    }
                    heard = clock::mono();
                }
                row = self.with.rows.recv(), if takes_rows => match row {
                    Some(row) => self.take_row(row),
                    None => return Ok(()),
                },
                Some(taken) = self.with.done.recv() => self.finish(taken),
                () = news.notified(), if room => self.take_samples(),
                () = sleep(next_ping.saturating_sub(clock::mono())) => {
                    if clock::mono().saturating_sub(heard) > ping * 3 && held.is_none() {
                        return Err(End::Broken("the broker is silent".to_owned()));
                    }
                    self.out.extend_from_slice(&PING);
                    next_ping = clock::mono() + ping;
                }
                () = sleep(subscribed_by.unwrap_or_default().saturating_sub(clock::mono())),
                    if subscribed_by.is_some() && !self.subscribing.is_empty() =>
                {
                    subscribed_by = None;
                    self.with.counters.fail(&options.broker, UNANSWERED.to_owned());
                }
                () = stopping.notified() => {}
            }
        }
    }

    /// Begins after the answer of the broker: subscribes, and sends again what is not acknowledged.
    fn begin(&mut self, answer: &Connected) -> core::result::Result<(), End> {
        let options = self.with.options.clone();
        // The broker would end each connection at the first such message.
        for rule in options.rules.iter().filter(|rule| rule.goes_out()) {
            let topic = &rule.topic;
            if rule.qos > answer.qos {
                let most = answer.qos;
                return Err(End::Final(format!(
                    "the broker takes messages with QoS {most} at most: lower the qos of the rule {topic:?}"
                )));
            }
            if rule.retain && !answer.retains {
                return Err(End::Final(format!(
                    "the broker retains no messages: leave out retain from the rule {topic:?}"
                )));
            }
        }
        count(&self.with.counters.connections);
        self.number += 1;
        self.window = usize::from(answer.window.min(options.window));
        self.largest = answer.largest.min(options.max_packet_bytes) as usize;
        self.out.clear();
        self.held = None;
        self.known = if answer.present { self.with.fresh } else { 0 };
        if !answer.present {
            self.with.ledger.lock().begin_session();
            self.flying.clear();
        }
        self.open = 0;
        self.sent = 0;
        for flight in &mut self.flights {
            match flight.state {
                // A broker without the session knows none of them; what it had received with QoS 2 it has delivered.
                State::Sent if !answer.present => flight.state = State::Waiting,
                State::Released if !answer.present => {
                    flight.state = State::Done;
                    count(&self.with.counters.out_acked);
                }
                _ => {}
            }
        }
        let filters: Vec<(&str, u8)> = options
            .rules
            .iter()
            .filter(|rule| rule.comes_in())
            .map(|rule| (rule.topic.as_str(), rule.qos))
            .collect();
        self.subscribing.clear();
        // Packets of a size that every broker takes.
        for (number, some) in filters.chunks(32).enumerate() {
            let id = SUBSCRIPTION + number as u16;
            let octets =
                subscribe(options.version, id, some).map_err(|error| End::Final(error.to_string()))?;
            self.out.extend_from_slice(&octets);
            self.subscribing.push(id);
        }
        *self.with.counters.problem.lock() = None;
        if self.subscribing.is_empty() { self.settle() } else { Ok(()) }
    }

    /// Tells that the bridge is connected: from now on the broker keeps messages for it, also while it is away.
    fn settle(&mut self) -> core::result::Result<(), End> {
        if let Some(key) = &self.with.options.status_key {
            let key =
                KeyExpr::new(key.clone()).map_err(|error| End::Final(format!("status_key: {error}")))?;
            self.token = self.with.session.declare_token(key).ok();
        }
        let mut problem = self.with.counters.problem.lock();
        if problem.as_deref() == Some(UNANSWERED) {
            *problem = None;
        }
        drop(problem);
        self.with.counters.connected.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Handles what was read, sends what may be sent, and writes the ledger before anything leaves.
    fn turn(&mut self, framer: &mut Framer, input: &mut BytesMut) -> core::result::Result<(), End> {
        while self.held.is_none() {
            match framer.next(input) {
                Ok(Some(packet)) => self.handle(packet)?,
                Ok(None) => break,
                Err(error) => return Err(End::Broken(error.to_string())),
            }
        }
        while let Ok(taken) = self.with.done.try_recv() {
            self.finish(taken);
        }
        for _ in 0..AT_ONCE {
            if self.out.len() >= OUT || self.flights.len() >= 2 * self.window {
                break;
            }
            let Some(row) = self.apart.take().or_else(|| self.with.rows.try_recv().ok()) else { break };
            self.take_row(row);
            if self.apart.is_some() {
                break;
            }
        }
        self.send_flights();
        self.advance();
        if self.apart.as_ref().is_some_and(|row| self.has_id_for(row.offset)) {
            // No event of the connection may be left that has another turn take the row.
            self.with.news.notify_one();
        }
        let mut ledger = self.with.ledger.lock();
        ledger.write().map_err(|error| End::Broken(error.to_string()))?;
        self.with.cursor.store(ledger.cursor(), Ordering::Release);
        drop(ledger);
        for work in self.todo.drain(..) {
            if self.with.work.send(work).is_err() {
                return Err(End::Final("the session of Zenoh is closed".to_owned()));
            }
        }
        Ok(())
    }

    fn answer(&mut self, kind: Ack, id: u16) {
        self.out.extend_from_slice(&ack(kind, id));
    }

    /// Acknowledges a message that does not go into Zenoh.
    fn answer_publish(&mut self, qos: u8, id: u16) {
        match qos {
            0 => {}
            1 => self.answer(Ack::Acked, id),
            _ => self.answer(Ack::Received, id),
        }
    }

    fn handle(&mut self, packet: Packet) -> core::result::Result<(), End> {
        match packet {
            Packet::Publish(message) => {
                count(&self.with.counters.in_received);
                self.handle_publish(message);
            }
            Packet::TooLarge { topic, qos, id, octets } => {
                count(&self.with.counters.in_too_large);
                tracing::warn!(
                    target: "zwire.bridge.mqtt", topic,
                    "a message of {octets} octets is above max_packet_bytes, and was dropped"
                );
                self.answer_publish(qos, id);
            }
            Packet::Acked(id, code) => self.handle_ack(id, code, 1),
            Packet::Received(id, code) if code >= 0x80 => self.handle_ack(id, code, 2),
            Packet::Received(id, _) => {
                if let Some(at) = self.find(id) {
                    let flight = &mut self.flights[at];
                    if flight.state == State::Sent {
                        flight.state = State::Released;
                        // The message is the broker's now.
                        flight.message = None;
                        flight.room = None;
                        self.with.ledger.lock().release(flight.offset);
                    }
                }
                // Also for one that is not known any more: the broker waits for the answer.
                self.answer(Ack::Release, id);
            }
            Packet::Completed(id) => {
                if let Some(at) = self.find(id).filter(|at| self.flights[*at].state == State::Released) {
                    self.land(at);
                    count(&self.with.counters.out_acked);
                }
            }
            Packet::Release(id) => {
                self.with.ledger.lock().forget(id);
                self.flying.remove(&id);
                self.answer(Ack::Completed, id);
            }
            Packet::Subscribed(id, codes) => {
                self.handle_subscribed(id, &codes);
                if let Some(at) = self.subscribing.iter().position(|known| *known == id) {
                    self.subscribing.swap_remove(at);
                    if self.subscribing.is_empty() {
                        self.settle()?;
                    }
                }
            }
            Packet::Disconnect(TAKEN_OVER) => {
                return Err(End::Final(format!(
                    "another client has connected as {:?} and has the session now: give each bridge a client_id of its own",
                    self.with.options.client_id
                )));
            }
            Packet::Disconnect(code) => {
                return Err(End::Broken(format!("the broker ended the connection, reason {code:#x}")));
            }
            Packet::Connected(_) => return Err(End::Broken("the broker sent a second CONNACK".to_owned())),
            Packet::Other => {}
        }
        Ok(())
    }

    fn handle_subscribed(&self, id: u16, codes: &[u8]) {
        let begin = usize::from(id.saturating_sub(SUBSCRIPTION)) * 32;
        let rules = self.with.options.rules.iter().filter(|rule| rule.comes_in()).skip(begin);
        for (rule, code) in rules.zip(codes) {
            if *code >= 0x80 {
                let problem =
                    format!("the broker refuses the subscription to {:?}, reason {code:#x}", rule.topic);
                self.with.counters.fail(&self.with.options.broker, problem);
            } else if *code < rule.qos {
                let topic = &rule.topic;
                tracing::warn!(target: "zwire.bridge.mqtt", topic, "the broker grants QoS {code} and not {}", rule.qos);
            }
        }
    }

    fn handle_publish(&mut self, message: Message) {
        let (qos, id) = (message.qos, message.id);
        if qos == 2 {
            // It is acknowledged when it was put, on this connection.
            if let Some(connection) = self.flying.get_mut(&id) {
                *connection = self.number;
                return;
            }
            let mut ledger = self.with.ledger.lock();
            if let Some(claim) = ledger.claim_of(id) {
                if claim == Claim::Open {
                    // The bridge was killed while it was put: a second time would double it.
                    count(&self.with.counters.in_uncertain);
                    let session = ledger.session();
                    ledger.done(id, session);
                }
                drop(ledger);
                return self.answer(Ack::Received, id);
            }
        }
        if self.with.options.version == Version::V3
            && self.echoes.is_echo(&message.topic, &message.payload, clock::mono())
        {
            count(&self.with.counters.in_looped);
            return self.answer_publish(qos, id);
        }
        let wanted = room_of(message.octets(), self.with.all_room);
        match self.with.room.clone().try_acquire_many_owned(wanted) {
            Ok(room) => self.take(message, room),
            Err(_) => self.held = Some((message, wanted)),
        }
    }

    /// Takes a message for Zenoh.
    fn take(&mut self, mut message: Message, room: OwnedSemaphorePermit) {
        let (qos, id) = (message.qos, message.id);
        match publication(&self.with.options, &mut message) {
            Ok((key, body)) => {
                if qos == 2 {
                    self.flying.insert(id, self.number);
                }
                let session = self.with.ledger.lock().session();
                let taken = Taken { id, qos, connection: self.number, session };
                self.todo.push(Work { key, body, taken, _room: room });
            }
            Err(refused) => {
                let counters = &self.with.counters;
                count(if refused == Refused::Looped { &counters.in_looped } else { &counters.in_unmapped });
                if refused != Refused::Looped {
                    let topic = message.topic;
                    tracing::debug!(target: "zwire.bridge.mqtt", topic, "a message does not pass: {refused:?}");
                }
                self.answer_publish(qos, id);
            }
        }
    }

    /// Acknowledges a message that was put into Zenoh.
    fn finish(&mut self, taken: Taken) {
        if taken.qos == 2 {
            let mut ledger = self.with.ledger.lock();
            if taken.session == ledger.session()
                && let Some(connection) = self.flying.remove(&taken.id)
            {
                ledger.done(taken.id, taken.session);
                drop(ledger);
                // On a later connection the broker asks again, or did so meanwhile.
                if connection == self.number {
                    self.answer(Ack::Received, taken.id);
                }
            }
        } else if taken.qos == 1 && taken.connection == self.number {
            self.answer(Ack::Acked, taken.id);
        }
    }

    /// Flight with an identifier.
    fn find(&self, id: u16) -> Option<usize> {
        let first = self.flights.front()?.offset;
        let offset = first + (u64::from(id) + IDS - 1 - first % IDS) % IDS;
        self.flights.binary_search_by_key(&offset, |flight| flight.offset).ok()
    }

    fn handle_ack(&mut self, id: u16, code: u8, qos: u8) {
        let Some(at) = self.find(id) else { return };
        let flight = &self.flights[at];
        if flight.state != State::Sent || flight.message.as_ref().is_none_or(|message| message.qos != qos) {
            return;
        }
        if code >= 0x80 {
            count(&self.with.counters.out_refused);
            let topic = flight.message.as_ref().map_or("", |message| &message.topic);
            tracing::warn!(target: "zwire.bridge.mqtt", topic, "the broker refuses a message, reason {code:#x}");
        } else {
            count(&self.with.counters.out_acked);
        }
        self.land(at);
    }

    /// Ends a flight.
    fn land(&mut self, at: usize) {
        let flight = &mut self.flights[at];
        flight.state = State::Done;
        flight.message = None;
        flight.room = None;
        self.open = self.open.saturating_sub(1);
    }

    /// Takes note of rows that are done.
    fn advance(&mut self) {
        let mut cursor = None;
        while self.flights.front().is_some_and(|flight| flight.state == State::Done) {
            cursor = self.flights.pop_front().map(|flight| flight.offset + 1);
            self.sent = self.sent.saturating_sub(1);
        }
        if let Some(cursor) = cursor {
            self.with.ledger.lock().advance(cursor);
        }
    }

    /// Whether no flight can have the identifier of a row. Retention may delete many rows between two that are sent.
    fn has_id_for(&self, offset: u64) -> bool {
        self.flights.front().is_none_or(|first| offset - first.offset < IDS)
    }

    fn take_row(&mut self, row: Row) {
        if !self.has_id_for(row.offset) {
            self.apart = Some(row);
            return;
        }
        let Row { offset, message, room } = row;
        // The broker received it before the bridge was killed.
        let released = self.with.ledger.lock().is_released(offset);
        let (state, message) = match message {
            Some((message, foreign)) if foreign && self.returned(&message) => {
                count(&self.with.counters.out_looped);
                (State::Done, None)
            }
            Some((message, _)) if released && message.qos == 2 => (State::Released, None),
            Some((message, _)) => (State::Waiting, Some(message)),
            None => (State::Done, None),
        };
        let room = message.is_some().then_some(room);
        self.flights.push_back(Flight { offset, state, message, room });
    }

    /// Whether a sample of another bridge is a message that this bridge has published.
    fn returned(&mut self, message: &Message) -> bool {
        self.with.options.version == Version::V3
            && self.returns.is_echo(&message.topic, &message.payload, clock::mono())
    }

    /// Sends the messages of flights, as many as the broker takes.
    fn send_flights(&mut self) {
        while self.open < self.window && self.out.len() < OUT {
            let Some(flight) = self.flights.get_mut(self.sent) else { return };
            let (offset, id) = (flight.offset, id_of(flight.offset));
            let again = flight.state == State::Sent;
            match flight.state {
                State::Waiting | State::Sent => {
                    let Some(mut message) = flight.message.take() else { return };
                    message.id = id;
                    message.dup = again || offset < self.known;
                    flight.state = State::Sent;
                    if self.publish(&message) {
                        count(if again {
                            &self.with.counters.out_repeated
                        } else {
                            &self.with.counters.out_sent
                        });
                        self.flights[self.sent].message = Some(message);
                        self.open += 1;
                    } else {
                        self.open += 1;
                        self.land(self.sent);
                    }
                }
                State::Released => {
                    self.with.ledger.lock().release(offset);
                    self.answer(Ack::Release, id);
                    self.open += 1;
                }
                State::Done => {}
            }
            self.sent += 1;
        }
    }

    /// Appends a message to the octets for the broker; `false` if it cannot be sent.
    fn publish(&mut self, message: &Message) -> bool {
        self.scratch.clear();
        let encoded = packet::publish(self.with.options.version, message, &mut self.scratch);
        if encoded.is_err() || self.scratch.len() > self.largest {
            let counters = &self.with.counters;
            count(if encoded.is_err() { &counters.out_unmapped } else { &counters.out_too_large });
            let (topic, octets) = (&message.topic, self.scratch.len());
            tracing::warn!(target: "zwire.bridge.mqtt", topic, octets, "a message cannot be sent, and was dropped");
            return false;
        }
        self.out.extend_from_slice(&self.scratch);
        if self.with.options.version == Version::V3 {
            let now = clock::mono();
            if self.with.options.rule_in(&message.topic).is_some() {
                self.echoes.expect(&message.topic, &message.payload, now);
                self.returns.expect(&message.topic, &message.payload, now);
            }
        }
        true
    }

    /// Sends samples of rules with QoS 0.
    fn take_samples(&mut self) {
        let direct = core::mem::take(&mut self.with.direct);
        for (queue, earlier) in &direct {
            for _ in 0..AT_ONCE {
                if self.out.len() >= OUT {
                    break;
                }
                let Ok(Some(sample)) = queue.try_recv() else { break };
                if !earlier.iter().any(|key| key.intersects(&sample.key)) {
                    self.send_sample(&sample);
                }
            }
            if !queue.is_empty() {
                self.with.news.notify_one();
            }
        }
        self.with.direct = direct;
    }

    fn send_sample(&mut self, sample: &Sample) {
        let deleted = sample.kind == SampleKind::Delete;
        let outgoing = Outgoing {
            key: sample.key.as_str(),
            payload: (!deleted).then(|| Bytes::copy_from_slice(&sample.payload)),
            encoding: (sample.encoding != Encoding::DEFAULT).then(|| sample.encoding.to_string()),
            attachment: sample.attachment.as_deref(),
        };
        match message(&self.with.options, outgoing, false) {
            Ok((message, foreign)) if foreign && self.returned(&message) => {
                count(&self.with.counters.out_looped)
            }
            Ok((message, _)) => {
                if self.publish(&message) {
                    count(&self.with.counters.out_sent);
                }
            }
            Err(refused) => refuse(&self.with.counters, sample.key.as_str(), refused),
        }
    }
}

/// Writes a part of the octets, and what TLS has kept of those before; it may be cancelled.
async fn push(
    writer: &mut (impl AsyncWrite + Unpin),
    out: &mut BytesMut,
    unflushed: &mut bool,
) -> std::io::Result<()> {
    if !out.is_empty() {
        if writer.write_buf(out).await? == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        *unflushed = true;
    }
    writer.flush().await?;
    *unflushed = false;
    Ok(())
}

/// Outcome of a wait, unless the bridge is closed meanwhile.
async fn unless<T>(stopping: &Notify, wait: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        done = wait => Some(done),
        () = stopping.notified() => None,
    }
}

/// Settings of TLS.
pub(crate) fn connector(options: &Options) -> Result<Option<TlsConnector>> {
    let Some(settings) = options.tls() else { return Ok(None) };
    let config = zwire_engine::tls_client_config(&settings).map_err(Error::Tls)?;
    Ok(Some(TlsConnector::from(Arc::new(config))))
}
