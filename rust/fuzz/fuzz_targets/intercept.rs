//! The policy of a link: access control, downsampling, limits of size.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zwire_proto::fuzzing::intercept(data));
