//! Decoders of captures and of single frames.

pub(crate) mod columns;
pub(crate) mod decoder;
pub(crate) mod frames;
pub(crate) mod source;
pub(crate) mod zmtp;
