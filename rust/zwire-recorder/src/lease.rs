//! Thread of the lease: tells the store that this spooler runs, and looks whether another one has the lease.

use crate::{
    steps::{Sharing, Wanted},
    time::Clock,
};
use core::time::Duration;
use parking_lot::Mutex;
use std::{
    io,
    sync::{Arc, mpsc},
    thread::JoinHandle,
};
use zwire_spool::SpoolId;
use zwire_tier::{
    Store,
    lease::{Answer, Author, Event, Lease, PERIOD},
};

/// Longest pause: the start of a claimed epoch, and the end of the thread, are noticed within it.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) struct Keeper {
    store: Store,
    spool: SpoolId,
    author: Author,
    sharing: Arc<Sharing>,
    clock: Clock,
    /// Text of the last error of the store.
    problem: Option<String>,
}

/// Handle of the threads.
pub(crate) struct Kept {
    threads: Vec<JoinHandle<()>>,
    /// Ends the pause of the thread when it is dropped.
    wake: Mutex<Option<mpsc::Sender<()>>>,
}

impl Kept {
    /// Lets the thread give the lease back, and end.
    pub(crate) fn release(&self, sharing: &Sharing) {
        sharing.release();
        *self.wake.lock() = None;
    }

    /// Lets the thread end without giving the lease back: another spooler claims it once the beat stands still.
    pub(crate) fn abandon(&self, sharing: &Sharing) {
        sharing.abandon();
        *self.wake.lock() = None;
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Handle of threads; `wake` ends the pause of one of them.
    pub(crate) const fn new(threads: Vec<JoinHandle<()>>, wake: mpsc::Sender<()>) -> Self {
        Self { threads, wake: Mutex::new(Some(wake)) }
    }
}

impl Keeper {
    pub(crate) const fn new(
        store: Store,
        spool: SpoolId,
        author: Author,
        sharing: Arc<Sharing>,
        clock: Clock,
    ) -> Self {
        Self { store, spool, author, sharing, clock, problem: None }
    }

    /// Starts the thread.
    pub(crate) fn start(self) -> io::Result<Kept> {
        let (wake, woken) = mpsc::channel();
        let thread = std::thread::Builder::new().name("zwire-spool-lease".to_owned());
        let thread = thread.spawn(move || self.run(&woken))?;
        Ok(Kept::new(vec![thread], wake))
    }

    fn run(mut self, woken: &mpsc::Receiver<()>) {
        let base = loop {
            let found = self.store.epoch(&self.spool);
            if let Some(epoch) = self.note(found) {
                break epoch;
            }
            if self.sharing.is_released() || self.sharing.is_abandoned() {
                return;
            }
            self.rest(woken, PERIOD);
        };
        let mut lease = Lease::new(self.author.clone(), base, self.clock.now().mono);
        loop {
            let now = self.clock.now().mono;
            if self.sharing.is_abandoned() {
                return;
            }
            if self.sharing.is_released() {
                lease.release(now);
            }
            lease.hesitate(!self.sharing.is_connected());
            if self.sharing.is_giving_up() {
                lease.give_up(now);
            }
            if let Some((epoch, offsets)) = self.sharing.take_offer() {
                lease.start(epoch, offsets);
            }
            if let Some(request) = lease.next(now) {
                let answer = self.store.lease(&self.spool, &request);
                let answer = self.note(answer).unwrap_or(Answer::Failed);
                let event = lease.answer(answer, self.clock.now().mono);
                self.sharing.note_holder(lease.epoch(), lease.holder());
                self.tell(event);
                continue;
            }
            if lease.is_ended() {
                return;
            }
            let pause = lease.due().map_or(LOOK, |due| due.saturating_sub(now)).min(LOOK);
            self.rest(woken, pause);
        }
    }

    fn rest(&self, woken: &mpsc::Receiver<()>, pause: Duration) {
        if woken.recv_timeout(pause) == Err(mpsc::RecvTimeoutError::Disconnected) {
            // Dropped without a call of `release`: the process goes on without this recorder.
            self.sharing.release();
        }
    }

    fn tell(&self, event: Option<Event>) {
        let host = &self.sharing.turns.host;
        match event {
            Some(Event::Claimed { epoch, floors }) => {
                tracing::info!("{host} has claimed the lease of the spool, epoch {epoch}");
                self.sharing.want(Wanted::Claimed { epoch, floors });
            }
            Some(Event::Holding(epoch)) => self.sharing.want(Wanted::Holding { epoch }),
            Some(Event::Lost { epoch, author }) => {
                tracing::warn!(
                    "{host} has lost the lease of the spool to {}, epoch {epoch}, and stands by",
                    author.host
                );
                self.sharing.want(Wanted::Standby);
            }
            Some(Event::GivenUp(epoch)) => {
                tracing::warn!(
                    "{host} could not begin to write the spool, has given its lease back, epoch {epoch}, and stands by"
                );
                self.sharing.want(Wanted::Standby);
            }
            None => {}
        }
    }

    /// Logs an error of the store when it changes.
    fn note<T>(&mut self, result: zwire_spool::Result<T>) -> Option<T> {
        match result {
            Ok(value) => {
                if self.problem.take().is_some() {
                    tracing::info!("the store of the lease answers again");
                }
                Some(value)
            }
            Err(error) => {
                let text = error.to_string();
                if self.problem.is_none() {
                    tracing::warn!("the lease of the spool: {text}");
                }
                self.problem = Some(text);
                None
            }
        }
    }
}
