//! HTTP and WebSocket access to a Zenoh session: REST in the form of zenoh-plugin-rest, server-sent events, counters,
//! and the remote API of browsers.
//!
//! A server belongs to a session and uses its public interface only. The access rules of the node apply to clients of
//! a server as if each came by a link.
//!
//! | Module | Content |
//! |---|---|
//! | `options` | the options, as in `plugins/rest` |
//! | `server` | listener and connections |
//! | `lobby` | connections that make room for new ones |
//! | `client`, `counters` | state of a server, and its clients |
//! | `answer` | routes, and headers that all answers have |
//! | `access` | users, and the access rules for them |
//! | `body` | bodies with their bounds, compression |
//! | `query`, `page` | queries and publications; samples as JSON and HTML |
//! | `events` | server-sent events |
//! | `monitor` | health, readiness, counters |
//! | `remote` | the remote API over WebSockets |
//! | `ui` | the live page |

mod access;
mod answer;
mod body;
mod client;
mod counters;
mod error;
mod events;
mod limits;
mod listing;
mod lobby;
mod monitor;
mod node;
mod options;
mod page;
mod query;
mod remote;
mod server;
mod ui;

pub use error::Error;
pub use options::{Limits, Options, Tls, Token, UiAccess};
pub use server::HttpServer;
