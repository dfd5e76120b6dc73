//! Batches: transport messages, and network messages in frames.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zwire_proto::fuzzing::transport(data));
