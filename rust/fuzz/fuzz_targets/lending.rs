//! Messages of the channel of shared memory, payloads that describe loans, and what a borrower returns.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zwire_proto::fuzzing::lending(data));
