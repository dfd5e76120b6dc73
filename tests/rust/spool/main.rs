//! The spool from outside: what is written is read again, by whatever name and after whatever accident.

mod hostile;
mod ranges;
mod support;
mod written;
