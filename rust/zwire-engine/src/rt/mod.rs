//! Runtime of the process, clocks, queues to the application, threads of its callbacks, and waits with deadlines.

pub(crate) mod bell;
pub mod callbacks;
pub mod clock;
pub(crate) mod descriptors;
pub(crate) mod memory;
pub mod pool;
pub mod queue;
pub mod runtime;
pub(crate) mod timer;
pub(crate) mod watch;
