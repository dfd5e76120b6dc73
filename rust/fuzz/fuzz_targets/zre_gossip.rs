//! Gossip: messages, client and hub.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zwire_proto::fuzzing::zre_gossip(data));
