//! Decoders of captures and of single frames.

pub(crate) mod decoder;
pub(crate) mod frames;
