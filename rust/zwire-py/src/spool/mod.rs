//! Spools: views, appenders, ranges and writers.

pub(crate) mod append;
pub(crate) mod range;
pub(crate) mod view;
pub(crate) mod writer;
