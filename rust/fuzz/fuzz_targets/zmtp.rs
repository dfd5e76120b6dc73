//! State machines of one side of a ZMTP connection.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zwire_proto::fuzzing::zmtp(data));
