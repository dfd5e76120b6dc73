//! Subject and validity of certificates. rustls verifies them but does not expose these fields.

use core::time::Duration;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;
/// `id-at-commonName`, 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;

/// Earliest end of validity in a chain, in wall-clock time since 1970. `None` if the chain is empty or
/// has no readable validity.
pub(crate) fn end_of_validity<'a>(chain: impl IntoIterator<Item = &'a [u8]>) -> Option<Duration> {
    chain.into_iter().filter_map(not_after).min()
}

/// Common name of the certificate's subject, if it is a string of a usual type.
pub(crate) fn common_name(certificate: &[u8]) -> Option<String> {
    // Name: a SEQUENCE of SETs of { type, value }.
    let (mut names, _) =
        take(from_validity(certificate)?, SEQUENCE).and_then(|(_, rest)| take(rest, SEQUENCE))?;
    while let Some((set, rest)) = take(names, SET) {
        names = rest;
        let (attribute, _) = take(set, SEQUENCE)?;
        let (id, value) = take(attribute, OBJECT_ID)?;
        if id == COMMON_NAME {
            let (text, _) = take(value, UTF8_STRING).or_else(|| take(value, PRINTABLE_STRING))?;
            return core::str::from_utf8(text).ok().map(str::to_owned);
        }
    }
    None
}

fn not_after(certificate: &[u8]) -> Option<Duration> {
    let (validity, _) = take(from_validity(certificate)?, SEQUENCE)?;
    let (_, validity) = take_any(validity)?;
    if let Some((text, _)) = take(validity, UTC_TIME) {
        // Two digits of the year: up to 49 they mean 20xx.
        let year = number(text.get(..2)?)?;
        return time(if year < 50 { 2000 + year } else { 1900 + year }, text.get(2..)?);
    }
    let (text, _) = take(validity, GENERALIZED_TIME)?;
    time(number(text.get(..4)?)?, text.get(4..)?)
}

/// RFC 5280, 4.1: Certificate { TBSCertificate { [0] version, serial, signature, issuer, Validity {
/// notBefore, notAfter }, subject, … } … }; returns everything from the validity on.
fn from_validity(certificate: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = take(certificate, SEQUENCE)?;
    let (mut fields, _) = take(certificate, SEQUENCE)?;
    if let Some((_, rest)) = take(fields, VERSION) {
        fields = rest;
    }
    for tag in [INTEGER, SEQUENCE, SEQUENCE] {
        fields = take(fields, tag)?.1;
    }
    Some(fields)
}

/// Content of a DER element with that tag, and the bytes after it.
fn take(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    if *bytes.first()? == tag { take_any(bytes) } else { None }
}

fn take_any(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&first, mut rest) = bytes.get(1..)?.split_first()?;
    let len = match first {
        0..=0x7f => usize::from(first),
        // Length in the following bytes; four are more than any certificate needs.
        0x81..=0x84 => {
            let (digits, behind) = rest.split_at_checked(usize::from(first & 0x0f))?;
            rest = behind;
            digits.iter().fold(0, |len, &digit| len << 8 | usize::from(digit))
        }
        _ => return None,
    };
    rest.split_at_checked(len)
}

fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |n, &digit| digit.is_ascii_digit().then(|| n * 10 + u64::from(digit - b'0')))
}

/// Parses `MMDDHHMMSSZ`.
fn time(year: u64, text: &[u8]) -> Option<Duration> {
    let (text, b"Z") = text.split_at_checked(10)? else { return None };
    let part = |at: usize| number(&text[at..at + 2]);
    let (month, day, hour, minute, second) = (part(0)?, part(2)?, part(4)?, part(6)?, part(8)?);
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days of the Gregorian calendar, with years that begin in March: leap days come last.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1;
    let since_1970 = days.checked_sub(719_468)?;
    Some(Duration::from_secs(((since_1970 * 24 + hour) * 60 + minute) * 60 + second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (year, text, seconds) in [
            (1970, "0101000000Z", 0),
            (2000, "0229235959Z", 951_868_799),
            (2000, "0301000000Z", 951_868_800),
            (2026, "1122120000Z", 1_795_348_800),
            (2100, "0301000000Z", 4_107_542_400),
        ] {
            assert_eq!(time(year, text.as_bytes()), Some(Duration::from_secs(seconds)), "{year} {text}");
        }
        for text in ["0101000000", "1301000000Z", "01010000x0Z", ""] {
            assert_eq!(time(2026, text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_end_is_read_from_certificates() {
        for (year, expected) in [(2033, 1_988_150_400), (2051, 2_556_144_000)] {
            let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            params.not_after = rcgen::date_time_ymd(year, 1, 1);
            let key = rcgen::KeyPair::generate().unwrap();
            let certificate = params.self_signed(&key).unwrap();
            let der = certificate.der();
            assert_eq!(not_after(der), Some(Duration::from_secs(expected)));
            for end in 0..der.len() {
                // Any result will do; it must end without a panic.
                let _ = (not_after(&der[..end]), common_name(&der[..end]));
            }
        }
        assert_eq!(end_of_validity([]), None);
    }

    #[test]
    fn the_name_is_read_from_certificates() {
        for (name, expected) in
            [(Some("fleet/robot 7"), Some("fleet/robot 7")), (Some("Äpfel"), Some("Äpfel")), (None, None)]
        {
            let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            params.distinguished_name = rcgen::DistinguishedName::new();
            params.distinguished_name.push(rcgen::DnType::OrganizationName, "a fleet");
            if let Some(name) = name {
                params.distinguished_name.push(rcgen::DnType::CommonName, name);
            }
            let certificate = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
            assert_eq!(common_name(certificate.der()).as_deref(), expected);
        }
    }
}
