//! NaCl boxes: X25519, XSalsa20, Poly1305 (`zmtp` 6.3; the papers of Bernstein on each).
//!
//! ```text
//! shared key = HSalsa20(X25519(secret, public), zeros)
//! box        = tag, data XOR XSalsa20(shared key, nonce)[32..]
//! tag        = Poly1305(XSalsa20(shared key, nonce)[..32], the encrypted data)
//! ```
//!
//! The primitives come from other crates; this module only combines them.

use super::wire::curve::BOX_OVERHEAD;
use core::fmt;
use curve25519_dalek::montgomery::MontgomeryPoint;
use poly1305::{Poly1305, universal_hash::KeyInit};
use salsa20::{
    XSalsa20,
    cipher::{KeyIvInit, StreamCipher, consts::U10},
};
use zeroize::{Zeroize, Zeroizing};

/// A public key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey(pub [u8; 32]);

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PublicKey(")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

/// A secret key. It is never printed, and its memory is wiped.
#[derive(Clone)]
pub struct SecretKey(Zeroizing<[u8; 32]>);

impl SecretKey {
    /// Makes a secret key of any 32 random bytes.
    #[must_use]
    pub fn new(raw: [u8; 32]) -> Self {
        Self(Zeroizing::new(raw))
    }

    /// The raw bytes, for the cookie that only the owner of the key can open.
    pub(in crate::zmtp) fn expose(&self) -> &[u8] {
        &*self.0
    }

    /// The public key that belongs to this secret.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(MontgomeryPoint::mul_base_clamped(*self.0).to_bytes())
    }

    /// The secret that this key shares with the owner of `public`; `None` for the few public keys (of
    /// small order) that make the shared secret known to everyone.
    #[must_use]
    pub fn shared(&self, public: &PublicKey) -> Option<SharedKey> {
        let point = Zeroizing::new(MontgomeryPoint(public.0).mul_clamped(*self.0).to_bytes());
        if point.iter().fold(0, |all, byte| all | byte) == 0 {
            return None;
        }
        let mut key = salsa20::hsalsa::<U10>((&*point).into(), (&[0; 16]).into());
        let shared = SharedKey::new(key.into());
        key.zeroize();
        Some(shared)
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey")
    }
}

/// A secret key and its public key.
#[derive(Clone, Debug)]
pub struct KeyPair {
    /// The public key.
    pub public: PublicKey,
    /// The secret key.
    pub secret: SecretKey,
}

impl KeyPair {
    /// The pair of a secret key.
    #[must_use]
    pub fn of(secret: SecretKey) -> Self {
        Self { public: secret.public(), secret }
    }
}

/// Symmetric key that closes and opens boxes.
#[derive(Clone)]
pub struct SharedKey(Zeroizing<[u8; 32]>);

impl SharedKey {
    /// Makes a shared key of known bytes.
    #[must_use]
    pub fn new(raw: [u8; 32]) -> Self {
        Self(Zeroizing::new(raw))
    }

    /// Starts the stream cipher; its first bytes are the key of the tag.
    fn start(&self, nonce: &[u8; 24]) -> (XSalsa20, Poly1305) {
        let mut stream = XSalsa20::new((&*self.0).into(), nonce.into());
        let mut key = Zeroizing::new([0; 32]);
        stream.apply_keystream(&mut *key);
        (stream, Poly1305::new((&*key).into()))
    }

    /// Seals the parts in one box. A nonce must never be reused with the same key.
    #[must_use]
    pub fn seal(&self, nonce: &[u8; 24], parts: &[&[u8]]) -> Vec<u8> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let mut out = Vec::with_capacity(BOX_OVERHEAD + len);
        out.resize(BOX_OVERHEAD, 0);
        parts.iter().for_each(|part| out.extend_from_slice(part));
        let (mut stream, tag) = self.start(nonce);
        let (head, data) = out.split_at_mut(BOX_OVERHEAD);
        stream.apply_keystream(data);
        head.copy_from_slice(&tag.compute_unpadded(data));
        out
    }

    /// The content of a box; `None` if it was made with another key or nonce, or was changed.
    #[must_use]
    pub fn open(&self, nonce: &[u8; 24], sealed: &[u8]) -> Option<Vec<u8>> {
        let (given, data) = sealed.split_at_checked(BOX_OVERHEAD)?;
        let (mut stream, tag) = self.start(nonce);
        let expected = tag.compute_unpadded(data);
        // Constant time: independent of where the tags differ.
        let differing = given.iter().zip(&expected).fold(0, |all, (a, b)| all | (a ^ b));
        if differing != 0 {
            return None;
        }
        let mut out = data.to_vec();
        stream.apply_keystream(&mut out);
        Some(out)
    }
}

impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zmtp::wire::testing::unhex;

    fn run_from(first: u8) -> SecretKey {
        SecretKey::new(core::array::from_fn(|i| first + i as u8))
    }

    /// `zmtp` 15.9, the table of keys.
    #[test]
    fn the_public_keys_of_the_example() {
        for (first, hex) in [
            (0x20, "358072D6365880D1AEEA329ADF9121383851ED21A28E3B75E965D0D2CD166254"),
            (0x40, "79A631EEDE1BF9C98F12032CDEADD0E7A079398FC786B88CC846EC89AF85A51A"),
            (0x60, "675DD574ED7789310B3D2E7681F3790B466C773B1521FECF36577958371EA52F"),
            (0x80, "493E82FC74464A59268817623D2053C5EB8E2CC4A988B4FEE179EC6B010D531D"),
        ] {
            assert_eq!(run_from(first).public().0[..], unhex(hex));
        }
    }

    #[test]
    fn a_box_opens_with_both_keys_and_no_other() {
        let (a, b, c) = (run_from(1), run_from(2), run_from(3));
        let nonce = [9; 24];
        let sealed = a.shared(&b.public()).unwrap().seal(&nonce, &[b"two ", b"parts"]);
        assert_eq!(sealed.len(), BOX_OVERHEAD + 9);
        let key = b.shared(&a.public()).unwrap();
        assert_eq!(key.open(&nonce, &sealed).unwrap(), b"two parts");
        assert_eq!(key.open(&[8; 24], &sealed), None);
        assert_eq!(b.shared(&c.public()).unwrap().open(&nonce, &sealed), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 0x10;
            assert_eq!(key.open(&nonce, &changed), None, "{at}");
            assert_eq!(key.open(&nonce, &sealed[..at]), None, "{at}");
        }
        assert_eq!(key.open(&nonce, &key.seal(&nonce, &[])).unwrap(), b"");
    }

    /// Points of small order.
    #[test]
    fn a_key_that_makes_no_secret_is_refused() {
        let mut one = [0; 32];
        one[0] = 1;
        for weak in [[0; 32], one] {
            assert!(run_from(1).shared(&PublicKey(weak)).is_none());
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        let pair = KeyPair::of(run_from(0x20));
        let text = format!("{pair:?} {:?}", pair.secret.shared(&pair.public));
        assert!(text.contains("PublicKey(358072d6") && !text.contains("20, 21") && !text.contains("2021"));
    }
}
