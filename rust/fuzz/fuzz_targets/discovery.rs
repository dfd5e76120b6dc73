//! Scouting, candidates, and connections that cross.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zwire_proto::fuzzing::discovery(data));
