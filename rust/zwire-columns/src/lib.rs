//! Arrow columns of the rows of zwire: builders of batches from messages, readers of batches that a program gives.
//!
//! | Module | Rows |
//! |---|---|
//! | [`samples`] | batches of received samples |
//! | [`puts`], `stamps` | publications from the rows of a batch |
//! | [`zre`] | events of a ZRE node |
//! | [`zmtp`] | messages of ZeroMQ, both ways |
//! | [`capture`] | records of captures and of bare Zenoh bytes |
//! | [`cdr`] | messages of ROS 2, by the fields of their type |
//! | `builder`, [`reader`] | columns under construction; columns of any layout, read by row |
//!
//! Names, types and meanings are the tables of [`zwire_spool::columns`]; a test compares them with the rows here. Each
//! value is copied once, into its column, by code that is specific to the type of the column.

mod builder;
pub mod capture;
pub mod cdr;
pub mod puts;
pub mod reader;
pub mod samples;
mod stamps;
pub mod zmtp;
pub mod zre;

pub use arrow_schema::{ArrowError, SchemaRef};
pub use reader::{Binaries, Error};
