//! Payloads of ROS 2: a type, and a payload of it.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zwire_proto::fuzzing::cdr(data));
