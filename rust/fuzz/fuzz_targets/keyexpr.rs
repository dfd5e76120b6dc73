//! Key expressions: validity, canonical form, and relations as in a slow model.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zwire_proto::fuzzing::keyexpr(data));
