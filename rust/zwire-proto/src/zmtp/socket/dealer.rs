//! [`Dealer`]: round-robin over connections (`zmtp` 12).

use super::PeerKey;

/// Reason why a message was not dealt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undealt {
    /// No connection is open.
    Nobody,
    /// No connection has room.
    Full,
}

/// The connections of a DEALER, served round-robin: each message goes to the next one with room.
#[derive(Debug, Default)]
pub struct Dealer {
    keys: Vec<PeerKey>,
    /// Index of the next connection.
    next: usize,
}

impl Dealer {
    /// Adds a connection, or an endpoint with a queue that exists before the connection.
    pub fn open(&mut self, key: PeerKey) {
        if !self.keys.contains(&key) {
            self.keys.push(key);
        }
    }

    /// Removes a connection.
    pub fn close(&mut self, key: PeerKey) {
        if let Some(at) = self.keys.iter().position(|other| *other == key) {
            self.keys.remove(at);
            if at < self.next {
                self.next -= 1;
            }
        }
    }

    /// Offers `message` to one connection after the other until one accepts it; the offer returns the
    /// message if the connection has no room.
    ///
    /// # Errors
    /// The message, and the reason why no connection accepted it.
    pub fn deal<M>(
        &mut self,
        mut message: M,
        mut offer: impl FnMut(PeerKey, M) -> Result<(), M>,
    ) -> Result<PeerKey, (M, Undealt)> {
        let count = self.keys.len();
        for turn in 0..count {
            let at = (self.next + turn) % count;
            let key = self.keys[at];
            match offer(key, message) {
                Ok(()) => {
                    self.next = (at + 1) % count;
                    return Ok(key);
                }
                Err(back) => message = back,
            }
        }
        Err((message, if count == 0 { Undealt::Nobody } else { Undealt::Full }))
    }

    /// The connection, if exactly one is open: no turns are needed then.
    #[must_use]
    pub fn only(&self) -> Option<PeerKey> {
        if let [key] = self.keys[..] { Some(key) } else { None }
    }

    /// Number of connections.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether no connection is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dealer(keys: &[PeerKey]) -> Dealer {
        let mut dealer = Dealer::default();
        keys.iter().for_each(|key| dealer.open(*key));
        dealer
    }

    fn deal(dealer: &mut Dealer, full: &[PeerKey]) -> Result<PeerKey, Undealt> {
        let offer = |key: PeerKey, message| if full.contains(&key) { Err(message) } else { Ok(()) };
        dealer.deal("message", offer).map_err(|(message, why)| {
            assert_eq!(message, "message");
            why
        })
    }

    #[test]
    fn messages_go_round() {
        let mut d = dealer(&[1, 2, 3]);
        let got: Vec<_> = (0..7).map(|_| deal(&mut d, &[]).unwrap()).collect();
        assert_eq!(got, [1, 2, 3, 1, 2, 3, 1]);
        assert_eq!((d.len(), d.only(), dealer(&[4]).only()), (3, None, Some(4)));
    }

    #[test]
    fn who_has_no_room_is_passed_over() {
        let mut d = dealer(&[1, 2, 3]);
        assert_eq!(deal(&mut d, &[1]), Ok(2));
        assert_eq!(deal(&mut d, &[1]), Ok(3));
        assert_eq!(deal(&mut d, &[]), Ok(1));
        assert_eq!(deal(&mut d, &[1, 2, 3]), Err(Undealt::Full));
        assert_eq!(deal(&mut d, &[]), Ok(2), "a failure does not advance the turn");
    }

    #[test]
    fn nobody_is_not_the_same_as_full() {
        let mut d = dealer(&[]);
        assert!(d.is_empty());
        assert_eq!(deal(&mut d, &[]), Err(Undealt::Nobody));
    }

    #[test]
    fn who_goes_leaves_the_turn_to_the_next() {
        let mut d = dealer(&[1, 2, 3]);
        deal(&mut d, &[]).unwrap();
        d.close(1);
        assert_eq!(deal(&mut d, &[]), Ok(2));
        d.close(3);
        d.close(9);
        assert_eq!(deal(&mut d, &[]), Ok(2));
        d.open(2);
        assert_eq!(d.len(), 1, "opened twice is there once");
    }

    proptest! {
        /// No connection gets two messages more than another while all have room.
        #[test]
        fn everybody_gets_the_same(count in 1..9u64, messages in 0..100usize) {
            let mut d = dealer(&(0..count).collect::<Vec<_>>());
            let mut got = vec![0; count as usize];
            for _ in 0..messages {
                got[deal(&mut d, &[]).unwrap() as usize] += 1;
            }
            let (least, most) = (got.iter().min().unwrap(), got.iter().max().unwrap());
            prop_assert!(most - least <= 1);
        }
    }
}
