//! Tests of [`Queue`].

use super::*;
use std::time::Instant;

impl Weigh for u32 {
    fn weight(&self) -> usize {
        8
    }
}

fn waiting(messages: usize, deadline_ms: u64) -> Arc<Queue<u32>> {
    let overflow = Overflow::Wait { deadline: Duration::from_millis(deadline_ms) };
    Queue::new(Bounds { messages, bytes: 1 << 20, overflow })
}

#[tokio::test]
async fn a_queue_that_holds_drops_nothing() {
    let queue = Queue::new(Bounds { messages: 4, bytes: 1 << 20, overflow: Overflow::Hold });
    assert_eq!(queue.push_all(0..4), Pushed::Stored);
    assert_eq!(queue.push_all(4..9), Pushed::Over);
    assert_eq!(queue.push(9).0, Pushed::Over);
    let waits = tokio::time::timeout(Duration::from_millis(50), queue.wait_space()).await;
    assert!(waits.is_err(), "for as long as it takes");
    let mut out = Vec::new();
    queue.drain_into(&mut out, 100);
    assert_eq!(out, (0..10).collect::<Vec<u32>>());
    queue.wait_space().await;
    assert_eq!(queue.dropped(), 0);
    queue.close();
    assert_eq!(queue.push_all(0..1), Pushed::Closed);
}

#[test]
fn taking_all_leaves_an_empty_queue_that_goes_on() {
    let q = waiting(4, 1_000);
    for round in 0..3 {
        for item in 0..4 {
            q.push(item);
        }
        let taken = q.take_many(10, 1 << 20, 100);
        assert_eq!(taken.iter().copied().collect::<Vec<_>>(), [0, 1, 2, 3], "round {round}");
        assert_eq!((q.len(), q.inner.lock().bytes), (0, 0));
        q.give_back(taken);
    }
    assert!(q.take_many(10, 1 << 20, 100).is_empty());
}

#[test]
fn taking_some_leaves_the_others() {
    let q = waiting(4, 1_000);
    for item in 0..4 {
        q.push(item);
    }
    assert_eq!(q.take_many(2, 1 << 20, 100), [0, 1]);
    assert_eq!(q.len(), 2);
    assert_eq!(q.take_many(3, 15, 100), [2], "eight bytes each");
    q.push(4);
    assert_eq!(q.take_many(3, 0, 100), [3], "one, however large it is");
    q.push(5);
    assert_eq!(q.take_many(3, 1 << 20, 8), [4], "so large that it comes alone");
    assert!(q.take_many(0, 1 << 20, 8).is_empty());
    assert_eq!(q.take_many(1, 1 << 20, 8), [5]);
    assert_eq!(q.inner.lock().bytes, 0);
}

/// An item that notes whether others follow.
impl Weigh for (u32, bool) {
    fn weight(&self) -> usize {
        8
    }

    fn set_followed(&mut self) {
        self.1 = true;
    }
}

#[test]
fn an_item_notes_that_others_are_taken_with_it_or_wait() {
    let overflow = Overflow::Hold;
    let q: Arc<Queue<(u32, bool)>> = Queue::new(Bounds { messages: 10, bytes: 1 << 20, overflow });
    assert_eq!(q.push_all((0..7).map(|n| (n, false))), Pushed::Stored);
    assert_eq!(q.try_recv().unwrap(), Some((0, true)));
    assert_eq!(q.take_many(2, 1 << 20, 100), [(1, true), (2, true)]);
    assert_eq!(q.take_many(10, 1 << 20, 100), [(3, true), (4, true), (5, true), (6, false)]);
    q.push((7, false));
    let mut out = Vec::new();
    q.push((8, false));
    q.drain_into(&mut out, 10);
    assert_eq!(out, [(7, true), (8, false)]);
}

/// An item with a payload that another process has taken back, or not.
#[derive(Debug, PartialEq, Eq)]
struct Lent {
    valid: bool,
    secured: bool,
}

impl Weigh for Lent {
    fn weight(&self) -> usize {
        8
    }

    fn secure(&mut self) -> bool {
        self.secured = self.valid;
        self.valid
    }
}

#[test]
fn items_are_secured_if_they_are_taken_together_and_not_one_by_one() {
    let lent = |valid| Lent { valid, secured: false };
    let overflow = Overflow::DropNewest;
    let q = Queue::new(Bounds { messages: 10, bytes: 1 << 20, overflow });
    let push = || [true, false, true].map(|valid| q.push(lent(valid)).0);
    push();
    assert_eq!(q.take_singles(10, 1 << 20, 100), [lent(true), lent(false), lent(true)]);
    push();
    assert_eq!(q.try_recv(), Ok(Some(lent(true))));
    assert_eq!(q.take_many(10, 1 << 20, 100), [Lent { valid: true, secured: true }]);
    assert!(q.is_empty());
}

#[test]
fn a_stalled_consumer_costs_one_deadline() {
    let q = waiting(2, 20);
    assert_eq!(q.push(1).0, Pushed::Stored);
    assert_eq!(q.push(2).0, Pushed::Stored);
    assert_eq!(q.push(3).0, Pushed::Over);
    let start = Instant::now();
    q.wait_space_blocking();
    assert!(start.elapsed() >= Duration::from_millis(20));
    // Stalled now: items are dropped at once, and no producer waits again.
    assert_eq!(q.push(4).0, Pushed::Dropped);
    let start = Instant::now();
    q.wait_space_blocking();
    assert!(start.elapsed() < Duration::from_millis(10));
    assert_eq!(q.dropped(), 1);
    // After the consumer takes items: all stored ones are still there, and pushes are stored again.
    let mut out = Vec::new();
    assert_eq!(q.drain_into(&mut out, 10), 3);
    assert_eq!(out, [1, 2, 3]);
    assert_eq!(q.push(5).0, Pushed::Stored);
}

#[test]
fn a_slow_consumer_loses_nothing() {
    let q = waiting(4, 5_000);
    let producer = {
        let q = q.clone();
        std::thread::spawn(move || {
            for i in 0..1000 {
                let pushed = q.push(i).0;
                q.signal();
                if pushed == Pushed::Over {
                    q.wait_space_blocking();
                }
            }
            q.close();
        })
    };
    let mut got = Vec::new();
    while let Ok(item) = q.recv(Some(Duration::from_secs(5)), &mut || false) {
        got.push(item);
    }
    producer.join().unwrap();
    assert_eq!(got, (0..1000).collect::<Vec<_>>());
    assert_eq!(q.dropped(), 0);
}

#[test]
fn a_ring_keeps_the_newest() {
    let q = Queue::new(Bounds { messages: 2, bytes: 1 << 20, overflow: Overflow::DropOldest });
    for i in 0..5u32 {
        q.push(i);
    }
    let mut out = Vec::new();
    q.drain_into(&mut out, 10);
    assert_eq!(out, [3, 4]);
    assert_eq!(q.dropped(), 3);
}

#[test]
fn recv_ends_at_timeout_close_and_interrupt() {
    let q = waiting(2, 10);
    assert_eq!(q.recv(Some(Duration::from_millis(5)), &mut || false), Err(RecvError::Timeout));
    assert_eq!(q.recv(None, &mut || true), Err(RecvError::Interrupted));
    q.push(1);
    q.close();
    assert_eq!(q.recv(None, &mut || false), Ok(1));
    assert_eq!(q.recv(None, &mut || false), Err(RecvError::Closed));
    assert_eq!(q.push(2).0, Pushed::Closed);
}

#[tokio::test]
async fn tasks_wait_for_space_too() {
    let q = waiting(1, 5_000);
    q.push(1);
    assert_eq!(q.push(2).0, Pushed::Over);
    let waiter = {
        let q = q.clone();
        tokio::spawn(async move { q.wait_space().await })
    };
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(!waiter.is_finished());
    assert_eq!(q.try_recv(), Ok(Some(1)));
    tokio::time::timeout(Duration::from_secs(1), waiter).await.unwrap().unwrap();
}

/// An item with key, value and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item(&'static str, u32, usize);

impl Weigh for Item {
    fn weight(&self) -> usize {
        self.2
    }

    fn key(&self) -> Option<&str> {
        (!self.0.is_empty()).then_some(self.0)
    }
}

fn of(overflow: Overflow, messages: usize, bytes: usize) -> Arc<Queue<Item>> {
    Queue::new(Bounds { messages, bytes, overflow })
}

fn values(queue: &Queue<Item>) -> Vec<u32> {
    let mut out = Vec::new();
    queue.drain_into(&mut out, usize::MAX);
    assert_eq!(queue.inner.lock().bytes, 0);
    out.iter().map(|item| item.1).collect()
}

#[test]
fn whoever_drops_the_newest_keeps_the_oldest_and_never_waits() {
    let q = of(Overflow::DropNewest, 2, 100);
    let pushed: Vec<Pushed> = (0..4).map(|n| q.push(Item("", n, 1)).0).collect();
    assert_eq!(pushed, [Pushed::Stored, Pushed::Stored, Pushed::Dropped, Pushed::Dropped]);
    q.wait_space_blocking();
    assert_eq!((values(&q), q.dropped()), (vec![0, 1], 2));
    // A single item may be larger than the bound.
    assert_eq!(q.push(Item("", 7, 1_000)).0, Pushed::Stored);
    assert_eq!(q.push(Item("", 8, 1)).0, Pushed::Dropped);
    assert_eq!(values(&q), [7]);
}

#[test]
fn a_large_item_makes_as_many_small_ones_go_as_it_takes() {
    let q = of(Overflow::DropOldest, 1_000, 100);
    for n in 0..100 {
        q.push(Item("", n, 1));
    }
    for n in 100..103 {
        let (pushed, out) = q.push(Item("", n, 100));
        assert_eq!(pushed, Pushed::Dropped);
        assert_eq!(out.into_iter().count(), if n == 101 { 100 } else { 1 });
    }
    assert!(q.inner.lock().bytes <= 200, "the bound and one item");
    assert_eq!((q.dropped(), values(&q)), (102, vec![102]));
}

#[test]
fn the_latest_of_each_key_takes_the_place_of_the_one_before() {
    let q = of(Overflow::Latest, 3, 1_000);
    for (key, value, size) in [("a", 1, 10), ("b", 2, 10), ("a", 3, 50), ("", 4, 10), ("b", 5, 1)] {
        assert_eq!(q.push(Item(key, value, size)).0, Pushed::Stored);
    }
    assert_eq!((q.inner.lock().bytes, q.replaced(), q.dropped()), (61, 2, 0));
    // A fourth item: the first is dropped, and its key is new again.
    assert_eq!(q.push(Item("c", 6, 1)).0, Pushed::Dropped);
    assert_eq!(q.push(Item("a", 7, 1)).0, Pushed::Dropped);
    assert_eq!((q.dropped(), values(&q)), (2, vec![4, 6, 7]));
}

#[test]
fn places_of_keys_hold_whatever_was_taken_before() {
    let keys = ["a", "b", "c", "d", "e"];
    let q = of(Overflow::Latest, 5, 1_000);
    for round in 0..10 {
        for (n, key) in (0..).zip(keys) {
            q.push(Item(key, n, 1));
        }
        match round % 4 {
            0 => drop(q.try_recv()),
            1 => drop(q.take_many(2, 1_000, 1_000)),
            2 => q.give_back(q.take_many(100, 1_000, 1_000)),
            _ => drop(q.drain_into(&mut Vec::new(), 3)),
        }
        for (n, key) in (10..).zip(keys) {
            q.push(Item(key, n, 1));
        }
        let mut left = values(&q);
        left.sort_unstable();
        assert_eq!(left, [10, 11, 12, 13, 14], "round {round}");
        assert!(q.inner.lock().latest.as_ref().unwrap().is_empty());
    }
}

#[test]
fn the_rest_is_more_nothing_or_the_end() {
    let q = waiting(2, 10);
    assert_eq!(q.rest(), Rest::Nothing);
    q.push(1);
    q.close();
    assert_eq!(q.rest(), Rest::More);
    assert_eq!(q.try_recv(), Ok(Some(1)));
    assert_eq!(q.rest(), Rest::Ended);
}

#[test]
fn many_are_pushed_as_one_after_the_other() {
    for overflow in [Overflow::Wait { deadline: Duration::ZERO }, Overflow::Hold] {
        let [one, many] = [(); 2].map(|()| Queue::new(Bounds { messages: 3, bytes: 1_000, overflow }));
        for round in [vec![1, 2], vec![], vec![3, 4, 5]] {
            let each: Vec<Pushed> = round.iter().map(|n| one.push(Item("", *n, 10)).0).collect();
            let mut items = round.iter().map(|n| Item("", *n, 10)).collect();
            let pushed = many.push_many(&mut items, |_| panic!("nothing falls out"));
            assert_eq!(pushed, each.last().copied().unwrap_or(Pushed::Stored));
            assert!(items.is_empty());
            assert_eq!(one.stats(), many.stats());
        }
    }
}

#[test]
fn many_find_no_place_where_nobody_takes_and_none_where_nobody_is() {
    let bounds = Bounds { messages: 2, bytes: 1_000, overflow: Overflow::Wait { deadline: Duration::ZERO } };
    let queue = Queue::new(bounds);
    let push = |count| {
        let mut out = 0;
        let pushed = queue.push_many(&mut (0..count).map(|n| Item("", n, 1)).collect(), |_| out += 1);
        (pushed, out)
    };
    assert_eq!(push(3), (Pushed::Over, 0));
    queue.wait_space_blocking();
    assert_eq!(push(2), (Pushed::Dropped, 2));
    assert_eq!((queue.dropped(), queue.len()), (2, 3));
    queue.close();
    assert_eq!(push(2), (Pushed::Closed, 2));
}
