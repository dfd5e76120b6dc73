//! [`Deferred`]: what a command would have waited for, for callers who must not wait: event loops.

use crate::{
    error::Error,
    zenoh::{
        core::{Effects, Wait},
        shared::Shared,
    },
};
use core::{cell::RefCell, time::Duration};
use std::sync::Arc;
use tokio::runtime::Handle;

/// What a thread that must not wait has put off.
#[derive(Default)]
struct Turn {
    waits: Vec<(Wait, Duration)>,
    runtime: Option<Handle>,
    /// A command had to be waited for before anything of it was done.
    refused: bool,
}

thread_local! {
    static TURN: RefCell<Option<Turn>> = const { RefCell::new(None) };
}

/// Ends the turn of a thread, also when the command unwinds.
struct Ended;

impl Drop for Ended {
    fn drop(&mut self) {
        TURN.set(None);
    }
}

/// Room that is waited for after a command.
pub struct Deferred {
    waits: Vec<(Wait, Duration)>,
    runtime: Handle,
}

/// What came of a command that must not wait.
pub enum Turned {
    /// All of it is done.
    Done,
    /// It is done, and its caller should wait for room before the next one.
    Full(Deferred),
    /// Nothing of it is done: [`Error::WouldBlock`] was its answer, and a thread that may wait has to do it.
    Refused,
}

/// Runs commands in this thread without waiting for room.
pub fn without_waiting<R>(f: impl FnOnce() -> R) -> (R, Turned) {
    TURN.set(Some(Turn::default()));
    let ended = Ended;
    let result = f();
    let turn = TURN.take();
    drop(ended);
    let turned = match turn {
        Some(Turn { refused: true, .. }) => Turned::Refused,
        Some(Turn { waits, runtime: Some(runtime), .. }) => Turned::Full(Deferred { waits, runtime }),
        Some(Turn { runtime: None, .. }) | None => Turned::Done,
    };
    (result, turned)
}

/// Whether this thread must not wait. A command that can be put off whole is refused for it.
pub(crate) fn refuse() -> Result<(), Error> {
    TURN.with_borrow_mut(|turn| match turn {
        Some(turn) => {
            turn.refused = true;
            Err(Error::WouldBlock)
        }
        None => Ok(()),
    })
}

/// Takes the waits of a command, where its thread must not wait.
pub(crate) fn put_off(shared: &Shared, effects: &mut Effects) {
    if effects.waits.is_empty() {
        return;
    }
    TURN.with_borrow_mut(|turn| {
        if let Some(turn) = turn {
            let limit = shared.config.link.wait_before_close;
            turn.waits.extend(effects.waits.drain(..).map(|wait| (wait, limit)));
            turn.runtime.get_or_insert_with(|| shared.runtime.clone());
        }
    });
}

impl Deferred {
    /// Calls `done` when there is room, or nobody can wait for it any longer.
    pub fn wait(self, done: impl FnOnce() + Send + 'static) {
        self.runtime.spawn(async move {
            for (wait, limit) in self.waits {
                wait.wait(limit).await;
            }
            done();
        });
    }
}

impl Wait {
    async fn wait(self, limit: Duration) {
        match self {
            Self::Link(link, priority) => link.wait_space(priority, limit).await,
            Self::Samples(queue) => queue.wait_space().await,
            Self::Queries(queue) => queue.wait_space().await,
            Self::Replies(queue) => queue.wait_space().await,
            Self::Misses(queue) => queue.wait_space().await,
        }
    }
}

/// Wakes a waiter of an event loop; quick, and called from any thread.
pub type Waker = Arc<dyn Fn() + Send + Sync>;
