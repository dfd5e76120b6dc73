mod candidates;
mod contacts;
mod locators;
mod scouting;

use crate::{Now, zenoh::ZenohId};
use core::time::Duration;

fn zid(number: u128) -> ZenohId {
    ZenohId::new(number).unwrap()
}

fn at(ms: u64) -> Now {
    Now::at(Duration::from_millis(ms))
}
