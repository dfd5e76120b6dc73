//! Rules that deny by intersection, against a model that looks at each key.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zwire_proto::fuzzing::access(data));
