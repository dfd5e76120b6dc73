//! Configuration: from text, files, a dictionary or the environment to checked engine types.
//!
//! [`Config`] is a JSON tree that holds every key of [`KEYS`] and refuses all others; its keys, defaults
//! and units are those of eclipse-zenoh, so that files of that project work unchanged. Additional keys
//! are below `zwire/`. [`Config::resolve`] turns the tree into a [`NodeConfig`] with checked values only.
//!
//! Differences from eclipse-zenoh: an unknown key is an error at any depth; inserting an object into a
//! branch merges it instead of resetting its neighbours; `null` resets a key to its default; numbers
//! outside their range are refused instead of clamped.

mod check;
mod edit;
mod endpoint;
mod error;
mod explain;
mod intercept;
mod keys;
mod link_options;
mod locate;
mod nearest;
mod reader;
mod resolve;
#[cfg(test)]
mod tests;
mod text;
mod tls;
mod tree;
mod typed;
mod values;
#[cfg(feature = "yaml")]
mod yaml;

pub use check::{Finding, Format, Gravity, check};
pub use endpoint::{Endpoint, EndpointError, Locator, MAX_ENDPOINT_LEN, Malformed, Part};
pub(crate) use endpoint::{PROTOCOLS, missing_feature};
pub use error::ConfigError;
pub use explain::{AccessQuestion, AccessVerdict, explain};
pub use keys::{BUILT_IN, Entries, KEYS, Key, Kind, NOT_ACTED_ON, defaults_json};
pub use link_options::{Choice, LinkOptions};
pub use tls::{Pem, TlsSettings};
pub use tree::{Config, ENV, ENV_KEYS, ENV_OVERRIDE, ENV_SESSION};
pub use typed::*;
pub(crate) use values::parse_interfaces;
pub use values::{AutoConnect, AutoConnectRule, Destination, GroupStrategy, PublicationQos, Roles};
