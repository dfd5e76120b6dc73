//! [`Turns`]: bounds the calls of the authenticator, so that peers that guess passwords leave others their turn.

use core::net::{IpAddr, Ipv6Addr};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Most calls at once. More would compete for the processors and, in Python, for the interpreter, and each would
/// take longer.
const CALLS: usize = 32;

/// Most calls at once for one address: an eighth, so that a few addresses with many peers leave others their turn.
const CALLS_OF_ADDRESS: usize = 4;

/// Bound of the authenticator calls of one socket. Handshakes of an address wait for each other, and then for the
/// other addresses in the order of their arrival.
#[derive(Debug)]
pub struct Turns {
    all: Arc<Semaphore>,
    /// Calls of the addresses that have handshakes now.
    each: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
}

impl Default for Turns {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(CALLS)), each: Mutex::default() }
    }
}

/// Permission for one call, until it is dropped.
pub(super) struct Turn {
    _each: Option<OwnedSemaphorePermit>,
    _all: Option<OwnedSemaphorePermit>,
}

impl Turns {
    /// Waits for the turn of a peer.
    pub(super) async fn wait(&self, address: IpAddr) -> Turn {
        let each = {
            let mut each = self.each.lock();
            // An entry that nothing else holds has neither calls nor waiters.
            each.retain(|_, calls| Arc::strong_count(calls) > 1);
            let new = || Arc::new(Semaphore::new(CALLS_OF_ADDRESS));
            each.entry(network_of(address)).or_insert_with(new).clone()
        };
        // Neither semaphore is ever closed.
        let each = each.acquire_owned().await.ok();
        Turn { _each: each, _all: self.all.clone().acquire_owned().await.ok() }
    }
}

/// The part of an address that its owner cannot choose: a host has 2^64 addresses of IPv6.
pub(super) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::{future::Future, pin::pin, task::Poll};

    fn at(host: u8) -> IpAddr {
        [10, 0, 0, host].into()
    }

    /// Runs a future once.
    async fn now<F: Future>(future: core::pin::Pin<&mut F>) -> Option<F::Output> {
        let mut future = Some(future);
        core::future::poll_fn(|context| {
            let Some(future) = future.take() else { return Poll::Ready(None) };
            match future.poll(context) {
                Poll::Ready(output) => Poll::Ready(Some(output)),
                Poll::Pending => Poll::Ready(None),
            }
        })
        .await
    }

    #[tokio::test]
    async fn one_address_does_not_keep_others_waiting() {
        let turns = Turns::default();
        let mut calls = Vec::new();
        for _ in 0..CALLS_OF_ADDRESS {
            calls.push(now(pin!(turns.wait(at(1)))).await.expect("it is within the bound"));
        }
        let mut next = pin!(turns.wait(at(1)));
        assert!(now(next.as_mut()).await.is_none());
        assert!(now(pin!(turns.wait(at(2)))).await.is_some());
        drop(calls.pop());
        assert!(now(next).await.is_some());
    }

    #[tokio::test]
    async fn all_together_are_bounded() {
        let turns = Turns::default();
        let mut calls = Vec::new();
        for number in 0..CALLS {
            let address = at(u8::try_from(number).unwrap());
            calls.push(now(pin!(turns.wait(address))).await.expect("it is within the bound"));
        }
        let mut next = pin!(turns.wait(at(200)));
        assert!(now(next.as_mut()).await.is_none());
        drop(calls.pop());
        assert!(now(next).await.is_some());
        drop(calls);
        drop(turns.wait(at(201)).await);
        assert!(turns.each.lock().len() <= 1, "addresses without handshakes are forgotten");
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let of = |text: &str| network_of(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
