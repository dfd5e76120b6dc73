//! [`Notifier`]: a descriptor that is readable while there is something to take out of a queue.

use parking_lot::Mutex;
use std::{io, sync::Arc};
use zwire_engine::{Queue, queue::Weigh};

#[cfg(unix)]
type Stream = std::os::unix::net::UnixStream;

/// Two ends of a local connection; what the queue signals is one byte in it, however often.
pub(crate) struct Notifier {
    #[cfg(unix)]
    read: Stream,
    #[cfg(unix)]
    write: Stream,
    signalled: Mutex<bool>,
}

#[cfg(unix)]
impl Notifier {
    /// Watches a queue, whose only waker it becomes.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub(crate) fn watch<T: Weigh + Send + 'static>(queue: &Queue<T>) -> io::Result<Arc<Self>> {
        let (read, write) = Stream::pair()?;
        read.set_nonblocking(true)?;
        write.set_nonblocking(true)?;
        let notifier = Arc::new(Self { read, write, signalled: Mutex::new(false) });
        let weak = Arc::downgrade(&notifier);
        queue.set_waker(Some(Arc::new(move || {
            if let Some(notifier) = weak.upgrade() {
                notifier.signal();
            }
        })));
        Ok(notifier)
    }

    /// It is readable.
    pub(crate) fn signal(&self) {
        let mut signalled = self.signalled.lock();
        if !*signalled {
            // There is room for one byte, since there is none in it.
            *signalled = io::Write::write(&mut &self.write, &[1]).is_ok();
        }
    }

    /// The descriptor.
    pub(crate) fn descriptor(&self) -> i32 {
        std::os::fd::AsRawFd::as_raw_fd(&self.read)
    }

    /// It is not readable any more, until there is something new.
    pub(crate) fn hush(&self) {
        let mut signalled = self.signalled.lock();
        if core::mem::take(&mut *signalled) {
            // The byte is there.
            let _ = io::Read::read(&mut &self.read, &mut [0]);
        }
    }
}

#[cfg(not(unix))]
impl Notifier {
    /// Watches a queue.
    ///
    /// # Errors
    /// Always: an event loop waits for sockets of another kind here.
    pub(crate) fn watch<T: Weigh + Send + 'static>(_queue: &Queue<T>) -> io::Result<Arc<Self>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The descriptor.
    pub(crate) fn descriptor(&self) -> i32 {
        -1
    }

    /// It is readable.
    pub(crate) fn signal(&self) {}

    /// It is not readable any more.
    pub(crate) fn hush(&self) {}
}
