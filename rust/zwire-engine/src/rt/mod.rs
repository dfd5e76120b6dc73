//! Runtime of the process, clocks, queues to the application, and waits with deadlines.

pub mod clock;
pub mod queue;
pub mod runtime;
pub(crate) mod timer;
pub(crate) mod watch;
