//! A multicast group: joins, frames, silence.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zwire_proto::fuzzing::group(data));
