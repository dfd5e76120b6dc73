//! A routing node, a router or a peer, and its faces.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zwire_proto::fuzzing::zenoh_node(data));
