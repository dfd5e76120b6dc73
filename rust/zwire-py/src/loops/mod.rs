//! Callbacks, event loops and everything else that waits for the engine or for Python.

pub(crate) mod calling;
pub(crate) mod ending;
pub(crate) mod inbox;
pub(crate) mod interrupt;
pub(crate) mod once;
pub(crate) mod pending;
pub(crate) mod turn;
pub(crate) mod waking;
