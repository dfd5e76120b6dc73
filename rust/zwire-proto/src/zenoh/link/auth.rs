//! User and password in the Auth extension of INIT and OPEN (`zenoh-wire` 3.6, `usrpwd`).
//!
//! ```text
//! INIT SYN  02                       the opener can
//! INIT ACK  22 nonce                 the acceptor demands
//! OPEN SYN  42 len { user, mac }     mac = HMAC-SHA3-256(key = nonce, 8 bytes LE; password)
//! OPEN ACK  02                       accepted
//! ```

use crate::{
    Text,
    buf::{Reader, put_vle, put_zbytes, vle_len},
    error::{DecodeErrorKind, Result},
    zenoh::wire::ExtBody,
};
use bytes::Bytes;
use core::fmt;
use hmac::{KeyInit, Mac, SimpleHmac, digest::Key};
use sha3::Sha3_256;

/// The inner extension id of `usrpwd`; 1 is `pubkey`.
const USRPWD: u8 = 0x02;
const ID: u8 = 0x0f;
const ENC: u8 = 0x60;
const MORE: u8 = 0x80;
const Z64: u8 = 0x20;
const ZBUF: u8 = 0x40;

/// A user and the password that proves it. The password never travels.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name.
    pub user: Text,
    /// The secret.
    pub password: Text,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Announces the method (INIT SYN) or acceptance (OPEN ACK).
pub(super) fn unit() -> Bytes {
    Bytes::from_static(&[USRPWD])
}

/// The challenge, in INIT ACK.
pub(super) fn challenge(nonce: u64) -> Bytes {
    let mut out = vec![USRPWD | Z64];
    put_vle(&mut out, nonce);
    out.into()
}

/// The answer to the challenge, in OPEN SYN.
pub(super) fn answer(credentials: &Credentials, nonce: u64) -> Bytes {
    let mac = mac(nonce, &credentials.password).finalize().into_bytes();
    let user = credentials.user.as_bytes();
    let mut out = vec![USRPWD | ZBUF];
    put_vle(&mut out, (vle_len(user.len() as u64) + user.len() + 1 + mac.len()) as u64);
    put_zbytes(&mut out, user);
    put_zbytes(&mut out, &mac);
    out.into()
}

/// The `usrpwd` extension of an Auth extension, if there is one.
pub(super) fn find(chain: &Bytes) -> Result<Option<ExtBody>> {
    const READING: &str = "Auth extension";
    let mut r = Reader::new(chain);
    let mut found = None;
    loop {
        let offset = r.offset();
        let header = r.u8(READING)?;
        let body = match header & ENC {
            0 => ExtBody::Unit,
            Z64 => ExtBody::Z64(r.vle(READING)?),
            ZBUF => ExtBody::ZBuf(r.zbytes(u64::from(u32::MAX), READING)?),
            _ => return Err(r.error(READING, offset, DecodeErrorKind::ReservedEncoding { header })),
        };
        if header & ID == USRPWD {
            found = Some(body);
        }
        if header & MORE == 0 {
            return Ok(found);
        }
    }
}

/// The user of the answer, if `password_of` knows the name and the answer is right.
pub(super) fn verify(
    answer: &Bytes,
    nonce: u64,
    password_of: impl FnOnce(&str) -> Option<Text>,
) -> Result<Option<Text>> {
    let mut r = Reader::new(answer);
    let user = r.text(u64::from(u32::MAX), "Auth user")?;
    let given = r.zbytes(u64::from(u32::MAX), "Auth mac")?;
    // An unknown user takes as long to check as a wrong password.
    let known = password_of(&user);
    let same = mac(nonce, known.as_deref().unwrap_or_default()).verify_slice(&given).is_ok();
    Ok(known.filter(|_| same).map(|_| user))
}

/// The computation of the message authentication code: the key is the nonce, the message the password.
fn mac(nonce: u64, password: &str) -> SimpleHmac<Sha3_256> {
    // HMAC fills a key with zeros to the block size of the hash.
    let mut key = Key::<SimpleHmac<Sha3_256>>::default();
    key[..8].copy_from_slice(&nonce.to_le_bytes());
    SimpleHmac::new(&key).chain_update(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: u64 = 0x68a4_d56a_44e4_8e9c;
    /// `zenoh-wire` E15: the contents of the Auth extension.
    const E15: &[u8] = b"\x42\x27\x05user1\x20\
        \xc7\xc9\xff\xc7\x77\xf8\x0b\x34\xce\xa9\x70\x66\xcb\x4c\x5f\xf6\
        \xd3\x3d\xfb\xc1\xcd\x95\xcc\x07\x77\x7b\x09\x06\xdf\x04\x2a\x92";

    fn credentials() -> Credentials {
        Credentials { user: "user1".into(), password: "secret".into() }
    }

    #[test]
    fn answer_of_the_example() {
        assert_eq!(answer(&credentials(), NONCE), E15);
        assert_eq!(challenge(NONCE), &b"\x22\x9c\x9d\x92\xa7\xa4\xad\xb5\xd2\x68"[..]);
    }

    #[test]
    fn only_the_right_password_verifies() {
        let Ok(Some(ExtBody::ZBuf(body))) = find(&Bytes::from_static(E15)) else { panic!("no answer") };
        let check = |nonce, password: Option<&str>| {
            verify(&body, nonce, |user| password.filter(|_| user == "user1").map(Text::from)).unwrap()
        };
        assert_eq!(check(NONCE, Some("secret")), Some("user1".into()));
        assert_eq!(check(NONCE, Some("Secret")), None);
        assert_eq!(check(NONCE, None), None);
        assert_eq!(check(NONCE + 1, Some("secret")), None);
    }

    #[test]
    fn an_empty_mac_does_not_verify() {
        let body = Bytes::from_static(b"\x05user1\x00");
        assert_eq!(verify(&body, NONCE, |_| Some("secret".into())), Ok(None));
    }

    #[test]
    fn a_truncated_chain_is_an_error() {
        for cut in 0..E15.len() {
            assert!(find(&Bytes::copy_from_slice(&E15[..cut])).is_err(), "{cut}");
        }
        // pubkey first, usrpwd behind it.
        assert_eq!(find(&Bytes::from_static(&[0x81, 0x02])), Ok(Some(ExtBody::Unit)));
        assert_eq!(find(&Bytes::from_static(&[0x01])), Ok(None));
    }

    #[test]
    fn the_password_is_not_printed() {
        assert!(!format!("{:?}", credentials()).contains("secret"));
    }
}
