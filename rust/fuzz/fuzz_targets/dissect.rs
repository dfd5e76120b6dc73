//! Dissection of one side of a connection in a capture.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zwire_dissect::fuzzing::dissect(data));
