//! Keys, attachments, contents and signs of life of a bridge to ZRE.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zwire_proto::fuzzing::bridge(data));
