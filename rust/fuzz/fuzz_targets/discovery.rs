//! Scouting, candidates, and simultaneous connections.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zwire_proto::fuzzing::discovery(data));
