//! Plain CDR (XCDR1), as ROS 2 and DDS send it: values of a type that both sides know.
//!
//! A header of four bytes gives the byte order. Each number is aligned to a multiple of its size, counted from behind
//! the header:
//!
//! ```text
//! 00 01 00 00 | int32 sec | uint32 nanosec | uint32 length, text, 0 | pad | float64 x ...
//! ```
//!
//! A [`Plan`] is compiled once from the fields of a type. Adjacent values of fixed size, also those of structures within
//! each other, are one run, whose size depends on nothing but where it begins, modulo eight.
//!
//! | Work | Function |
//! |---|---|
//! | is a payload one of this type? | [`Plan::check`] |
//! | the fields of one structure, without those of structures in it | [`Plan::read`] |
//! | numbers, texts and counts of a payload under construction | [`Output`] |
//!
//! No function allocates memory for what a payload announces.

mod plan;
mod read;
mod write;

#[cfg(test)]
mod tests;

pub use plan::{Field, Item, Many, Number, Plan, PlanError, Record};
pub use read::{Input, Misfit, Problem, Value};
pub use write::Output;

/// Size of the header, in bytes.
pub const HEADER: usize = 4;

/// Bytes that may follow the last value: some writers fill up to a multiple of four.
const PADDING: usize = 3;

/// The position from which a number of a size may start.
const fn aligned(at: usize, size: usize) -> usize {
    at.next_multiple_of(size)
}
