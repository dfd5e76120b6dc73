//! Advanced publishers and subscribers: numbers, heartbeats, tokens, queries.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zwire_proto::fuzzing::advanced(data));
