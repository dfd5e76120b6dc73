//! Macros for the parts that many classes share. Each adds a `#[pymethods]` block to its class. Files that use them
//! import the prelude of `pyo3`.

/// Read-only attributes of a class: `name: Type = value;`. With `in Bound` the value is made of the Python object.
macro_rules! attributes {
    ($($attributes:tt)+) => {
        reads! { getter $($attributes)+ }
    };
}

/// Methods of a class that take no arguments, in the form of [`attributes`].
macro_rules! methods {
    ($($methods:tt)+) => {
        reads! { inline $($methods)+ }
    };
}

/// Functions that are attributes (`getter`) or methods (`inline`) of a class.
macro_rules! reads {
    ($kind:ident $class:ident, |$this:ident| $($(#[doc = $doc:literal])* $name:ident: $type:ty = $value:expr;)+) => {
        #[pymethods]
        impl $class {
            $($(#[doc = $doc])*
            #[$kind]
            pub(crate) fn $name(&self) -> $type {
                let $this = self;
                let _ = $this;
                $value
            })+
        }
    };
    (
        $kind:ident $class:ident, |$this:ident, $py:ident|
        $($(#[doc = $doc:literal])* $name:ident: $type:ty = $value:expr;)+
    ) => {
        #[pymethods]
        impl $class {
            $($(#[doc = $doc])*
            #[$kind]
            pub(crate) fn $name<'py>(&self, $py: Python<'py>) -> $type {
                let ($this, $py) = (self, $py);
                let _ = ($this, $py);
                $value
            })+
        }
    };
    (
        $kind:ident $class:ident in Bound, |$this:ident|
        $($(#[doc = $doc:literal])* $name:ident: $type:ty = $value:expr;)+
    ) => {
        #[pymethods]
        impl $class {
            $($(#[doc = $doc])*
            #[$kind]
            fn $name<'py>(slf: &Bound<'py, Self>) -> $type {
                let $this = slf;
                $value
            })+
        }
    };
}

/// Makes a class a context manager; the expression runs at the end of the block.
macro_rules! context_manager {
    ($class:ident, |$this:ident, $py:ident| $end:expr) => {
        #[pymethods]
        impl $class {
            const fn __enter__(slf: Py<Self>) -> Py<Self> {
                slf
            }

            #[pyo3(signature = (*_args, **_kwargs))]
            fn __exit__(
                &self,
                $py: Python<'_>,
                _args: &Bound<'_, PyAny>,
                _kwargs: Option<&Bound<'_, pyo3::types::PyDict>>,
            ) -> PyResult<()> {
                let ($this, _) = (self, $py);
                $end
            }
        }
    };
}

/// Makes a class picklable: the tuple has the arguments for the class, or for its method behind `by`.
macro_rules! pickled {
    ($class:ident $(by $method:ident)?, |$this:ident, $py:ident| $arguments:expr) => {
        #[pymethods]
        impl $class {
            fn __reduce__<'py>(
                slf: &Bound<'py, Self>,
            ) -> PyResult<(Bound<'py, PyAny>, impl IntoPyObject<'py> + use<'py>)> {
                let ($this, $py) = (slf.get(), slf.py());
                let _ = $py;
                let maker = slf.get_type().into_any();
                $(let maker = pyo3::types::PyAnyMethods::getattr(&maker, stringify!($method))?;)?
                Ok((maker, $arguments))
            }
        }
    };
}

/// Methods of a class that take items out of a channel one by one.
macro_rules! receives {
    ($class:ident, $item:literal, $($also:literal,)? |$this:ident, $py:ident| $source:expr) => {
        #[pymethods]
        impl $class {
            #[doc = concat!("The next ", $item, ", or None if none is waiting.")]
            fn try_recv(&self, $py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
                let $this = self;
                $source.try_recv($py)
            }

            #[doc = concat!(
                "Waits for the next ", $item, ". Raises `TimedOut` after `timeout` seconds, if given", $($also,)? "."
            )]
            #[pyo3(signature = (timeout=None))]
            fn recv(
                &self,
                $py: Python<'_>,
                timeout: Option<f64>,
            ) -> PyResult<Py<PyAny>> {
                let $this = self;
                $source.recv($py, timeout)
            }

            fn __iter__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
                let ($this, $py) = (slf.get(), slf.py());
                let _ = $py;
                $source.iter(slf.as_any())
            }
        }
    };
}

/// Method of a class that takes many items out of a channel at once.
macro_rules! receives_many {
    ($class:ident, $items:literal, |$slf:ident, $py:ident| $channel:expr) => {
        #[pymethods]
        impl $class {
            #[doc = concat!("Takes up to `max_items` ", $items, " at once; waits for the first one only, and returns")]
            /// an empty list at the timeout.
            #[pyo3(signature = (max_items, timeout=None))]
            fn recv_many(
                $slf: &Bound<'_, Self>,
                $py: Python<'_>,
                max_items: usize,
                timeout: Option<f64>,
            ) -> PyResult<Vec<Py<PyAny>>> {
                $channel.recv_many($py, max_items, timeout)
            }
        }
    };
}

/// Methods of a source of record batches: iteration, and the Arrow C interface.
macro_rules! record_batches {
    ($class:ident, $schema:expr) => {
        #[pymethods]
        impl $class {
            const fn __iter__(slf: Py<Self>) -> Py<Self> {
                slf
            }

            fn __next__(&self, py: Python<'_>) -> PyResult<Option<crate::arrow::ArrowBatch>> {
                Ok(self.next(py)?.map(crate::arrow::ArrowBatch))
            }

            /// The Arrow C interface: a capsule with the stream of all remaining batches.
            #[pyo3(signature = (requested_schema=None))]
            fn __arrow_c_stream__<'py>(
                &self,
                py: Python<'py>,
                requested_schema: Option<&Bound<'py, PyAny>>,
            ) -> PyResult<Bound<'py, pyo3::types::PyCapsule>> {
                // The protocol allows to ignore a requested schema.
                let _ = requested_schema;
                crate::arrow::stream_capsule(py, $schema, self.stream())
            }

            /// The Arrow C interface: a capsule with the schema.
            #[staticmethod]
            fn schema(py: Python<'_>) -> PyResult<Bound<'_, pyo3::types::PyCapsule>> {
                crate::arrow::schema_capsule(py, &$schema)
            }

            /// The Arrow C interface: a capsule with the schema.
            fn __arrow_c_schema__<'py>(
                &self,
                py: Python<'py>,
            ) -> PyResult<Bound<'py, pyo3::types::PyCapsule>> {
                Self::schema(py)
            }
        }
    };
}

/// Dictionary of named values: `name = value`, or `of value: field, field`; such groups are separated by semicolons.
macro_rules! dict {
    ($py:ident; $($groups:tt)+) => {{
        let dict = pyo3::types::PyDict::new($py);
        dict!(@ dict; $($groups)+);
        dict
    }};
    (@ $dict:ident; of $value:ident: $($field:ident),+ $(; $($rest:tt)+)?) => {
        $($dict.set_item(stringify!($field), &$value.$field)?;)+
        $(dict!(@ $dict; $($rest)+);)?
    };
    (@ $dict:ident; $($name:ident = $value:expr),+ $(; $($rest:tt)+)?) => {
        $($dict.set_item(stringify!($name), $value)?;)+
        $(dict!(@ $dict; $($rest)+);)?
    };
}

/// Makes items of a queue objects of the class that wraps them.
macro_rules! items {
    ($item:ty => $class:ident) => {
        impl crate::loops::calling::Item for $item {
            fn into_py(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                Ok(pyo3::Py::new(py, $class(self))?.into_any())
            }
        }
    };
}

/// Text of a class, both for people and for programmers.
macro_rules! text {
    ($class:ident, |$this:ident| $text:expr) => {
        #[pymethods]
        impl $class {
            fn __str__(&self) -> String {
                let $this = self;
                $text
            }

            fn __repr__(&self) -> String {
                self.__str__()
            }
        }
    };
}

/// Text of a class for programmers, `<Subscriber demo/** declared>`: the name of its Python class, and what follows.
macro_rules! represented {
    ($class:ident, |$slf:ident| $text:expr) => {
        #[pymethods]
        impl $class {
            fn __repr__($slf: &Bound<'_, Self>) -> PyResult<String> {
                Ok(format!("<{} {}>", $slf.get_type().name()?, $text))
            }
        }
    };
}

/// Comparison of a class around a mutex; both objects may be the same one, so they are locked one after the other.
macro_rules! mutable_value {
    ($class:ident, $hash:literal) => {
        #[pymethods]
        impl $class {
            /// Constant: equal objects have equal hashes, and the hash stays the same when the content changes.
            const fn __hash__(&self) -> isize {
                $hash
            }

            fn __eq__(&self, other: &Self) -> bool {
                let other = other.0.lock().clone();
                *self.0.lock() == other
            }
        }
    };
}
