//! [`Writer`]: the sending side of a connection.
//!
//! As on the links of Zenoh, whoever is there writes: a message alone goes out at once from the thread that
//! pushed it, messages that follow closely are collected until they are worth a write or [`COLLECT`] is
//! over, and what the socket does not take is left to the task of the connection.

use super::{CloseReason, Connection, Owner};
use crate::{net::gather, rt::clock, zenoh::link::ALONE};
use bytes::Bytes;
use core::time::Duration;
use parking_lot::{Mutex, MutexGuard};
use std::{collections::VecDeque, io, sync::Arc};
use tokio::sync::Notify;
use zwire_proto::zmtp::link::{LinkTx, Message, PushError, Rejected, TxConfig};

/// From this many queued bytes on the pushing thread writes: one system call costs as much as copying them.
const FLUSH_BYTES: usize = 60 * 1024;

/// How long a message may wait for others, and how often the task looks while there are some: the
/// resolution of its timer.
const COLLECT: Duration = Duration::from_millis(1);

/// How long the task goes on looking for something to write after there was something.
const AWAKE: Duration = Duration::from_millis(20);

/// Most bytes taken from the machine for one round of writing, if one message is not larger.
const WRITE_BYTES: usize = 256 * 1024;

/// Rounds that a pushing thread writes before it leaves the rest to the task, so that other threads'
/// messages cannot hold it forever.
const ROUNDS: usize = 8;

struct Tx {
    machine: LinkTx,
    /// Taken from the machine, not yet written.
    out: VecDeque<Bytes>,
    /// Somebody is writing, or the task has taken over.
    busy: bool,
    /// The task is to wait for the socket and write on.
    handed_over: bool,
    /// The task is to write at this time.
    flush_at: Option<Duration>,
    /// Until then the task looks by itself, every [`COLLECT`], whether there is something to write.
    awake_until: Duration,
    /// It will look again without being told.
    awake: bool,
    last_push: Duration,
    /// A message was rejected; the owner is told when there is room.
    starved: bool,
    /// There is room: the task is to tell the owner.
    tell: bool,
    dead: bool,
    writes: u64,
    bytes: u64,
}

/// The queue of a connection, and who writes it.
pub(super) struct Writer {
    tx: Mutex<Tx>,
    wake: Notify,
    low_messages: usize,
    low_bytes: usize,
}

impl Writer {
    pub(super) fn new(machine: LinkTx, config: &TxConfig) -> Self {
        // What waits from before is written by the task when it starts.
        let waits = !machine.is_idle();
        Self {
            tx: Mutex::new(Tx {
                machine,
                out: VecDeque::new(),
                busy: waits,
                handed_over: waits,
                flush_at: None,
                awake_until: Duration::ZERO,
                awake: false,
                last_push: Duration::ZERO,
                starved: false,
                tell: false,
                dead: false,
                writes: 0,
                bytes: 0,
            }),
            wake: Notify::new(),
            // As the reference, whoever was rejected goes on when half is written.
            low_messages: config.max_messages / 2,
            low_bytes: config.max_bytes / 2,
        }
    }

    /// With `gather` the message waits for others even if it is alone here: more follow elsewhere.
    pub(super) fn push(
        &self,
        connection: &Connection,
        message: Message,
        gather: bool,
    ) -> Result<(), Rejected> {
        let now = clock::mono();
        let mut tx = self.tx.lock();
        let mut result = push_one(&mut tx, message);
        if let Err(Rejected { error: PushError::HighWaterMark { .. } | PushError::Bytes { .. }, .. }) =
            &result
            && !tx.busy
        {
            // Nobody writes yet what is collected: then it is our turn.
            self.write_out(connection, tx, ROUNDS);
            tx = self.tx.lock();
            if let Err(rejected) = result {
                result = push_one(&mut tx, rejected.message);
            }
        }
        match &result {
            Ok(()) => self.settle(connection, tx, now, gather),
            Err(_) => tx.starved = true,
        }
        result
    }

    pub(super) fn push_many(
        &self,
        connection: &Connection,
        messages: &mut dyn Iterator<Item = Message>,
    ) -> (usize, Option<Rejected>) {
        let now = clock::mono();
        let mut tx = self.tx.lock();
        let mut taken = 0;
        let mut rejected = None;
        for message in messages {
            match push_one(&mut tx, message) {
                Ok(()) => taken += 1,
                Err(error) => {
                    tx.starved = true;
                    rejected = Some(error);
                    break;
                }
            }
        }
        // More may follow at once only where nothing was rejected.
        if rejected.is_some() && !tx.busy && !tx.dead {
            self.write_out(connection, tx, ROUNDS);
        } else if taken > 0 {
            self.settle(connection, tx, now, false);
        }
        (taken, rejected)
    }

    /// Gives the machine something that is written at once and knows no bound here.
    pub(super) fn control(&self, connection: &Connection, command: impl FnOnce(&mut LinkTx)) {
        let mut tx = self.tx.lock();
        if !tx.dead {
            command(&mut tx.machine);
            if !tx.busy {
                self.write_out(connection, tx, ROUNDS);
            }
        }
    }

    pub(super) fn flush(&self, connection: &Connection) {
        let tx = self.tx.lock();
        if !tx.busy && !tx.dead && tx.flush_at.is_some() {
            self.write_out(connection, tx, ROUNDS);
        }
    }

    pub(super) fn queued(&self) -> usize {
        self.tx.lock().machine.queued_messages()
    }

    pub(super) fn waiting(&self) -> (usize, usize) {
        let tx = self.tx.lock();
        (tx.machine.queued_messages(), tx.machine.queued_bytes())
    }

    /// Messages, bytes, writes.
    pub(super) fn stats(&self) -> (u64, u64, u64) {
        let tx = self.tx.lock();
        (tx.machine.stats().messages, tx.bytes, tx.writes)
    }

    pub(super) fn is_flushed(&self) -> bool {
        let tx = self.tx.lock();
        tx.out.is_empty() && tx.machine.is_idle() && !tx.busy
    }

    /// Nothing is taken or written any more.
    pub(super) fn kill(&self) {
        self.tx.lock().dead = true;
        self.wake.notify_one();
    }

    /// The messages of a dead connection that were not begun to be written, oldest first.
    pub(super) fn take_messages(&self) -> VecDeque<Message> {
        self.tx.lock().machine.take_messages()
    }

    /// After a push: writes, or sees to it that somebody will.
    fn settle<'a>(
        &'a self,
        connection: &Connection,
        mut tx: MutexGuard<'a, Tx>,
        now: Duration,
        gather: bool,
    ) {
        let alone = !gather && now.saturating_sub(tx.last_push) >= ALONE;
        tx.last_push = now;
        if tx.busy || tx.dead {
            return;
        }
        if alone || tx.machine.queued_bytes() >= FLUSH_BYTES {
            self.write_out(connection, tx, ROUNDS);
        } else if tx.flush_at.is_none() {
            tx.flush_at = Some(now + COLLECT);
            // Waking a thread costs more than the message, and mostly for nothing: what follows takes along
            // what waits.
            tx.awake_until = now + AWAKE;
            let awake = core::mem::replace(&mut tx.awake, true);
            drop(tx);
            if !awake {
                self.wake.notify_one();
            }
        }
    }

    /// Writes until nothing is left, the socket is full, or `rounds` are over.
    fn write_out<'a>(&'a self, connection: &Connection, mut tx: MutexGuard<'a, Tx>, rounds: usize) {
        tx.busy = true;
        tx.flush_at = None;
        for _ in 0..rounds {
            if tx.out.is_empty() && !tx.dead {
                self.refill(&mut tx);
            }
            if tx.out.is_empty() {
                tx.busy = false;
                let tell = tx.tell;
                drop(tx);
                if tell {
                    self.wake.notify_one();
                }
                return;
            }
            let mut out = core::mem::take(&mut tx.out);
            drop(tx);
            let (mut writes, mut bytes) = (0, 0);
            let write = |slices: &[io::IoSlice<'_>]| connection.stream.try_write_vectored(slices);
            let result = gather::write(write, &mut out, |written| {
                writes += 1;
                bytes += written as u64;
            });
            tx = self.tx.lock();
            tx.out = out;
            tx.writes += writes;
            tx.bytes += bytes;
            match result {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    tx.dead = true;
                    tx.busy = false;
                    drop(tx);
                    connection.end(broken(error));
                    return;
                }
            }
        }
        tx.handed_over = true;
        drop(tx);
        self.wake.notify_one();
    }

    fn refill(&self, tx: &mut Tx) {
        let mut parts = Vec::new();
        tx.machine.poll_transmit(&mut parts, WRITE_BYTES);
        tx.out.extend(parts);
        if tx.starved
            && tx.machine.queued_messages() <= self.low_messages
            && tx.machine.queued_bytes() <= self.low_bytes
        {
            tx.starved = false;
            tx.tell = true;
        }
    }

    /// The task: delayed writes, PINGs, and writing when the socket was full.
    pub(super) async fn run(connection: Arc<Connection>, owner: Arc<dyn Owner>) {
        let this = &connection.writer;
        let sleep = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(sleep);
        loop {
            let (deadline, handed_over, tell) = {
                let mut tx = this.tx.lock();
                if tx.dead {
                    return;
                }
                let tick = tx.flush_at.is_some() || tx.awake;
                let now = if tick { clock::mono() } else { Duration::ZERO };
                let tick = (tick && now < tx.awake_until).then(|| now + COLLECT);
                tx.awake = tick.is_some() || tx.flush_at.is_some();
                let deadline = [tx.machine.poll_timeout(), tx.flush_at, tick].into_iter().flatten().min();
                (deadline, core::mem::take(&mut tx.handed_over), core::mem::take(&mut tx.tell))
            };
            if tell {
                owner.writable(&connection);
            }
            if handed_over {
                tokio::select! {
                    ready = connection.stream.writable() => if let Err(error) = ready {
                        connection.end(broken(error));
                        return;
                    },
                    () = connection.closed() => return,
                }
                this.write_out(&connection, this.tx.lock(), usize::MAX);
                continue;
            }
            if let Some(deadline) = deadline {
                sleep.as_mut().reset(clock::instant(deadline));
            }
            tokio::select! {
                () = this.wake.notified() => {}
                () = &mut sleep, if deadline.is_some() => this.tick(&connection),
                () = connection.closed() => return,
            }
        }
    }

    fn tick(&self, connection: &Connection) {
        let now = clock::now();
        let mut tx = self.tx.lock();
        let due = |at: Option<Duration>| at.is_some_and(|at| at <= now.mono);
        let ping = due(tx.machine.poll_timeout());
        tx.machine.handle_timeout(now);
        if !ping && !due(tx.flush_at) {
            // Only a look.
        } else if tx.busy {
            tx.flush_at = None;
        } else {
            self.write_out(connection, tx, ROUNDS);
        }
    }
}

fn push_one(tx: &mut Tx, message: Message) -> Result<(), Rejected> {
    if tx.dead {
        return Err(Rejected { message, error: PushError::Closed });
    }
    tx.machine.push(message)
}

/// Writing fails when the peer has closed as well as when the network is gone.
pub(super) fn broken(error: io::Error) -> CloseReason {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => CloseReason::Peer,
        _ => error.into(),
    }
}
