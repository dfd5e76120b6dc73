//! Advanced publishers and subscribers: numbers, heartbeats, tokens, questions.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zwire_proto::fuzzing::advanced(data));
