//! Options of a program by name: of a ZRE node, of a ZMTP socket, and of a spool that is written.

use crate::errors;
use core::{cell::RefCell, time::Duration};
use pyo3::{prelude::*, types::PyDict};
use zwire_proto::Text;

/// Dictionary of options. Errors name the option.
pub(crate) struct Options<'a, 'py> {
    given: &'a Bound<'py, PyDict>,
    /// Names that were asked for.
    known: RefCell<Vec<&'static str>>,
}

/// Value of an option.
pub(crate) trait OptionValue: Sized {
    /// Description of the values, for errors.
    const WANTED: &'static str;

    fn of(value: &Bound<'_, PyAny>) -> Option<Self>;
}

macro_rules! values {
    ($($value:ty = $wanted:literal: |$given:ident| $of:expr;)+) => {
        $(impl OptionValue for $value {
            const WANTED: &'static str = $wanted;

            fn of($given: &Bound<'_, PyAny>) -> Option<Self> {
                $of
            }
        })+
    };
}

values! {
    bool = "True or False": |value| value.extract().ok();
    String = "a text": |value| value.extract().ok();
    Text = "a text": |value| value.extract::<String>().ok().map(Self::from);
    u16 = "a port, 0 to 65535": |value| value.extract().ok();
    u32 = "a number above 0": |value| value.extract().ok().filter(|number| *number > 0);
    u64 = "a number, 0 or more": |value| value.extract().ok();
    usize = "a number above 0": |value| value.extract().ok().filter(|number| *number > 0);
    (usize, usize) = "a number above 0, or a pair of them for sending and receiving": |value| {
        let both = value.extract().map(|both| (both, both)).or_else(|_| value.extract());
        both.ok().filter(|(sending, receiving)| *sending > 0 && *receiving > 0)
    };
    Duration = "a number of seconds, 0 or more": |value| {
        value.extract().ok().and_then(|seconds| Self::try_from_secs_f64(seconds).ok())
    };
    (Duration, Duration) = "a number of seconds, or a pair of them": |value| {
        let (first, most) = value.extract::<(f64, f64)>().or_else(|_| Ok::<_, PyErr>((value.extract()?, 0.0))).ok()?;
        Some((Duration::try_from_secs_f64(first).ok()?, Duration::try_from_secs_f64(most).ok()?))
    };
    Vec<u32> = "a sequence of numbers": |value| value.extract().ok();
    Vec<String> = "a sequence of texts": |value| match value.extract::<String>() {
        // A text is a sequence of texts as well; it is taken as a single element.
        Ok(text) => Some(vec![text]),
        Err(_) => value.extract().ok(),
    };
}

impl<'a, 'py> Options<'a, 'py> {
    /// Reads the options; one that `read` does not ask for is an error, so that none is without effect.
    pub(crate) fn read<T>(
        given: &'a Bound<'py, PyDict>,
        read: impl FnOnce(&Self) -> PyResult<T>,
    ) -> PyResult<T> {
        let options = Self { given, known: RefCell::default() };
        let found = read(&options)?;
        let known = options.known.borrow();
        let names: Vec<String> = given.keys().extract()?;
        match names.iter().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(options.wrong(name, "no option has this name")),
            None => Ok(found),
        }
    }

    pub(crate) fn wrong(&self, name: &str, problem: impl core::fmt::Display) -> PyErr {
        errors::option(self.given.py(), name, &problem.to_string())
    }

    /// The value of an option, which may be None, unless it is missing.
    pub(crate) fn given(&self, name: &'static str) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.known.borrow_mut().push(name);
        self.given.get_item(name)
    }

    /// The value of an option, unless it is missing or None.
    pub(crate) fn get(&self, name: &'static str) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.given(name)?.filter(|value| !value.is_none()))
    }

    /// The value of an option as a type, unless it is missing or None.
    pub(crate) fn take<T: OptionValue>(&self, name: &'static str) -> PyResult<Option<T>> {
        let Some(value) = self.get(name)? else { return Ok(None) };
        match T::of(&value) {
            Some(found) => Ok(Some(found)),
            None => Err(self.wrong(name, format!("expected {}, not {}", T::WANTED, value.repr()?))),
        }
    }

    /// Replaces a default, unless the option is missing or None.
    pub(crate) fn set<T: OptionValue>(&self, name: &'static str, to: &mut T) -> PyResult<()> {
        if let Some(value) = self.take(name)? {
            *to = value;
        }
        Ok(())
    }
}
