//! Spools from outside: written rows are read again, under any name and after any accident.

mod hostile;
mod ranges;
mod selected;
mod support;
mod written;
