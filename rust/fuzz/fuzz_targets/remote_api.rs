//! Messages of WebSocket clients of the remote API, and those to them.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zwire_proto::fuzzing::remote_api(data));
