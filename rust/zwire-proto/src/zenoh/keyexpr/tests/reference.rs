//! Comparison with the key-expression code of eclipse-zenoh 1.10.

use super::{super::*, laws::expression};
use proptest::prelude::*;
use zenoh_protocol::core::key_expr::keyexpr;

proptest! {
    #![proptest_config(ProptestConfig { cases: 4 * ProptestConfig::default().cases, ..ProptestConfig::default() })]

    #[test]
    fn relations(a in expression(), b in expression()) {
        let (their_a, their_b) = (keyexpr::new(a.as_str()).unwrap(), keyexpr::new(b.as_str()).unwrap());
        prop_assert_eq!(a.intersects(&b), their_a.intersects(their_b));
        prop_assert_eq!(a.includes(&b), their_a.includes(their_b));
    }

    #[test]
    fn joined(a in expression(), tail in "[ab*/]{0,4}|\\*\\*/[ab]|/\\*") {
        let their = keyexpr::new(a.as_str()).unwrap();
        let text = |key: KeyExpr| key.as_str().to_owned();
        prop_assert_eq!(a.join(&tail).map(text).ok(), their.join(&tail).map(|key| key.to_string()).ok());
    }

    #[test]
    fn what_is_canonical(text in "[ab*$/@#?]{0,12}|(\\*\\*|\\*|a|@|\\$\\*|a\\$\\*)(/(\\*\\*|\\*|b|a\\$\\*b)){0,5}") {
        prop_assert_eq!(validate(&text).is_ok(), keyexpr::new(text.as_str()).is_ok(), "{}", text);
    }

    #[test]
    fn canonising(text in "(\\*\\*|\\*|a|@|\\$\\*|a\\$\\*|b\\$)(/(\\*\\*|\\*|b|a\\$\\*b|\\$\\*|\\$\\*\\$\\*)){0,6}/?") {
        // That code refuses or panics on three `$*` in a row, and on two beside other bytes; see 6.1.
        let theirs = &mut text.clone();
        let theirs = keyexpr::autocanonize(theirs).map(|key| key.to_string()).ok();
        let ours = KeyExpr::autocanonize(text.as_str()).map(|key| key.as_str().to_owned()).ok();
        prop_assert_eq!(ours, theirs, "{}", text);
    }
}
