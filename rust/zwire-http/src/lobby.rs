//! Connections without a request in progress: these make room for new ones.

use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::Notify;

/// Connections without a request, the one that waits for longest first.
#[derive(Default)]
pub(crate) struct Lobby(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    next: u64,
    seats: BTreeMap<u64, Arc<Notify>>,
}

impl Lobby {
    /// A new connection, which has not sent a request.
    pub(crate) fn enter(self: &Arc<Self>) -> Seat {
        let seat = Seat { lobby: self.clone(), evicted: Arc::default(), place: Mutex::default() };
        seat.wait();
        seat
    }

    /// Closes the connection that is without a request for longest; false if all have one.
    pub(crate) fn evict(&self) -> bool {
        let first = self.0.lock().seats.pop_first();
        first.is_some_and(|(_, evicted)| {
            evicted.notify_one();
            true
        })
    }
}

/// Connection as the lobby knows it.
pub(crate) struct Seat {
    lobby: Arc<Lobby>,
    evicted: Arc<Notify>,
    /// Number in the lobby; `None` with a request in progress.
    place: Mutex<Option<u64>>,
}

impl Seat {
    /// Completed when the connection has to make room.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// Marks the connection as one with a request, until the guard is dropped.
    pub(crate) fn occupy(self: &Arc<Self>) -> Busy {
        if let Some(place) = self.place.lock().take() {
            self.lobby.0.lock().seats.remove(&place);
        }
        Busy(self.clone())
    }

    fn wait(&self) {
        let mut waiting = self.lobby.0.lock();
        let place = waiting.next;
        waiting.next += 1;
        waiting.seats.insert(place, self.evicted.clone());
        drop(waiting);
        *self.place.lock() = Some(place);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(place) = self.place.get_mut().take() {
            self.lobby.0.lock().seats.remove(&place);
        }
    }
}

/// Guard of a request in progress.
pub(crate) struct Busy(Arc<Seat>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::future::Future as _;
    use core::task::{Context, Waker};

    fn is_evicted(seat: &Seat) -> bool {
        let mut wait = core::pin::pin!(seat.evicted());
        wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn the_connection_that_waits_for_longest_makes_room() {
        let lobby = Arc::<Lobby>::default();
        let [first, second, third] = [(); 3].map(|()| Arc::new(lobby.enter()));
        let busy = first.occupy();
        assert!(lobby.evict());
        assert!(is_evicted(&second) && !is_evicted(&first) && !is_evicted(&third));
        drop(busy);
        drop(third);
        assert!(lobby.evict(), "the first waits again");
        assert!(is_evicted(&first));
        assert!(!lobby.evict());
    }
}
