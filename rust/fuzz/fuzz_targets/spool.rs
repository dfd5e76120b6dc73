//! Segments of a spool.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zwire_spool::fuzzing::spool(data));
