//! [`Call`]: a command that a thread of Python gives to the engine; [`Turn`]: one of an event loop, and the number of
//! items after which a task of it lets others run.

use crate::loops::interrupt::Interrupt;
use core::sync::atomic::{AtomicUsize, Ordering};
use parking_lot::Mutex;
use pyo3::prelude::*;
use zwire_engine::{Caller, Deferred, Error, Patience};

/// Argument of commands that must not wait, because they run in the thread of an event loop. Keeps the waits
/// that they leave to the loop.
#[pyclass(module = "zwire._zwire", frozen)]
#[derive(Default)]
pub(crate) struct Turn(Mutex<Outcome>);

/// Items and messages after which a task lets other tasks of its event loop run: one that always finds some, or room
/// for more, is suspended nowhere else.
const MOST: usize = 256;

/// Items and messages that are left of [`MOST`]. Loops of several threads share the count: a thread keeps the GIL for
/// milliseconds, which are many turns, so that each of them sees its end.
static LEFT: AtomicUsize = AtomicUsize::new(MOST);

/// Counts items or messages of event loops.
#[pyfunction]
pub(crate) fn spend(count: usize) {
    LEFT.store(LEFT.load(Ordering::Relaxed).saturating_sub(count), Ordering::Relaxed);
}

/// Whether a task has to let other tasks run before its next item or message.
pub(crate) fn is_over() -> bool {
    LEFT.load(Ordering::Relaxed) == 0
}

/// As [`is_over`]; the caller lets other tasks run, and the count begins anew.
#[pyfunction]
pub(crate) fn end_turn() -> bool {
    let over = is_over();
    if over {
        LEFT.store(MOST, Ordering::Relaxed);
    }
    over
}

/// Work that the command of a turn has left.
#[derive(Default)]
pub(crate) struct Outcome {
    /// Room to be waited for before the next command.
    pub(crate) room: Deferred,
    /// Set if the command would have had to wait before it could begin, and did nothing.
    pub(crate) refused: bool,
}

impl Turn {
    /// Takes what the command has left; `None` if it is done.
    pub(crate) fn take(&self) -> Option<Outcome> {
        let mut outcome = self.0.lock();
        (outcome.refused || !outcome.room.is_empty()).then(|| core::mem::take(&mut *outcome))
    }
}

/// Command given by a thread of Python. Begins with the interpreter lock, because releasing and taking it costs
/// more than most publications; the lock is released only if something has to be written, notified or waited for.
pub(crate) struct Call<'py> {
    py: Python<'py>,
    interrupt: Interrupt,
    turn: Option<&'py Turn>,
}

impl<'py> Call<'py> {
    pub(crate) fn new(py: Python<'py>, turn: Option<&'py Turn>) -> Self {
        Self { py, interrupt: Interrupt::default(), turn }
    }

    /// Raises the error of the command, or the exception that ended its wait.
    pub(crate) fn end<R>(self, result: Result<R, Error>) -> PyResult<R> {
        if let (Err(Error::WouldBlock), Some(turn)) = (&result, self.turn) {
            turn.0.lock().refused = true;
        }
        self.interrupt.end(self.py, result)
    }
}

impl Caller for Call<'_> {
    fn aside<R: Send>(&mut self, work: impl FnOnce(&mut Patience<'_>) -> R + Send) -> R {
        let Self { py, interrupt, turn } = self;
        match *turn {
            None => py.detach(|| work(&mut Patience::Block(&mut || interrupt.check()))),
            Some(turn) => py.detach(|| work(&mut Patience::Defer(&mut turn.0.lock().room))),
        }
    }
}
