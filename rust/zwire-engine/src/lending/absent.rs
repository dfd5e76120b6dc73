//! Lending on systems without sealed memory: it is never offered.

use super::{LendingFailure, LendingStats, buffer::PayloadBuffer};
use crate::config::SharedMemory;
use bytes::Bytes;
use core::{convert::Infallible, pin::Pin, time::Duration};
use std::sync::Arc;
use zwire_proto::lending::{LendingOffer, LendingTerms, LoanDescription};

/// Never made.
pub(crate) type DoorTask = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(crate) struct Lending {
    pub(crate) stats: LendingStats,
}

/// Never made.
pub(crate) struct ChannelLending(Infallible);

/// Never made.
pub(crate) struct Ticket(Infallible);

impl Lending {
    pub(crate) fn new(_: &SharedMemory, _: bool) -> Arc<Self> {
        Arc::new(Self { stats: LendingStats::default() })
    }

    pub(crate) const fn is_enabled(&self) -> bool {
        false
    }

    pub(crate) fn offer_to_acceptor() -> Option<LendingOffer> {
        None
    }

    pub(crate) const fn threshold(&self) -> usize {
        usize::MAX
    }

    pub(crate) fn ticket(&self, _: impl FnOnce(DoorTask)) -> Option<Ticket> {
        None
    }

    pub(crate) fn is_tight(&self, _: usize) -> bool {
        false
    }

    pub(crate) fn wait_room(&self, _: usize) {}

    pub(crate) fn place_bytes(&self, bytes: Bytes) -> Bytes {
        bytes
    }

    pub(crate) fn copy_bytes(&self, bytes: &[u8]) -> Bytes {
        Bytes::copy_from_slice(bytes)
    }

    pub(crate) fn buffer(&self, len: usize) -> Option<PayloadBuffer> {
        PayloadBuffer::private(len)
    }
}

impl ChannelLending {
    pub(crate) fn lend(
        &self,
        _: &[Bytes],
        _: usize,
        _: impl FnMut(&Bytes, Option<LoanDescription>),
    ) -> Option<bool> {
        match self.0 {}
    }

    pub(crate) fn resolve(&self, _: &LoanDescription) -> Option<Bytes> {
        match self.0 {}
    }
}

impl Ticket {
    pub(crate) fn offer(&self) -> LendingOffer {
        match self.0 {}
    }
}

pub(crate) async fn run(
    _: Arc<Lending>,
    _: String,
    _: impl Future<Output = ()> + Send + 'static,
    _: LendingTerms,
    _: Option<Ticket>,
    _: Duration,
    _: impl FnOnce(Result<Arc<ChannelLending>, LendingFailure>) + Send,
) {
}
