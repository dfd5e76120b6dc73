//! Answers of a range server of spools.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zwire_spool::fuzzing::range(data));
