//! Bell of a thread that waits for work from several sides.

use core::time::Duration;
use parking_lot::{Condvar, Mutex};

/// Wakes one waiting thread. A ring while no thread waits ends the next wait at once.
#[derive(Default)]
pub struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    /// Wakes the thread.
    pub fn ring(&self) {
        *self.rung.lock() = true;
        self.changed.notify_one();
    }

    /// Waits for a ring, at most that long.
    pub fn wait(&self, longest: Duration) {
        let mut rung = self.rung.lock();
        if !*rung {
            self.changed.wait_for(&mut rung, longest);
        }
        *rung = false;
    }
}
