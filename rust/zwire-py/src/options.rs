//! Options of a program by name: the settings of a ZRE node, the keyword arguments of a ZMTP socket.

use crate::errors;
use core::time::Duration;
use pyo3::{prelude::*, types::PyDict};
use zwire_proto::Text;

/// Dictionary of options. Errors name the option.
pub(crate) struct Options<'a, 'py>(pub(crate) &'a Bound<'py, PyDict>);

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
    usize = "a number above 0": |value| value.extract().ok().filter(|number| *number > 0);
    Duration = "a number of seconds, 0 or more": |value| {
        value.extract().ok().and_then(|seconds| Self::try_from_secs_f64(seconds).ok())
    };
    Vec<String> = "a sequence of texts": |value| match value.extract::<String>() {
        // A text is a sequence of texts as well; it is taken as a single element.
        Ok(text) => Some(vec![text]),
        Err(_) => value.extract().ok(),
    };
}

impl<'py> Options<'_, 'py> {
    pub(crate) fn wrong(&self, name: &str, problem: impl core::fmt::Display) -> PyErr {
        // Error texts use the name without direction, because users set both directions at once.
        let both = name.strip_prefix("send_").or_else(|| name.strip_prefix("receive_"));
        errors::option(self.0.py(), both.unwrap_or(name), &problem.to_string())
    }

    /// The value of an option, unless it is missing or None.
    pub(crate) fn get(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.0.get_item(name)?.filter(|value| !value.is_none()))
    }

    /// The value of an option as a type, unless it is missing or None.
    pub(crate) fn take<T: OptionValue>(&self, name: &str) -> PyResult<Option<T>> {
        let Some(value) = self.get(name)? else { return Ok(None) };
        match T::of(&value) {
            Some(found) => Ok(Some(found)),
            None => Err(self.wrong(name, format!("expected {}, not {}", T::WANTED, value.repr()?))),
        }
    }

    /// Replaces a default, unless the option is missing or None.
    pub(crate) fn set<T: OptionValue>(&self, name: &str, to: &mut T) -> PyResult<()> {
        if let Some(value) = self.take(name)? {
            *to = value;
        }
        Ok(())
    }
}
