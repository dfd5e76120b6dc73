//! [`ReturnRing`] and [`Returns`]: numbers of chunks that a borrower has finished with, without a call of the system.

use crate::mapping::{Mapping, READ_WRITE, SegmentError};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use rustix::{
    fd::{BorrowedFd, OwnedFd},
    fs::SealFlags,
};
use std::io;

/// Seals of a ring: both sides write to it, and none changes its size.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// An entry that is not written yet; others are a number plus one.
const EMPTY: u32 = 0;

/// The words of a ring, which two processes write to.
struct Words(Mapping);

impl Words {
    fn get(&self, at: usize) -> &AtomicU32 {
        let count = self.0.size() / size_of::<AtomicU32>();
        // SAFETY: the word is inside of the mapping, which is aligned to pages, cannot be truncated, and lives
        // as long as `self`. Both processes access it by atomic operations only.
        unsafe { &*self.0.start().as_ptr().cast::<AtomicU32>().add(at % count) }
    }
}

/// The side of the lender: takes the numbers.
///
/// What the borrower writes is not trusted: the lender looks each number up among the loans of this borrower, so that
/// a wrong one can only end another loan of the same borrower.
pub struct ReturnRing {
    words: Words,
    next: usize,
}

impl ReturnRing {
    /// A ring with room for `loans` numbers, which the lender has on loan at most at the same time.
    ///
    /// # Errors
    /// The system has no memory or no descriptors.
    pub fn create(loans: usize) -> io::Result<Self> {
        let len = loans.checked_mul(size_of::<AtomicU32>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { words: Words(Mapping::create(len, SEALS)?), next: 0 })
    }

    /// The descriptor to pass to the borrower.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.words.0.fd()
    }

    /// Size of the file in bytes, to be told to the borrower.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.words.0.size()
    }

    /// The next number that the borrower has returned.
    pub fn take(&mut self) -> Option<u32> {
        let found = self.words.get(self.next).swap(EMPTY, Ordering::Acquire);
        let number = found.checked_sub(1)?;
        self.next = self.next.wrapping_add(1);
        Some(number)
    }
}

/// The side of the borrower: returns numbers, from any thread.
pub struct Returns {
    words: Words,
    next: AtomicUsize,
}

impl Returns {
    /// Maps the ring of a lender that has `size` bytes according to it.
    ///
    /// # Errors
    /// The file has another size, or can be truncated.
    pub fn open(fd: OwnedFd, size: u64) -> Result<Self, SegmentError> {
        let mapping = Mapping::open(fd, size, SEALS, READ_WRITE)?;
        Ok(Self { words: Words(mapping), next: AtomicUsize::new(0) })
    }

    /// Tells the lender that the loan with this number is over.
    ///
    /// There is always room, because a lender has no more loans at the same time than its ring has words. If it breaks
    /// that rule, it loses a number of its own.
    pub fn give(&self, number: u32) {
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        self.words.get(at).store(number.wrapping_add(1), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::memfd;
    use std::{collections::HashSet, sync::Arc};

    fn pair(loans: usize) -> (ReturnRing, Returns) {
        let ring = ReturnRing::create(loans).unwrap();
        let returns = Returns::open(ring.fd().try_clone_to_owned().unwrap(), ring.size() as u64).unwrap();
        (ring, returns)
    }

    #[test]
    fn numbers_come_in_order_also_around_the_end() {
        let (mut ring, returns) = pair(1024);
        assert_eq!(ring.take(), None);
        for round in 0..5_000u32 {
            returns.give(round);
            returns.give(round + 7);
            assert_eq!((ring.take(), ring.take(), ring.take()), (Some(round), Some(round + 7), None));
        }
    }

    #[test]
    fn each_number_of_many_threads_comes_once() {
        const LOANS: u32 = 1024;
        let (mut ring, returns) = pair(LOANS as usize);
        let returns = Arc::new(returns);
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let returns = returns.clone();
                std::thread::spawn(move || (0..LOANS / 4).for_each(|n| returns.give(thread * LOANS / 4 + n)))
            })
            .collect();
        let mut found = HashSet::new();
        while found.len() < LOANS as usize {
            if let Some(number) = ring.take() {
                assert!(found.insert(number), "{number} came twice");
            }
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(ring.take(), None);
    }

    #[test]
    fn what_a_borrower_scribbles_is_only_numbers() {
        let (mut ring, returns) = pair(1024);
        for at in 0..3000 {
            returns.words.get(at * 7).store(u32::MAX, Ordering::Relaxed);
        }
        let found: Vec<_> = core::iter::from_fn(|| ring.take()).collect();
        assert!(found.len() <= 1024 && found.iter().all(|number| *number == u32::MAX - 1));
    }

    #[test]
    fn rings_that_could_shrink_are_refused() {
        let fd = memfd(4096).unwrap();
        assert!(matches!(Returns::open(fd, 4096), Err(SegmentError::Seals { .. })));
        let ring = ReturnRing::create(1).unwrap();
        for said in [0, 4095, 8192] {
            let fd = ring.fd().try_clone_to_owned().unwrap();
            assert!(matches!(Returns::open(fd, said), Err(SegmentError::Size { .. })));
        }
    }
}
