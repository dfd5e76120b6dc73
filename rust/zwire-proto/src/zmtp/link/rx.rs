//! [`ZmtpRx`]: the stream in, messages out (`zmtp` 4, 5, 9, 10).

use super::{Heartbeat, Message, Version, ZmtpLinkError, ZmtpLinkParams, curve::CurveOpener, message::cost};
use crate::{
    Now,
    buf::Reader,
    lending::LoanDescription,
    zmtp::{
        limits::MAX_MESSAGE_SIZE,
        wire::{Command, FrameHead, Loan, Ping, SocketType, Subscription, TrafficCommand},
    },
};
use bytes::{Bytes, BytesMut};
use core::{fmt, time::Duration};

/// Local policy of a receiver.
#[derive(Clone, Copy, Debug)]
pub struct ZmtpRxConfig {
    /// Largest message, all frames together with a few bytes for each; a larger one ends the connection.
    pub max_message_size: usize,
    /// The heartbeat that the sender of the same connection has.
    pub heartbeat: Option<Heartbeat>,
}

impl Default for ZmtpRxConfig {
    /// No heartbeat, like libzmq.
    fn default() -> Self {
        Self { max_message_size: MAX_MESSAGE_SIZE, heartbeat: None }
    }
}

/// Counters of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZmtpRxStats {
    /// Bytes of whole frames, heads included.
    pub bytes: u64,
    /// Frames of messages.
    pub frames: u64,
    /// Frames of them that were borrowed from the memory of the peer.
    pub borrowed: u64,
    /// Messages handed out.
    pub messages: u64,
    /// Commands.
    pub commands: u64,
    /// Commands without a meaning here, and messages to a publisher that are not subscriptions.
    pub ignored: u64,
}

/// Received unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inbound {
    /// A message.
    Message(Message),
    /// To a publisher: the peer subscribes to messages with this prefix of the first frame.
    Subscribe(Bytes),
    /// To a publisher: the peer cancels the subscription to this prefix.
    Cancel(Bytes),
    /// PING; pass it to [`super::ZmtpTx::pong`].
    Ping(Ping),
}

/// Finds the bytes that the peer has lent; `None` if it has not.
pub type Borrow = Box<dyn FnMut(&LoanDescription) -> Option<Bytes> + Send>;

/// The receiving half of a connection.
pub struct ZmtpRx {
    socket_type: SocketType,
    version: Version,
    config: ZmtpRxConfig,
    /// Opener of boxes, under CURVE.
    opener: Option<CurveOpener>,
    /// Frames of an incomplete message.
    partial: Vec<Bytes>,
    partial_cost: usize,
    /// Set if both sides have agreed on lending.
    borrow: Option<Borrow>,
    /// Bytes on loan for the next frame.
    loan: Option<(LoanDescription, Bytes)>,
    /// Number of bytes left in the buffer after the last call; a longer buffer holds new bytes.
    left: usize,
    last: Duration,
    /// TTL of the peer's last PING.
    ttl: Option<Duration>,
    stats: ZmtpRxStats,
}

impl ZmtpRx {
    /// The receiver of a connection after its handshake, which ended at `now`.
    #[must_use]
    pub fn new(params: &ZmtpLinkParams, config: ZmtpRxConfig, now: Now) -> Self {
        let heartbeat = config.heartbeat.filter(|heartbeat| heartbeat.reaches(params.version));
        Self {
            socket_type: params.socket_type,
            version: params.version,
            config: ZmtpRxConfig { heartbeat, ..config },
            opener: params.session.as_ref().map(|session| session.opener()),
            partial: Vec::new(),
            partial_cost: 0,
            borrow: None,
            loan: None,
            left: 0,
            last: now.mono,
            ttl: None,
            stats: ZmtpRxStats::default(),
        }
    }

    /// Has the receiver accept payloads on loan, as both sides have agreed.
    pub fn set_borrow(&mut self, borrow: Borrow) {
        self.borrow = Some(borrow);
    }

    /// Takes whole frames off the front of `buf` and appends their contents to `out`, until that holds
    /// `full` entries or no whole frame is left. Returns whether `buf` may hold more. Frames share its
    /// memory. Any byte more than last time shows that the peer is alive.
    ///
    /// # Errors
    /// The connection must be closed. Contents before the error are in `out`.
    pub fn read(
        &mut self,
        now: Now,
        buf: &mut BytesMut,
        out: &mut Vec<Inbound>,
        full: usize,
    ) -> Result<bool, ZmtpLinkError> {
        if buf.len() > self.left {
            self.last = now.mono;
        }
        let before = out.len();
        let result = self.read_frames(buf, out, full);
        self.left = buf.len();
        self.stats.messages +=
            out[before..].iter().filter(|item| matches!(item, Inbound::Message(_))).count() as u64;
        result
    }

    fn read_frames(
        &mut self,
        buf: &mut BytesMut,
        out: &mut Vec<Inbound>,
        full: usize,
    ) -> Result<bool, ZmtpLinkError> {
        loop {
            if out.len() >= full {
                return Ok(true);
            }
            // One block for all whole frames: each slice of it costs one reference count.
            let room = full - out.len();
            let len = self.whole_frames(buf, room)?;
            if len == 0 {
                return Ok(false);
            }
            let block = buf.split_to(len).freeze();
            self.stats.bytes += len as u64;
            let mut at = 0;
            while let Some((head, start)) = FrameHead::decode(&block[at..])? {
                #[allow(clippy::cast_possible_truncation, reason = "the frame is in memory")]
                let end = at + start + head.len as usize;
                self.frame(head, block.slice(at + start..end), out)?;
                at = end;
            }
        }
    }

    /// Length of up to `frames` whole frames at the front. An error behind the first frame is left for
    /// the next call.
    fn whole_frames(&self, buf: &[u8], frames: usize) -> Result<usize, ZmtpLinkError> {
        let mut at = 0;
        // Includes frames in `buf` that are not yet part of the partial message.
        let mut pending = self.partial_cost;
        for _ in 0..frames {
            match self.whole_frame(&buf[at..], &mut pending) {
                Ok(Some(len)) => at += len,
                Ok(None) => break,
                Err(error) if at == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(at)
    }

    fn whole_frame(&self, buf: &[u8], pending: &mut usize) -> Result<Option<usize>, ZmtpLinkError> {
        let Some((head, start)) = FrameHead::decode(buf)? else { return Ok(None) };
        let len = self.admit(head, *pending)?;
        if !head.command {
            *pending = if head.more { *pending + cost(len) } else { 0 };
        }
        Ok((buf.len() - start >= len).then_some(start + len))
    }

    /// Length of a frame if it is allowed; `pending` is the cost of its message so far.
    fn admit(&self, head: FrameHead, pending: usize) -> Result<usize, ZmtpLinkError> {
        let max = self.config.max_message_size;
        let pending = if head.command { 0 } else { pending };
        let fits = usize::try_from(head.len).ok().filter(|len| cost(*len).saturating_add(pending) <= max);
        fits.ok_or(ZmtpLinkError::TooLarge { len: head.len.saturating_add(pending as u64), max })
    }

    /// Number of bytes missing for the next whole frame or for its head; 0 when it is complete or
    /// refused. Never above the bound of one message.
    #[must_use]
    pub fn needed(&self, buf: &[u8]) -> usize {
        match FrameHead::decode(buf) {
            Ok(Some((head, start))) => {
                self.admit(head, self.partial_cost).map_or(0, |len| (start + len).saturating_sub(buf.len()))
            }
            Ok(None) => 1,
            Err(_) => 0,
        }
    }

    fn frame(&mut self, head: FrameHead, body: Bytes, out: &mut Vec<Inbound>) -> Result<(), ZmtpLinkError> {
        // The kind of frame around MESSAGE is ignored: libzmq and the RFCs disagree. A frame in clear
        // is no MESSAGE.
        let (more, command, body) = match &mut self.opener {
            None => (head.more, head.command, body),
            Some(opener) => {
                let opened = opener.open(&body)?;
                (opened.more, opened.command, opened.body)
            }
        };
        if command { self.command(&body, out) } else { self.part(more, body, out) }
    }

    /// Handles a frame of a message.
    fn part(&mut self, more: bool, body: Bytes, out: &mut Vec<Inbound>) -> Result<(), ZmtpLinkError> {
        self.stats.frames += 1;
        let body = self.borrowed(body)?;
        if more || !self.partial.is_empty() {
            let total = self.partial_cost.saturating_add(cost(body.len()));
            // Outside its box a frame does not tell whether more follow.
            let max = self.config.max_message_size;
            if total > max {
                return Err(ZmtpLinkError::TooLarge { len: total as u64, max });
            }
            self.partial_cost = total;
            self.partial.push(body);
            if more {
                return Ok(());
            }
            self.partial_cost = 0;
            let frames = core::mem::take(&mut self.partial);
            if let Some(message) = Message::of(frames) {
                self.message(message, out);
            }
        } else {
            self.message(Message::single(body), out);
        }
        Ok(())
    }

    /// The bytes of a frame: those on loan for it, if it is empty.
    fn borrowed(&mut self, body: Bytes) -> Result<Bytes, ZmtpLinkError> {
        match self.loan.take() {
            None => Ok(body),
            Some((_, bytes)) if body.is_empty() => {
                self.stats.borrowed += 1;
                Ok(bytes)
            }
            Some((loan, _)) => Err(ZmtpLinkError::Loan { loan, problem: "the frame behind it is not empty" }),
        }
    }

    /// Handles LOAN.
    fn handle_loan(&mut self, data: &Bytes) -> Result<(), ZmtpLinkError> {
        let Some(borrow) = &mut self.borrow else { return Ok(()) };
        let loan = Loan::decode_data(&mut Reader::new(data))?.description;
        let max = self.config.max_message_size;
        let len = usize::try_from(loan.len).ok();
        if len.is_none_or(|len| cost(len).saturating_add(self.partial_cost) > max) {
            let len = loan.len.saturating_add(self.partial_cost as u64);
            return Err(ZmtpLinkError::TooLarge { len, max });
        }
        if self.loan.is_some() {
            return Err(ZmtpLinkError::Loan { loan, problem: "another LOAN is before it" });
        }
        let bytes = borrow(&loan);
        let bytes = bytes.ok_or(ZmtpLinkError::Loan { loan, problem: "the bytes are not on loan" })?;
        self.loan = Some((loan, bytes));
        Ok(())
    }

    fn message(&mut self, message: Message, out: &mut Vec<Inbound>) {
        let publisher = matches!(self.socket_type, SocketType::Pub | SocketType::XPub);
        // Both forms are accepted whatever version the peer has announced (`zmtp` 9).
        if publisher && let [body] = message.frames() {
            match Subscription::decode(body) {
                Some(Subscription::Subscribe(prefix)) => return out.push(Inbound::Subscribe(prefix)),
                Some(Subscription::Cancel(prefix)) => return out.push(Inbound::Cancel(prefix)),
                None => {}
            }
        }
        if self.socket_type == SocketType::Pub {
            self.stats.ignored += 1;
        } else {
            out.push(Inbound::Message(message));
        }
    }

    /// Handles a command. Commands belong between messages; one in the middle of a message is tolerated, as libzmq does.
    fn command(&mut self, body: &Bytes, out: &mut Vec<Inbound>) -> Result<(), ZmtpLinkError> {
        if self.version == Version::V2_0 {
            return Err(ZmtpLinkError::CommandOfOldPeer);
        }
        self.stats.commands += 1;
        let publisher = matches!(self.socket_type, SocketType::Pub | SocketType::XPub);
        match TrafficCommand::decode(body)? {
            TrafficCommand::Subscribe(c) if publisher => out.push(Inbound::Subscribe(c.prefix)),
            TrafficCommand::Cancel(c) if publisher => out.push(Inbound::Cancel(c.prefix)),
            TrafficCommand::Ping(ping) => {
                self.ttl = (ping.ttl > 0).then(|| Duration::from_millis(100 * u64::from(ping.ttl)));
                out.push(Inbound::Ping(ping));
            }
            TrafficCommand::Pong(_) => {}
            TrafficCommand::Error(error) => return Err(ZmtpLinkError::Peer { reason: error.reason }),
            TrafficCommand::Unknown { name, data } if name == Loan::NAME && self.borrow.is_some() => {
                self.handle_loan(&data)?;
            }
            _ => self.stats.ignored += 1,
        }
        Ok(())
    }

    /// Deadline at which the peer counts as gone unless bytes arrive: the timeout after a PING was due,
    /// or the TTL of the peer's last PING.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        let own = self.config.heartbeat.map(|h| h.interval.saturating_add(h.timeout));
        let patience = match (own, self.ttl) {
            (Some(own), Some(ttl)) => own.min(ttl),
            (own, ttl) => own.or(ttl)?,
        };
        Some(self.last.saturating_add(patience))
    }

    /// Whether the peer is gone: the connection must be closed.
    #[must_use]
    pub fn handle_timeout(&mut self, now: Now) -> bool {
        self.poll_timeout().is_some_and(|deadline| now.mono >= deadline)
    }

    /// Bytes held of an incomplete message.
    #[must_use]
    pub const fn collecting(&self) -> usize {
        self.partial_cost
    }

    /// Counters.
    #[must_use]
    pub const fn stats(&self) -> ZmtpRxStats {
        self.stats
    }
}

impl fmt::Debug for ZmtpRx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkRx")
            .field("last", &self.last)
            .field("collecting", &self.partial_cost)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}
