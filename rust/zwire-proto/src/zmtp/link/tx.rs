//! [`ZmtpTx`]: messages in, segments out (`zmtp` 4, 9, 10).

use super::{Heartbeat, Message, Version, ZmtpLinkParams, curve::Sealer};
use crate::{
    Now,
    buf::{Segments, Sink},
    lending::LoanDescription,
    zmtp::{
        limits::{HIGH_WATER_MARK, MAX_PING_TTL, MAX_QUEUED_BYTES, MAX_WAITING_PONGS},
        wire::{Cancel, Command, FrameHead, Loan, Ping, Pong, Subscribe, Subscription, curve, put_frame},
    },
};
use bytes::Bytes;
use core::{fmt, time::Duration};
use std::collections::VecDeque;
use thiserror::Error;

/// Local policy of a sender.
#[derive(Clone, Copy, Debug)]
pub struct ZmtpTxConfig {
    /// The high-water mark, in messages.
    pub max_messages: usize,
    /// Queued bytes at which no more messages are accepted; an empty queue accepts a message of any
    /// size.
    pub max_bytes: usize,
    /// The heartbeat that the receiver of the same connection has.
    pub heartbeat: Option<Heartbeat>,
}

impl Default for ZmtpTxConfig {
    /// The high-water mark of libzmq, and a bound in bytes beside it; no heartbeat.
    fn default() -> Self {
        Self { max_messages: HIGH_WATER_MARK, max_bytes: MAX_QUEUED_BYTES, heartbeat: None }
    }
}

/// Reason why a message was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ZmtpPushError {
    /// The high-water mark is reached.
    #[error("{waiting} messages are waiting")]
    HighWaterMark {
        /// Number of waiting messages.
        waiting: usize,
    },
    /// Too many bytes are waiting.
    #[error("{waiting} bytes are waiting")]
    Bytes {
        /// Number of waiting bytes, with a small overhead for each frame.
        waiting: usize,
    },
    /// The connection is over.
    #[error("the connection is closed")]
    Closed,
}

/// A message that was not accepted, unchanged. Try again after output was transmitted.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("{error}")]
pub struct Rejected {
    /// The message.
    pub message: Message,
    /// Reason.
    pub error: ZmtpPushError,
}

/// Counters of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZmtpTxStats {
    /// Frames lent to the peer, and not written.
    pub lent: u64,
    /// Messages transmitted.
    pub messages: u64,
    /// Bytes transmitted.
    pub bytes: u64,
    /// PINGs transmitted.
    pub pings: u64,
    /// PONGs transmitted.
    pub pongs: u64,
    /// PONGs dropped because the peer sends PINGs without reading the answers.
    pub lost_pongs: u64,
    /// Messages dropped by [`ZmtpTx::clear`].
    pub discarded: u64,
}

/// Puts the bytes of a frame on loan to the peer; `None` if they have to be written.
pub type Lend = Box<dyn FnMut(&Bytes) -> Option<LoanDescription> + Send>;

#[derive(Debug)]
enum Item {
    Message(Message),
    /// The body of a command's frame.
    Command(Bytes),
    /// A subscription as a message.
    Subscription(Bytes),
}

/// The sending half of a connection. Messages are encoded only when they are transmitted.
pub struct ZmtpTx {
    version: Version,
    config: ZmtpTxConfig,
    encoder: Encoder,
    lend: Option<Lend>,
    queue: VecDeque<Item>,
    messages: usize,
    bytes: usize,
    /// Contexts of PINGs.
    pongs: VecDeque<Bytes>,
    ping: bool,
    next_ping: Duration,
    stats: ZmtpTxStats,
}

impl ZmtpTx {
    /// The sender of a connection after its handshake, which ended at `now`.
    #[must_use]
    pub fn new(params: &ZmtpLinkParams, config: ZmtpTxConfig, now: Now) -> Self {
        let heartbeat = config.heartbeat.filter(|heartbeat| heartbeat.reaches(params.version));
        // A zero interval must not make the driver's loop spin.
        let heartbeat =
            heartbeat.map(|h| Heartbeat { interval: h.interval.max(Duration::from_millis(1)), ..h });
        Self {
            version: params.version,
            config: ZmtpTxConfig { heartbeat, ..config },
            encoder: Encoder(params.session.as_ref().map(|session| session.sealer())),
            lend: None,
            queue: VecDeque::new(),
            messages: 0,
            bytes: 0,
            pongs: VecDeque::new(),
            ping: false,
            next_ping: heartbeat.map_or(Duration::MAX, |h| now.mono.saturating_add(h.interval)),
            stats: ZmtpTxStats::default(),
        }
    }

    /// Has the sender put payloads on loan, once the peer is ready to borrow; `None` ends that.
    pub fn set_lend(&mut self, lend: Option<Lend>) {
        self.lend = lend;
    }

    /// Whether a message would be accepted.
    ///
    /// # Errors
    /// The reason why it would not.
    pub fn check(&self) -> Result<(), ZmtpPushError> {
        if self.messages >= self.config.max_messages {
            return Err(ZmtpPushError::HighWaterMark { waiting: self.messages });
        }
        if self.bytes >= self.config.max_bytes && self.bytes > 0 {
            return Err(ZmtpPushError::Bytes { waiting: self.bytes });
        }
        Ok(())
    }

    /// Accepts a message to send.
    ///
    /// # Errors
    /// The message, and the reason why it was not accepted.
    pub fn push(&mut self, message: Message) -> Result<(), Rejected> {
        if let Err(error) = self.check() {
            return Err(Rejected { message, error });
        }
        self.messages += 1;
        self.bytes += message.cost();
        self.queue.push_back(Item::Message(message));
        Ok(())
    }

    /// Queues messages that were accepted before this connection existed; the bounds do not apply.
    pub fn restore(&mut self, messages: impl IntoIterator<Item = Message>) {
        for message in messages {
            self.messages += 1;
            self.bytes += message.cost();
            self.queue.push_back(Item::Message(message));
        }
    }

    /// Removes the waiting messages, oldest first, for another connection. Subscriptions are dropped:
    /// they are sent anew on each connection.
    pub fn take_messages(&mut self) -> VecDeque<Message> {
        self.bytes = 0;
        self.messages = 0;
        let queue = core::mem::take(&mut self.queue);
        let message = |item| match item {
            Item::Message(message) => Some(message),
            Item::Command(_) | Item::Subscription(_) => None,
        };
        queue.into_iter().filter_map(message).collect()
    }

    /// Subscribes at a publisher to messages with this prefix of the first frame. The high-water
    /// mark ignores subscriptions: the subscriber decides how many there are, and each must arrive.
    pub fn subscribe(&mut self, prefix: Bytes) {
        self.control(match self.version {
            Version::V3_1 => Item::Command(body(&Subscribe { prefix })),
            _ => Item::Subscription(Subscription::Subscribe(prefix).to_bytes()),
        });
    }

    /// Cancels a subscription.
    pub fn cancel(&mut self, prefix: Bytes) {
        self.control(match self.version {
            Version::V3_1 => Item::Command(body(&Cancel { prefix })),
            _ => Item::Subscription(Subscription::Cancel(prefix).to_bytes()),
        });
    }

    fn control(&mut self, item: Item) {
        self.bytes += item.cost();
        self.queue.push_back(item);
    }

    /// Answers a PING. PONGs overtake waiting messages.
    pub fn pong(&mut self, ping: &Ping) {
        if self.pongs.len() == MAX_WAITING_PONGS {
            self.pongs.pop_front();
            self.stats.lost_pongs += 1;
        }
        self.pongs.push_back(ping.context.clone());
    }

    /// Appends the parts of whole messages and commands, in order, until another one would exceed
    /// `max_bytes`; the first one is always appended. Payloads from 4 KiB on are parts of their own.
    /// Returns the number of bytes appended; 0 means that nothing waits.
    pub fn poll_transmit(&mut self, out: &mut Vec<Bytes>, max_bytes: usize) -> usize {
        let mut segments = Segments::default();
        if core::mem::take(&mut self.ping) {
            self.encoder.put(&mut segments, &body(&self.ping_command()), COMMAND);
            self.stats.pings += 1;
        }
        while let Some(context) = self.pongs.pop_front() {
            self.encoder.put(&mut segments, &body(&Pong { context }), COMMAND);
            self.stats.pongs += 1;
        }
        while let Some(item) = self.queue.front() {
            let cost = item.cost();
            if !segments.is_empty() && segments.len().saturating_add(cost) > max_bytes {
                break;
            }
            match item {
                Item::Message(message) => {
                    self.stats.lent += self.encoder.put_message(&mut segments, message, &mut self.lend);
                    self.messages -= 1;
                    self.stats.messages += 1;
                }
                Item::Command(body) => self.encoder.put(&mut segments, body, COMMAND),
                Item::Subscription(body) => self.encoder.put(&mut segments, body, 0),
            }
            self.bytes -= cost;
            self.queue.pop_front();
        }
        let total = segments.len();
        out.extend(segments.into_parts());
        self.stats.bytes += total as u64;
        total
    }

    fn ping_command(&self) -> Ping {
        let ttl = self.config.heartbeat.map_or(0, |h| h.ttl.as_millis() / 100);
        let ttl = u16::try_from(ttl).unwrap_or(u16::MAX).min(MAX_PING_TTL);
        Ping { ttl, context: Bytes::new() }
    }

    /// Deadline of [`Self::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.config.heartbeat.map(|_| self.next_ping)
    }

    /// Queues a PING if one is due.
    pub fn handle_timeout(&mut self, now: Now) {
        let Some(heartbeat) = self.config.heartbeat else { return };
        if now.mono >= self.next_ping {
            self.ping = true;
            self.next_ping = now.mono.saturating_add(heartbeat.interval);
        }
    }

    /// Drops all waiting output and returns the number of dropped messages. A message is never half
    /// sent.
    pub fn clear(&mut self) -> usize {
        self.queue.clear();
        self.bytes = 0;
        self.stats.discarded += self.messages as u64;
        core::mem::take(&mut self.messages)
    }

    /// Number of waiting messages.
    #[must_use]
    pub const fn queued_messages(&self) -> usize {
        self.messages
    }

    /// Number of waiting bytes, with a small overhead for each frame.
    #[must_use]
    pub const fn queued_bytes(&self) -> usize {
        self.bytes
    }

    /// Whether no output waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.pongs.is_empty() && !self.ping
    }

    /// Counters.
    #[must_use]
    pub const fn stats(&self) -> ZmtpTxStats {
        self.stats
    }
}

impl Item {
    fn cost(&self) -> usize {
        match self {
            Self::Message(message) => message.cost(),
            Self::Command(body) | Self::Subscription(body) => body.len(),
        }
    }
}

const MORE: u8 = curve::CurveMessage::MORE;
const COMMAND: u8 = curve::CurveMessage::COMMAND;

/// Writes frames: in clear, or each in its box.
struct Encoder(Option<Sealer>);

impl Encoder {
    /// Writes a frame; `flags` are those inside a box.
    fn put(&mut self, sink: &mut impl Sink, body: &Bytes, flags: u8) {
        match &mut self.0 {
            Some(sealer) => sealer.put(sink, flags, body),
            None if flags & COMMAND != 0 => {
                FrameHead::command(body.len()).encode(sink);
                sink.put_shared(body);
            }
            None => put_frame(sink, body, flags & MORE != 0),
        }
    }

    /// Writes the frames of a message; before an empty one in place of each that is lent its LOAN. Returns the number
    /// of those.
    fn put_message(&mut self, sink: &mut impl Sink, message: &Message, lend: &mut Option<Lend>) -> u64 {
        let mut lent = 0;
        let frames = message.frames();
        for (at, frame) in frames.iter().enumerate() {
            let flags = if at + 1 < frames.len() { MORE } else { 0 };
            match lend.as_mut().and_then(|lend| lend(frame)) {
                None => self.put(sink, frame, flags),
                Some(description) => {
                    self.put(sink, &body(&Loan { description }), COMMAND);
                    self.put(sink, &Bytes::new(), flags);
                    lent += 1;
                }
            }
        }
        lent
    }
}

fn body(command: &impl Command) -> Bytes {
    let mut out = Vec::new();
    command.encode(&mut out);
    out.into()
}

impl fmt::Debug for ZmtpTx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkTx")
            .field("messages", &self.messages)
            .field("bytes", &self.bytes)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}
