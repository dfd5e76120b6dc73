//! [`ChannelLending`]: the loans of both sides of a link with a node of zwire, and the task of its channel.

use super::{
    LendingFailure,
    borrower::Borrowed,
    door::{Ticket, name_of},
    lender::{self, Lending, LoanBook, Loans, Partner},
};
use crate::rt::clock;
use bytes::Bytes;
use core::{
    pin::Pin,
    sync::atomic::{AtomicU8, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    io,
    os::fd::OwnedFd,
    sync::{Arc, Weak},
};
use tokio::{io::unix::AsyncFd, sync::Notify};
use zwire_proto::lending::{ChannelMessage, LendingTerms, LoanDescription, MAX_SEGMENTS};
use zwire_shm::{Channel, MAX_MESSAGE, Returns};

/// Pause before a door that is busy is tried again.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// Interval at which returned loans are taken on a link that lends nothing more: the pool has its memory back after it.
const SWEEP: Duration = Duration::from_millis(500);

/// Interval at which a borrower is told of segments that are given up, while it has nothing on loan.
const IDLE_SWEEP: Duration = Duration::from_secs(5);

/// Loans of both sides of a link.
pub(crate) struct ChannelLending {
    lending: Arc<Lending>,
    channel: Arc<Channel>,
    loans: Mutex<Loans>,
    /// Until the link has ended.
    borrowed: Mutex<Option<Arc<Borrowed>>>,
    /// Answers that the other side had no room for; one for each of its segments and of ours at most.
    unsent: Mutex<VecDeque<ChannelMessage>>,
    /// The first loan begins while there is none.
    begun: Notify,
    /// 0: on, else a [`LendingFailure`] plus one.
    failure: AtomicU8,
}

impl ChannelLending {
    fn new(lending: Arc<Lending>, channel: Arc<Channel>) -> Self {
        Self {
            lending,
            loans: Mutex::default(),
            borrowed: Mutex::new(Some(Arc::new(Borrowed::new(channel.clone())))),
            channel,
            unsent: Mutex::default(),
            begun: Notify::new(),
            failure: AtomicU8::new(0),
        }
    }

    pub(crate) fn failure(&self) -> Option<LendingFailure> {
        let at = self.failure.load(Ordering::Relaxed).checked_sub(1)?;
        LendingFailure::ALL.get(usize::from(at)).copied()
    }

    /// Smallest payload that is lent.
    #[inline]
    pub(crate) fn threshold(&self) -> usize {
        self.lending.threshold()
    }

    /// Puts those parts of a payload of `len` bytes on loan that can be lent, and calls `each` with every part. `None` if
    /// nothing is lent; else whether the borrower has to hear of it before more can be.
    #[inline(never)]
    pub(crate) fn lend(
        &self,
        parts: &[Bytes],
        len: usize,
        each: impl FnMut(&Bytes, Option<LoanDescription>),
    ) -> Option<bool> {
        let share = self.lending.share();
        let mut loans = self.loans.lock();
        let idle = loans.is_empty();
        let lent = loans.lend(parts, len, share, &self.channel, each);
        if idle && lent {
            self.begun.notify_one();
        }
        let full = loans.is_full(len, share);
        if full {
            self.lending.set_tight();
        }
        lent.then(|| loans.note_lent(len, full))
    }

    /// Ends loans with descriptions that were not sent.
    pub(crate) fn take_back(&self, descriptions: impl IntoIterator<Item = LoanDescription>) {
        let mut loans = self.loans.lock();
        descriptions.into_iter().for_each(|description| loans.take_back(description.loan));
    }

    /// The bytes that a description of the other side stands for; `None` if they are no loan of this link.
    pub(crate) fn resolve(&self, description: &LoanDescription) -> Option<Bytes> {
        let borrowed = self.borrowed.lock().clone()?;
        borrowed.resolve(description)
    }

    /// Handles a message of the other side.
    fn handle(&self, message: ChannelMessage, files: Vec<OwnedFd>) -> Result<(), LendingFailure> {
        let borrowed = self.borrowed.lock().clone();
        let mut files = files.into_iter();
        match (message, files.next()) {
            (ChannelMessage::Mapped { segment }, None) => self.loans.lock().handle_mapped(segment),
            // It stays announced, so that it is not offered again.
            (ChannelMessage::Refused { segment }, None) => {
                tracing::debug!(segment, "the borrower cannot map a segment");
            }
            (ChannelMessage::Retired { segment }, None) => {
                borrowed.iter().for_each(|borrowed| borrowed.retire(segment));
            }
            (ChannelMessage::Ring { size }, Some(file)) => {
                let Some(borrowed) = borrowed else { return Ok(()) };
                let returns = Returns::open(file, size).map_err(|error| {
                    tracing::debug!(%error, "the ring of a lender cannot be mapped");
                    LendingFailure::System
                })?;
                if !borrowed.set_returns(returns) {
                    return Err(LendingFailure::Protocol);
                }
            }
            (ChannelMessage::Segment { segment, size }, Some(file)) => {
                let Some(borrowed) = borrowed else { return Ok(()) };
                if !borrowed.is_ready(segment) {
                    return Err(LendingFailure::Protocol);
                }
                // What is lent on needs this channel and those before it.
                let mut keepers = vec![self.channel.clone()];
                keepers.extend(files.map(|file| Arc::new(Channel::from(file))));
                let answer = match borrowed.map(segment, file, size, keepers) {
                    Ok(()) => ChannelMessage::Mapped { segment },
                    Err(error) => {
                        tracing::debug!(%error, "a segment of a lender cannot be mapped");
                        ChannelMessage::Refused { segment }
                    }
                };
                self.tell([answer]);
                if self.unsent.lock().len() > 2 * MAX_SEGMENTS {
                    return Err(LendingFailure::Protocol);
                }
            }
            _ => return Err(LendingFailure::Protocol),
        }
        Ok(())
    }

    /// Sends messages, those before them first. What the other side has no room for is sent with the next turn.
    fn tell(&self, messages: impl IntoIterator<Item = ChannelMessage>) {
        let mut unsent = self.unsent.lock();
        unsent.extend(messages);
        while let Some(message) = unsent.front() {
            match self.channel.send(&message.encode(), &[]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Sent, or the other side is gone.
                _ => drop(unsent.pop_front()),
            }
        }
    }

    /// Takes returned loans, and tells the borrower of segments that are given up. Returns the time until the next
    /// turn.
    fn sweep(&self) -> Duration {
        let (retired, idle) = {
            let mut loans = self.loans.lock();
            loans.take_returns();
            (loans.retire(), loans.is_empty())
        };
        self.tell(retired.into_iter().map(|segment| ChannelMessage::Retired { segment }));
        if idle && self.unsent.lock().is_empty() { IDLE_SWEEP } else { SWEEP }
    }

    /// Keeps what is borrowed only as long as there are payloads in it: the link has ended.
    fn end_borrowing(&self) {
        drop(self.borrowed.lock().take());
    }

    /// Ends the lending, but not what is on loan.
    fn fail(&self, failure: LendingFailure) {
        self.loans.lock().stop();
        self.failure.store(failure as u8 + 1, Ordering::Relaxed);
    }
}

impl LoanBook for ChannelLending {
    fn take_returns(&self) {
        self.loans.lock().take_returns();
    }

    fn is_tight(&self, of: &Lending, len: usize) -> bool {
        if !core::ptr::eq(&raw const *self.lending, of) {
            return false;
        }
        let mut loans = self.loans.lock();
        loans.take_returns();
        loans.is_full(len, of.share())
    }
}

/// A channel that a task waits for.
#[allow(unsafe_code, reason = "tokio wants a promise about the descriptor")]
pub(super) fn watched(channel: Arc<Channel>) -> io::Result<AsyncFd<Arc<Channel>>> {
    // SAFETY: a channel owns its descriptor, and neither closes nor replaces it while it exists.
    Ok(unsafe { AsyncFd::register(channel) }?)
}

/// The next message with its files; `None` at the end.
pub(super) async fn receive(
    channel: &AsyncFd<Arc<Channel>>,
) -> io::Result<Option<(ChannelMessage, Vec<OwnedFd>)>> {
    let mut buf = [0; MAX_MESSAGE];
    loop {
        let mut ready = channel.readable().await?;
        let Ok(received) = ready.try_io(|channel| channel.get_ref().receive(&mut buf)) else { continue };
        let received = match received {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            received => received?,
        };
        if received.len == 0 {
            return Ok(None);
        }
        let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let message = ChannelMessage::decode(&Bytes::copy_from_slice(&buf[..received.len]))
            .map_err(|error| invalid(error.to_string()))?;
        if !message.takes_files(received.fds.len()) {
            return Err(invalid(format!("{message:?} with {} files", received.fds.len())));
        }
        return Ok(Some((message, received.fds)));
    }
}

/// Opens the channel: connects to the door of an acceptor, or takes what its opener has connected.
/// The other side belongs to the user of this process, or to one of `users`.
async fn open(
    terms: LendingTerms,
    ticket: Option<Ticket>,
    users: &[u32],
) -> Result<AsyncFd<Arc<Channel>>, LendingFailure> {
    let system = |error: io::Error| {
        tracing::debug!(%error, "a channel for shared memory cannot be opened");
        LendingFailure::System
    };
    let (channel, greeting) = match (terms.door, ticket) {
        (Some(door), _) => {
            let channel = loop {
                match Channel::connect(&name_of(door)) {
                    Ok(channel) => break channel,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        tokio::time::sleep(BUSY_PAUSE).await;
                    }
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                        return Err(LendingFailure::Unreachable);
                    }
                    Err(error) => return Err(system(error)),
                }
            };
            (channel, ChannelMessage::Hello(terms.theirs))
        }
        (None, Some(ticket)) => (ticket.channel().await?, ChannelMessage::Welcome(terms.theirs)),
        (None, None) => return Err(LendingFailure::Unreachable),
    };
    if !channel.is_of_this_user_or(users).map_err(system)? {
        return Err(LendingFailure::User);
    }
    channel.send(&greeting.encode(), &[]).map_err(system)?;
    let channel = watched(Arc::new(channel)).map_err(system)?;
    if terms.door.is_some() {
        match receive(&channel).await {
            Ok(Some((ChannelMessage::Welcome(secret), _))) if secret == terms.ours => {}
            Ok(Some(_)) => return Err(LendingFailure::Protocol),
            // It checks the user as well, and closes.
            Ok(None) | Err(_) => return Err(LendingFailure::Unreachable),
        }
    }
    Ok(channel)
}

/// Task of the channel of a link. It goes on after the link until the other side has dropped what it has borrowed.
/// `peer` names the other side in the log, `closed` ends when the link does, and the channel is open within `limit`. `set_lending` is called with the loans,
/// or with the reason for which there are none.
pub(crate) async fn run(
    lending: Arc<Lending>,
    peer: String,
    closed: impl Future<Output = ()> + Send + 'static,
    terms: LendingTerms,
    ticket: Option<Ticket>,
    limit: Duration,
    set_lending: impl FnOnce(Result<Arc<ChannelLending>, LendingFailure>) + Send,
) {
    let mut link: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = Some(Box::pin(closed));
    let opened = tokio::select! {
        opened = tokio::time::timeout(limit, open(terms, ticket, lending.users())) => opened,
        () = ended(&mut link) => return,
    };
    let channel = match opened.unwrap_or(Err(LendingFailure::TimedOut)) {
        Ok(channel) => channel,
        Err(failure) => {
            lending.note_failure(failure);
            tracing::debug!(peer, reason = failure.word(), "no shared memory with a peer");
            set_lending(Err(failure));
            return;
        }
    };
    let own = Arc::new(ChannelLending::new(lending.clone(), channel.get_ref().clone()));
    set_lending(Ok(own.clone()));
    lender::add(Arc::downgrade(&own) as Weak<dyn LoanBook>);
    tracing::debug!(peer, "shared memory with a peer");
    // Time of the next turn, once there was a loan.
    let (mut next, mut failed) = (None, false);
    let sooner = |next: Option<Duration>| {
        let at = clock::mono() + SWEEP;
        Some(next.map_or(at, |next| next.min(at)))
    };
    // Until the link ends, or the lending on it.
    let mut partner = Some(Partner::new(&lending, |lending| &lending.partners));
    loop {
        let failure = tokio::select! {
            received = receive(&channel) => match received {
                // After a failure nothing is lent; the end tells that nothing is on loan any more.
                Ok(Some(_)) if failed => None,
                Ok(Some((message, files))) => own.handle(message, files).err(),
                Ok(None) => break,
                Err(error) if is_end(&error) => break,
                Err(error) => {
                    tracing::debug!(%error, "a message of a channel for shared memory is refused");
                    let invalid = error.kind() == io::ErrorKind::InvalidData;
                    if !invalid {
                        // What is on loan stays so: the other side may read it.
                        tokio::time::sleep(SWEEP).await;
                    }
                    Some(if invalid { LendingFailure::Protocol } else { LendingFailure::System })
                }
            },
            () = own.begun.notified() => {
                next = sooner(next);
                None
            }
            () = tokio::time::sleep_until(clock::instant(next.unwrap_or_default())), if next.is_some() => {
                next = Some(clock::mono() + own.sweep());
                None
            }
            () = ended(&mut link) => {
                (link, partner) = (None, None);
                own.loans.lock().stop();
                own.end_borrowing();
                None
            }
        };
        if !own.unsent.lock().is_empty() {
            next = sooner(next);
        }
        if let Some(failure) = failure
            && !failed
        {
            (failed, partner) = (true, None);
            own.fail(failure);
            lending.note_failure(failure);
        }
    }
    drop(partner);
    // The other side has nothing on loan, or does not exist.
    own.loans.lock().end();
    if let Some(link) = link {
        own.fail(LendingFailure::Protocol);
        link.await;
        own.end_borrowing();
    }
}

/// Whether the other side is gone.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionReset | NotConnected)
}

/// Returns when a link is closed; never without one.
async fn ended(link: &mut Option<Pin<Box<dyn Future<Output = ()> + Send>>>) {
    match link {
        Some(link) => link.await,
        None => core::future::pending().await,
    }
}
