//! [`MessageQueue`]: messages of a ZMTP connection that wait to be written by its [`Outbox`].

use super::{CloseReason, Connection};
use crate::{
    net::{
        gather,
        outbox::{ALONE, Backlog, Outbox, Sending, TICK, WRITE_BYTES, Wire, Written},
    },
    rt::clock,
};
use bytes::Bytes;
use core::{sync::atomic::Ordering, time::Duration};
use parking_lot::MutexGuard;
use std::{collections::VecDeque, io};
use zwire_proto::{
    Now,
    zmtp::link::{Message, Rejected, ZmtpPushError, ZmtpTx, ZmtpTxConfig},
};

/// Messages of one connection, with the marks of its bounds.
pub(crate) struct MessageQueue {
    pub(super) machine: ZmtpTx,
    /// Taken from the machine, not yet written.
    out: VecDeque<Bytes>,
    /// A message was rejected; the owner is told when there is room.
    starved: bool,
    /// There is room: the task is to tell the owner.
    room: bool,
    low_messages: usize,
    low_bytes: usize,
    pub(super) written: Written,
}

impl MessageQueue {
    pub(super) fn new(machine: ZmtpTx, config: &ZmtpTxConfig) -> Self {
        Self {
            machine,
            out: VecDeque::new(),
            starved: false,
            room: false,
            // As with libzmq, a sender that was rejected goes on when half is written.
            low_messages: config.max_messages / 2,
            low_bytes: config.max_bytes / 2,
            written: Written::default(),
        }
    }

    /// Has the owner told when there is room.
    pub(super) const fn want_room(&mut self) {
        self.starved = true;
    }

    /// Whether so much waits that it is better written before more comes: one more burst could be rejected.
    fn is_half_full(&self) -> bool {
        self.machine.queued_messages() > self.low_messages || self.machine.queued_bytes() > self.low_bytes
    }
}

impl Backlog for MessageQueue {
    fn queued_bytes(&self) -> usize {
        self.machine.queued_bytes()
    }

    fn poll_timeout(&self) -> Option<Duration> {
        self.machine.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Now) {
        self.machine.handle_timeout(now);
    }

    fn owes_room(&self) -> bool {
        self.room
    }

    fn take_room(&mut self) -> bool {
        core::mem::take(&mut self.room)
    }
}

impl Wire for Connection {
    type Backlog = MessageQueue;
    type Batch = VecDeque<Bytes>;

    fn outbox(&self) -> &Outbox<MessageQueue> {
        &self.outbox
    }

    fn take(&self, queue: &mut MessageQueue, dead: bool) -> Option<VecDeque<Bytes>> {
        if queue.out.is_empty() && !dead {
            let mut parts = Vec::new();
            queue.machine.poll_transmit(&mut parts, WRITE_BYTES);
            queue.out.extend(parts);
            if queue.starved && !queue.is_half_full() {
                queue.starved = false;
                queue.room = true;
            }
        }
        (!queue.out.is_empty()).then(|| core::mem::take(&mut queue.out))
    }

    fn write(&self, out: &mut VecDeque<Bytes>) -> (Written, io::Result<u16>) {
        let mut written = Written::default();
        let write = |slices: &[io::IoSlice<'_>]| self.stream.try_write_vectored(slices);
        let result = gather::write(write, out, |bytes| written.count(bytes));
        (written, result.map(|all| u16::from(!all)))
    }

    fn put_back(&self, queue: &mut MessageQueue, out: VecDeque<Bytes>, written: Written, full: u16) -> bool {
        queue.out = out;
        queue.written.bytes += written.bytes;
        queue.written.calls += written.calls;
        full == 0
    }

    fn fail(&self, error: io::Error) {
        self.end(broken(error));
    }

    fn writable(&self) -> impl Future<Output = io::Result<()>> + Send {
        self.stream.writable()
    }

    fn closed(&self) -> impl Future<Output = ()> + Send {
        Self::closed(self)
    }
}

/// How soon messages that were pushed are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Writing {
    /// At once, if the message is alone; coalesced otherwise.
    #[default]
    Alone,
    /// At once: nothing follows soon.
    AtOnce,
    /// Coalesced even if the message is alone here, because more follow on other connections.
    Gather,
}

impl Connection {
    /// Queues a message, and writes it at once if no other is waiting. Never waits. After a full queue,
    /// [`Owner::writable`](super::Owner::writable) signals when to try again.
    ///
    /// # Errors
    /// The message, with the reason of the rejection.
    pub fn try_send(&self, message: Message) -> Result<(), Rejected> {
        if !self.birth.is_here() {
            return Err(closed(message));
        }
        let now = clock::mono();
        let mut sending = self.outbox.lock();
        let mut result = push_one(&mut sending, message);
        if let Err(Rejected {
            error: ZmtpPushError::HighWaterMark { .. } | ZmtpPushError::Bytes { .. }, ..
        }) = &result
            && !sending.busy
        {
            // No thread writes the messages that were coalesced yet: this one makes room.
            self.outbox.flush_locked(self, sending);
            sending = self.outbox.lock();
            if let Err(rejected) = result {
                result = push_one(&mut sending, rejected.message);
            }
        }
        match &result {
            Ok(()) => self.settle(sending, now, Writing::Alone),
            Err(_) => sending.backlog.starved = true,
        }
        result
    }

    /// As [`Self::try_send`], but makes no system call. With `true` the caller owes [`Self::flush_deferred`] once
    /// it has released its locks; with `false` another caller owes it already, or the task will write the message
    /// with coalesced ones before it.
    pub(crate) fn try_defer(&self, message: Message, writing: Writing) -> Result<bool, Rejected> {
        if !self.birth.is_here() {
            return Err(closed(message));
        }
        let mut sending = self.outbox.lock();
        match push_one(&mut sending, message) {
            // No thread writes the messages that were coalesced yet. The flush that this caller, or another
            // thread, owes follows at once: the queue exceeds its bound by one message for each thread.
            Err(Rejected {
                message,
                error: ZmtpPushError::HighWaterMark { .. } | ZmtpPushError::Bytes { .. },
            }) if !sending.busy => {
                sending.backlog.machine.restore([message]);
            }
            Err(rejected) => {
                sending.backlog.starved = true;
                return Err(rejected);
            }
            Ok(()) => {}
        }
        let leaves_later =
            writing == Writing::Gather && sending.is_scheduled() && !sending.backlog.is_half_full();
        drop(sending);
        Ok(!leaves_later && !self.deferred.swap(true, Ordering::AcqRel))
    }

    /// Queues messages until one is rejected, and writes them together. Returns the number of accepted
    /// ones, and the rejected one.
    pub fn try_send_many(&self, messages: &mut dyn Iterator<Item = Message>) -> (usize, Option<Rejected>) {
        if !self.birth.is_here() {
            return (0, messages.next().map(closed));
        }
        let now = clock::mono();
        let mut sending = self.outbox.lock();
        let mut taken = 0;
        let mut rejected = None;
        for message in messages {
            match push_one(&mut sending, message) {
                Ok(()) => taken += 1,
                Err(error) => {
                    sending.backlog.starved = true;
                    rejected = Some(error);
                    break;
                }
            }
        }
        // More may follow at once only where nothing was rejected.
        if rejected.is_some() {
            self.outbox.flush_locked(self, sending);
        } else if taken > 0 {
            self.settle(sending, now, Writing::Alone);
        }
        (taken, rejected)
    }

    /// Gives the machine a command, which is written at once and is not bounded here.
    pub(super) fn control(&self, command: impl FnOnce(&mut ZmtpTx)) {
        let mut sending = self.outbox.lock();
        if !sending.dead {
            command(&mut sending.backlog.machine);
            self.outbox.flush_locked(self, sending);
        }
    }

    /// Writes the messages of [`Self::try_defer`].
    pub(crate) fn flush_deferred(&self, writing: Writing) {
        self.deferred.store(false, Ordering::Release);
        if !self.birth.is_here() {
            return;
        }
        let now = clock::mono();
        let sending = self.outbox.lock();
        if !sending.backlog.machine.is_idle() {
            let writing = if sending.backlog.is_half_full() { Writing::AtOnce } else { writing };
            self.settle(sending, now, writing);
        }
    }

    /// Writes the gathered messages now.
    pub fn flush(&self) {
        if !self.birth.is_here() {
            return;
        }
        let sending = self.outbox.lock();
        if sending.flush_at.is_some() {
            self.outbox.flush_locked(self, sending);
        }
    }

    /// After a push: writes, or schedules a flush.
    fn settle(&self, mut sending: MutexGuard<'_, Sending<MessageQueue>>, now: Duration, writing: Writing) {
        let at_once = match writing {
            Writing::Alone => now.saturating_sub(sending.last_push) >= ALONE,
            Writing::AtOnce => true,
            Writing::Gather => false,
        };
        sending.last_push = now;
        self.outbox.settle(self, sending, now, at_once, TICK);
    }

    /// The messages of a dead connection that were not begun to be written, oldest first.
    pub(super) fn take_messages(&self) -> VecDeque<Message> {
        self.outbox.lock().backlog.machine.take_messages()
    }

    /// Whether everything was given to the system.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        let sending = self.outbox.lock();
        sending.backlog.out.is_empty() && sending.backlog.machine.is_idle() && !sending.busy
    }

    /// Messages and bytes that wait for the network.
    #[must_use]
    pub fn waiting(&self) -> (usize, usize) {
        let sending = self.outbox.lock();
        (sending.backlog.machine.queued_messages(), sending.backlog.machine.queued_bytes())
    }
}

/// Rejection by a connection that is over, or belongs to another process.
pub(super) const fn closed(message: Message) -> Rejected {
    Rejected { message, error: ZmtpPushError::Closed }
}

fn push_one(sending: &mut Sending<MessageQueue>, message: Message) -> Result<(), Rejected> {
    if sending.dead {
        return Err(closed(message));
    }
    sending.backlog.machine.push(message)
}

/// Writing fails when the peer has closed as well as when the network is gone.
pub(super) fn broken(error: io::Error) -> CloseReason {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => CloseReason::Peer,
        _ => error.into(),
    }
}
