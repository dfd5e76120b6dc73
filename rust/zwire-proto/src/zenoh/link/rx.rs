//! [`LinkRx`]: batches in, network messages out (`zenoh-wire` 3.8–3.14, 9.2, 9.3).

use super::{
    LinkError, LinkParams,
    compression::Decompressor,
    defrag::{Defrag, DefragBudget, DefragOutcome, FragmentRules, Strict},
    sn::SnWindow,
};
use crate::{
    Now,
    buf::Reader,
    limits::MAX_MESSAGE_SIZE,
    zenoh::{
        Priority, Reliability,
        wire::{
            BatchItem, BatchReader, CloseReason, Fragment, Frame, Join, NetworkMessage, TransportMessage,
            is_network,
        },
    },
};
use bytes::Bytes;
use core::{fmt, time::Duration};

/// Local policy of a receiver.
#[derive(Clone, Copy, Debug)]
pub struct RxConfig {
    /// Largest message that is reassembled from fragments; a larger one is dropped.
    pub max_message_size: usize,
    /// Most memory for incomplete messages, on all channels of the link.
    pub reassembly_bytes: usize,
}

impl Default for RxConfig {
    /// A message as large as Eclipse Zenoh accepts, on one channel; the sixteen channels together get
    /// no more.
    fn default() -> Self {
        Self { max_message_size: MAX_MESSAGE_SIZE, reassembly_bytes: MAX_MESSAGE_SIZE }
    }
}

/// Counters of a receiver, and of what it has dropped silently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxStats {
    /// Batches.
    pub batches: u64,
    /// Bytes, without stream prefixes, before decompression.
    pub bytes: u64,
    /// Messages handed out.
    pub messages: u64,
    /// Messages handed out that came in fragments.
    pub reassembled: u64,
    /// Frames dropped as duplicate or old.
    pub old_frames: u64,
    /// Fragments dropped as duplicate or old.
    pub old_fragments: u64,
    /// Fragments dropped because the previous one or their First mark is missing.
    pub stray_fragments: u64,
    /// Incomplete messages dropped because another message came on their channel.
    pub torn: u64,
    /// Messages dropped because their sender abandoned them half sent.
    pub given_up: u64,
    /// Messages dropped because of [`RxConfig`].
    pub too_large: u64,
    /// Messages dropped because they do not decode after reassembly.
    pub undecodable: u64,
    /// INIT, OPEN, JOIN and OAM, which have no meaning on an open link.
    pub ignored: u64,
}

/// The receiving half of a link.
pub struct LinkRx {
    qos: bool,
    low_latency: bool,
    /// Whether fragments carry First and Drop.
    marks: bool,
    sn_mask: u32,
    /// Whether payloads in shared memory are decoded. Links agree on lending, and groups agree on nothing.
    shm: bool,
    channels: Vec<[Channel; 2]>,
    budget: DefragBudget,
    decompressor: Option<Decompressor>,
    lease: Duration,
    deadline: Duration,
    /// The batch that is being read.
    current: Option<Current>,
    stats: RxStats,
}

/// A batch and the read position in it.
#[derive(Debug)]
struct Current {
    batch: Bytes,
    at: usize,
    in_frame: bool,
    /// The reliability of the FRAME that is being read; `None` while its messages are dropped.
    frame: Option<Reliability>,
}

/// Result of [`LinkRx::read_batch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The batch holds more messages.
    More,
    /// The batch was read completely.
    Done,
    /// The batch ends with a CLOSE for that reason; bytes behind it are ignored.
    Closed(CloseReason),
}

/// A priority and a reliability.
#[derive(Debug)]
struct Channel {
    window: SnWindow,
    defrag: Defrag<Strict>,
}

impl LinkRx {
    /// The receiver of a link that is up since `now`.
    #[must_use]
    pub fn new(params: &LinkParams, config: RxConfig, now: Now) -> Self {
        let sn_mask = params.sn_mask();
        let window = SnWindow::new(params.rx_initial_sn, sn_mask);
        let channel = || Channel { window, defrag: Defrag::default() };
        let priorities = if params.qos { Priority::COUNT } else { 1 };
        Self {
            qos: params.qos,
            low_latency: params.low_latency,
            marks: params.patch >= 1,
            sn_mask,
            shm: params.is_lending(),
            channels: (0..priorities).map(|_| [channel(), channel()]).collect(),
            budget: DefragBudget::new(config.max_message_size, config.reassembly_bytes),
            decompressor: params.compression.then(|| Decompressor::new(params.max_batch())),
            lease: params.peer_lease,
            deadline: now.mono.saturating_add(params.peer_lease),
            current: None,
            stats: RxStats::default(),
        }
    }

    /// The receiver for a member of a multicast group, with the sequence numbers of its JOIN.
    pub(crate) fn of_member(params: &LinkParams, join: &Join, config: RxConfig, now: Now) -> Self {
        let budget = DefragBudget::new(config.max_message_size, config.reassembly_bytes).without_spares();
        let mut rx = Self { shm: true, budget, ..Self::new(params, config, now) };
        rx.set_windows(join, |window, next, mask| *window = SnWindow::new(next, mask));
        rx
    }

    /// Handles a later JOIN of the same member: renews its lease and adopts its sequence numbers.
    pub(crate) fn handle_join(&mut self, now: Now, join: &Join) {
        self.deadline = now.mono.saturating_add(self.lease);
        self.set_windows(join, SnWindow::follow);
    }

    /// Gives the window of each channel its next number according to a JOIN.
    fn set_windows(&mut self, join: &Join, set: fn(&mut SnWindow, u32, u32)) {
        for (index, [best_effort, reliable]) in self.channels.iter_mut().enumerate() {
            let next = join.qos.as_ref().map_or(join.next_sn, |all| all[index]);
            set(&mut reliable.window, next.reliable, self.sn_mask);
            set(&mut best_effort.window, next.best_effort, self.sn_mask);
        }
    }

    /// Time of the last batch.
    pub(crate) const fn last_heard(&self) -> Duration {
        self.deadline.saturating_sub(self.lease)
    }

    /// Takes a batch, without stream prefix, and appends its messages to `out`. Returns the reason of a
    /// CLOSE; bytes behind it are ignored.
    ///
    /// # Errors
    /// The link must be closed. The messages before the error are in `out`.
    pub fn handle_batch(
        &mut self,
        now: Now,
        batch: Bytes,
        out: &mut Vec<(NetworkMessage, Reliability)>,
    ) -> Result<Option<CloseReason>, LinkError> {
        self.begin_batch(now, batch)?;
        match self.read_batch(out, usize::MAX)? {
            Progress::Closed(reason) => Ok(Some(reason)),
            Progress::More | Progress::Done => Ok(None),
        }
    }

    /// Takes a batch, without stream prefix, which [`Self::read_batch`] then reads. Any batch, an empty
    /// one too, refreshes the peer's lease. The unread rest of the previous one is dropped.
    ///
    /// # Errors
    /// The batch does not decompress: the link must be closed.
    pub fn begin_batch(&mut self, now: Now, batch: Bytes) -> Result<(), LinkError> {
        self.deadline = now.mono.saturating_add(self.lease);
        self.stats.batches += 1;
        self.stats.bytes += batch.len() as u64;
        let batch = match &mut self.decompressor {
            Some(machine) => machine.decompress(batch)?,
            None => batch,
        };
        self.current = Some(Current { batch, at: 0, in_frame: false, frame: None });
        Ok(())
    }

    /// Reads on in the batch until `out` holds `full` messages. Small portions stay in the caches of
    /// the processor until they are handled; all messages of a batch together do not.
    ///
    /// # Errors
    /// The link must be closed. The messages before the error are in `out`.
    pub fn read_batch(
        &mut self,
        out: &mut Vec<(NetworkMessage, Reliability)>,
        full: usize,
    ) -> Result<Progress, LinkError> {
        let Some(current) = self.current.take() else { return Ok(Progress::Done) };
        let before = out.len();
        let result = if self.low_latency {
            self.read_low_latency(&current.batch, out)
        } else {
            self.read(current, out, full)
        };
        self.stats.messages += (out.len() - before) as u64;
        result
    }

    fn read(
        &mut self,
        mut current: Current,
        out: &mut Vec<(NetworkMessage, Reliability)>,
        full: usize,
    ) -> Result<Progress, LinkError> {
        let mut r = self.reader(Reader::starting_at(&current.batch, current.at));
        // Not with `BatchReader`: its items would move each message once more, and messages are large.
        while let Some(header) = r.peek() {
            if out.len() >= full {
                current.at = r.offset();
                self.current = Some(current);
                return Ok(Progress::More);
            }
            if current.in_frame && is_network(header) {
                NetworkMessage::decode_to(&mut r, current.frame, out)?;
                continue;
            }
            current.in_frame = false;
            match TransportMessage::decode(&mut r)? {
                TransportMessage::Frame(head) => {
                    current.frame = self.frame(head)?.then_some(head.reliability);
                    current.in_frame = true;
                }
                // Its bytes extend to the end of the batch.
                TransportMessage::Fragment(head) => self.fragment(head, &r.rest(), out)?,
                TransportMessage::Close(close) => return Ok(Progress::Closed(close.reason)),
                // It has sent nothing for a while.
                TransportMessage::KeepAlive => self.budget.idle(),
                _ => self.stats.ignored += 1,
            }
        }
        Ok(Progress::Done)
    }

    /// No FRAME, no FRAGMENT, no sequence numbers. All messages count as reliable.
    fn read_low_latency(
        &mut self,
        batch: &Bytes,
        out: &mut Vec<(NetworkMessage, Reliability)>,
    ) -> Result<Progress, LinkError> {
        let mut reader = BatchReader::of(self.reader(Reader::new(batch))).bare();
        while let Some(item) = reader.next_item()? {
            let message = match item {
                BatchItem::Network(message) => {
                    out.push((message, Reliability::Reliable));
                    continue;
                }
                BatchItem::Transport(TransportMessage::Close(close)) => {
                    return Ok(Progress::Closed(close.reason));
                }
                BatchItem::Transport(TransportMessage::Frame(_)) => "FRAME",
                BatchItem::Fragment(..) => "FRAGMENT",
                BatchItem::Transport(TransportMessage::KeepAlive) => continue,
                BatchItem::Transport(_) => {
                    self.stats.ignored += 1;
                    continue;
                }
            };
            return Err(LinkError::NotLowLatency { message });
        }
        Ok(Progress::Done)
    }

    /// A reader by the rules of this link for shared memory.
    const fn reader<'a>(&self, r: Reader<'a>) -> Reader<'a> {
        if self.shm { r.with_shared_memory() } else { r }
    }

    /// Rules of this link for its fragments.
    const fn rules(&self) -> FragmentRules {
        FragmentRules { marks: Some(self.marks), sn_mask: Some(self.sn_mask) }
    }

    /// Whether the messages of a FRAME are accepted.
    #[inline]
    fn frame(&mut self, head: Frame) -> Result<bool, LinkError> {
        let (rules, mask) = (self.rules(), self.sn_mask);
        let index = self.check(head.priority, head.sn)?;
        let channel = &mut self.channels[index][head.reliability as usize];
        if !channel.window.accept(head.sn, mask) {
            self.stats.old_frames += 1;
            return Ok(false);
        }
        if channel.defrag.interrupt(rules, &mut self.budget).is_some() {
            self.stats.torn += 1;
        }
        Ok(true)
    }

    fn fragment(
        &mut self,
        head: Fragment,
        data: &Bytes,
        out: &mut Vec<(NetworkMessage, Reliability)>,
    ) -> Result<(), LinkError> {
        let (rules, mask) = (self.rules(), self.sn_mask);
        let index = self.check(head.priority, head.sn)?;
        let channel = &mut self.channels[index][head.reliability as usize];
        if !channel.window.accept(head.sn, mask) {
            self.stats.old_fragments += 1;
            return Ok(());
        }
        let (outcome, torn) = channel.defrag.push(head, data, (), rules, &mut self.budget);
        self.stats.torn += u64::from(torn.is_some());
        match outcome {
            DefragOutcome::Collected => {}
            DefragOutcome::Stray { .. } => self.stats.stray_fragments += 1,
            DefragOutcome::GivenUp(_) => self.stats.given_up += 1,
            DefragOutcome::TooLarge(_) => self.stats.too_large += 1,
            // Exactly one message; bytes behind it are ignored.
            DefragOutcome::Whole(whole) => {
                match NetworkMessage::decode(&mut self.reader(Reader::new(&whole.bytes))) {
                    Ok(message) => {
                        self.stats.reassembled += 1;
                        out.push((message, head.reliability));
                    }
                    Err(_) => self.stats.undecodable += 1,
                }
            }
        }
        Ok(())
    }

    /// The index of the channels of a priority, if there are any.
    #[inline]
    const fn check(&self, priority: Priority, sn: u32) -> Result<usize, LinkError> {
        if sn & self.sn_mask != sn {
            return Err(LinkError::SnOutsideMask { sn, mask: self.sn_mask });
        }
        match (self.qos, priority) {
            (true, _) => Ok(priority as usize),
            (false, Priority::Data) => Ok(0),
            (false, _) => Err(LinkError::PriorityWithoutQos { priority }),
        }
    }

    /// Deadline of the peer's lease.
    #[must_use]
    pub const fn poll_timeout(&self) -> Option<Duration> {
        Some(self.deadline)
    }

    /// Whether the peer's lease has expired: its link must be closed.
    #[must_use]
    pub fn handle_timeout(&mut self, now: Now) -> bool {
        now.mono >= self.deadline
    }

    /// Changes the bound on memory for incomplete messages. A message that exceeds it is dropped with
    /// its next fragment.
    pub fn set_reassembly_bytes(&mut self, bytes: usize) {
        self.budget.set_bytes(bytes);
    }

    /// Memory held for incomplete messages, and for the next ones.
    #[must_use]
    pub const fn reassembling(&self) -> usize {
        self.budget.held()
    }

    /// Memory held for incomplete messages alone.
    #[must_use]
    pub const fn incomplete(&self) -> usize {
        self.budget.used()
    }

    /// Counters.
    #[must_use]
    pub const fn stats(&self) -> RxStats {
        self.stats
    }
}

impl fmt::Debug for LinkRx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkRx")
            .field("deadline", &self.deadline)
            .field("reassembling", &self.budget.held())
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}
