//! [`Deferred`]: waits of a command, put off for callers that must not block, such as event loops.

use crate::{
    error::Error,
    zenoh::effects::{Effects, Wait},
};
use core::{cell::RefCell, time::Duration};
use tokio::runtime::Handle;

/// Waits that a thread which must not block has put off.
#[derive(Default)]
struct DeferredTurn {
    waits: Vec<(Wait, Duration)>,
    runtime: Option<Handle>,
    /// Set if a command would have had to wait before it could begin.
    refused: bool,
}

thread_local! {
    static TURN: RefCell<Option<DeferredTurn>> = const { RefCell::new(None) };
}

/// Guard that ends the turn of a thread, also when the command unwinds.
struct Ended;

impl Drop for Ended {
    fn drop(&mut self) {
        TURN.set(None);
    }
}

/// Room to be waited for after a command.
pub struct Deferred {
    waits: Vec<(Wait, Duration)>,
    runtime: Handle,
}

/// Outcome of a command that must not block.
pub enum Turned {
    /// The command is done.
    Done,
    /// The command is done, and its caller should wait for room before the next one.
    Full(Deferred),
    /// The command has not begun: it returned [`Error::WouldBlock`] and has to run in a thread that may
    /// wait.
    Refused,
}

/// Runs commands in this thread without waiting for room.
pub fn without_waiting<R>(f: impl FnOnce() -> R) -> (R, Turned) {
    TURN.set(Some(DeferredTurn::default()));
    let ended = Ended;
    let result = f();
    let turn = TURN.take();
    drop(ended);
    let turned = match turn {
        Some(DeferredTurn { refused: true, .. }) => Turned::Refused,
        Some(DeferredTurn { waits, runtime: Some(runtime), .. }) => Turned::Full(Deferred { waits, runtime }),
        Some(DeferredTurn { runtime: None, .. }) | None => Turned::Done,
    };
    (result, turned)
}

/// Returns [`Error::WouldBlock`] if this thread must not wait. For commands that can be put off as a
/// whole.
pub(crate) fn refuse() -> Result<(), Error> {
    TURN.with_borrow_mut(|turn| match turn {
        Some(turn) => {
            turn.refused = true;
            Err(Error::WouldBlock)
        }
        None => Ok(()),
    })
}

/// Moves the waits of a command to the turn of its thread, if that thread must not wait.
pub(crate) fn put_off(runtime: &Handle, limit: Duration, effects: &mut Effects) {
    if effects.waits.is_empty() {
        return;
    }
    TURN.with_borrow_mut(|turn| {
        if let Some(turn) = turn {
            turn.waits.extend(effects.waits.drain(..).map(|wait| (wait, limit)));
            turn.runtime.get_or_insert_with(|| runtime.clone());
        }
    });
}

impl Deferred {
    /// Calls `done` after each wait: for room, up to its time limit, or until the link or queue has
    /// ended.
    pub fn wait(self, done: impl FnOnce() + Send + 'static) {
        self.runtime.spawn(async move {
            for (wait, limit) in self.waits {
                wait.wait(limit).await;
            }
            done();
        });
    }
}
