//! Messages of ROS 2: objects of Python from payloads and back, by a compiled plan.
//!
//! A payload is checked as a whole when it is decoded, and the object of a structure gets its attributes when the first
//! of them is read: a program that reads a field of an image does not pay for the others. Small structures get theirs at
//! once.

use crate::{
    arrow::{self, ArrowBatch},
    errors,
    zenoh::zbytes,
};
use bytes::Bytes;
use core::fmt::Display;
use pyo3::{
    exceptions::PyValueError,
    ffi,
    prelude::*,
    sync::critical_section::with_critical_section,
    types::{PyBool, PyBytes, PyFloat, PyInt, PyList, PyString, PyType},
};
use zwire_columns::cdr::Columns;
use zwire_proto::cdr::{Field, Input, Item, Many, Misfit, Number, Output, Plan, Record, Value};

/// Most numbers and texts of a structure whose object gets its attributes at once: about as cheap as remembering where
/// they are, and much cheaper than doing both. A header and a pose are such structures.
const SMALL: usize = 8;

/// A field: its name; a code of the module `struct`, `s` or `r`; the bound of a text or the place of a structure; `1`,
/// `a` or `v`; the number of items, or their bound.
type Described = (String, char, usize, char, usize);

/// The classes of the objects of a structure: whole ones, and those without attributes yet; the names of attributes.
type Classes = (Py<PyType>, Py<PyType>, Vec<Py<PyString>>);

struct Class {
    whole: Py<PyType>,
    lazy: Py<PyType>,
    attributes: Vec<Py<PyString>>,
    small: bool,
}

/// A type of messages: it decodes payloads to objects of its classes, and encodes such objects.
#[pyclass(module = "zwire", frozen)]
pub(crate) struct CdrPlan {
    plan: Plan,
    classes: Vec<Class>,
    /// Returns an array of numpy over a buffer.
    view: Py<PyAny>,
    /// Returns the bytes of numbers, from any object.
    pack: Py<PyAny>,
    /// Types of numpy in the order of `Number::ALL`: lowest byte first, highest byte first.
    types: [Vec<Py<PyAny>>; 2],
    source: Py<PyString>,
    class: Py<PyString>,
}

/// Where the object of a structure gets its attributes from.
#[pyclass(module = "zwire", frozen)]
pub(crate) struct CdrSource {
    plan: Py<CdrPlan>,
    bytes: Bytes,
    record: usize,
    at: usize,
}

/// Reason why a message is not converted.
enum Failed {
    Misfit(Misfit),
    Python(PyErr),
}

impl From<Misfit> for Failed {
    fn from(error: Misfit) -> Self {
        Self::Misfit(error)
    }
}

impl From<PyErr> for Failed {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl Failed {
    fn value(problem: impl Display) -> Self {
        Self::Misfit(Misfit::value(problem.to_string()))
    }

    fn placed(self, place: impl FnOnce(Misfit) -> Misfit) -> Self {
        match self {
            Self::Misfit(error) => Self::Misfit(place(error)),
            other @ Self::Python(_) => other,
        }
    }

    fn raised(self, py: Python<'_>, schema: &str) -> PyErr {
        match self {
            Self::Misfit(error) => errors::misfit(py, schema, &error),
            Self::Python(error) => error,
        }
    }
}

#[pymethods]
impl CdrPlan {
    #[new]
    fn new(
        py: Python<'_>,
        records: Vec<(String, Vec<Described>)>,
        classes: Vec<Classes>,
        view: Py<PyAny>,
        pack: Py<PyAny>,
        types: (Vec<Py<PyAny>>, Vec<Py<PyAny>>),
    ) -> PyResult<Self> {
        let plan = compiled(records)?;
        let fits = plan.records().len() == classes.len()
            && plan.records().zip(&classes).all(|(record, class)| record.fields.len() == class.2.len())
            && [&types.0, &types.1].iter().all(|types| types.len() == Number::ALL.len());
        if !fits {
            return Err(PyValueError::new_err("classes and structures differ"));
        }
        let class = |(number, (whole, lazy, attributes))| Class {
            whole,
            lazy,
            attributes,
            small: plan.is_small(number, SMALL),
        };
        let classes = classes.into_iter().enumerate().map(class).collect();
        let [source, class] = ["_source", "__class__"].map(|name| PyString::intern(py, name).unbind());
        Ok(Self { plan, classes, view, pack, types: [types.0, types.1], source, class })
    }

    /// Returns the message of a payload.
    fn decode<'py>(slf: &Bound<'py, Self>, payload: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let bytes = kept(payload)?;
        let message = this.plan.message();
        let made = match this.plan.check(&bytes) {
            Ok(input) => Self::object(slf, &bytes, input, message, 0),
            Err(error) => Err(error.into()),
        };
        made.map_err(|error| error.raised(py, this.name()))
    }

    /// Returns the payload of a message.
    fn encode<'py>(&self, message: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(message.py(), &self.written(message)?))
    }

    /// Returns the payload of a message as `encode` does, in memory that a publication takes without a copy.
    fn payload(&self, message: &Bound<'_, PyAny>) -> PyResult<zbytes::PyZBytes> {
        Ok(Bytes::from(self.written(message)?).into())
    }
}

/// A type of messages: decodes payloads into columns of Arrow, one for each field.
#[pyclass(module = "zwire", frozen)]
pub(crate) struct CdrColumns(Columns);

#[pymethods]
impl CdrColumns {
    #[new]
    fn new(records: Vec<(String, Vec<Described>)>, fields: Vec<usize>) -> PyResult<Self> {
        let columns = Columns::new(compiled(records)?, fields);
        Ok(Self(columns.map_err(|error| PyValueError::new_err(error.to_string()))?))
    }

    /// Returns the columns of payloads, and the reasons why some have none.
    fn decode(&self, py: Python<'_>, payloads: &Bound<'_, PyAny>) -> PyResult<ArrowBatch> {
        let array = arrow::import_array(payloads)?;
        let batch = py.detach(|| self.0.decode(&array));
        Ok(ArrowBatch(batch.map_err(|error| PyValueError::new_err(error.to_string()))?))
    }
}

#[pymethods]
impl CdrSource {
    /// Gives an object its attributes, unless it has them.
    fn load(&self, message: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = message.py();
        let plan = self.plan.bind(py);
        let this = plan.get();
        let class = &this.classes[self.record];
        let values = Input::open(&self.bytes)
            .map_err(Failed::from)
            .and_then(|input| CdrPlan::values(plan, &self.bytes, input, self.record, self.at))
            .map_err(|error| error.raised(py, this.name()))?;
        with_critical_section(message, || {
            // Another thread may have been faster, and a program may have changed an attribute since.
            if !message.get_type().is(class.lazy.bind(py)) {
                return Ok(());
            }
            for (name, value) in class.attributes.iter().zip(values) {
                set(message, name.bind(py), &value)?;
            }
            set(message, this.source.bind(py), py.None().bind(py))?;
            set(message, this.class.bind(py), class.whole.bind(py))
        })
    }
}

impl CdrPlan {
    fn name(&self) -> &str {
        self.plan.records().last().map_or("", |record| record.name.as_str())
    }

    fn written(&self, message: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
        let mut output = Output::default();
        match self.write(message, self.plan.message(), &mut output) {
            Ok(()) => Ok(output.into_bytes()),
            Err(error) => Err(error.raised(message.py(), self.name())),
        }
    }

    /// The object of a structure.
    fn object<'py>(
        slf: &Bound<'py, Self>,
        bytes: &Bytes,
        input: Input<'_>,
        record: usize,
        at: usize,
    ) -> Result<Bound<'py, PyAny>, Failed> {
        let (py, this) = (slf.py(), slf.get());
        let class = &this.classes[record];
        if class.small {
            let made = allocated(class.whole.bind(py))?;
            let values = Self::values(slf, bytes, input, record, at)?;
            for (name, value) in class.attributes.iter().zip(values) {
                set(&made, name.bind(py), &value)?;
            }
            return Ok(made);
        }
        let made = allocated(class.lazy.bind(py))?;
        let source = CdrSource { plan: slf.clone().unbind(), bytes: bytes.clone(), record, at };
        set(&made, this.source.bind(py), Bound::new(py, source)?.as_any())?;
        Ok(made)
    }

    /// The values of the attributes of a structure.
    fn values<'py>(
        slf: &Bound<'py, Self>,
        bytes: &Bytes,
        input: Input<'_>,
        record: usize,
        at: usize,
    ) -> Result<Vec<Bound<'py, PyAny>>, Failed> {
        let (py, this) = (slf.py(), slf.get());
        let mut values = Vec::with_capacity(this.classes[record].attributes.len());
        let mut buffer = None;
        this.plan.read(input, record, at, |_, value| {
            values.push(match value {
                Value::Bool(value) => PyBool::new(py, value).to_owned().into_any(),
                Value::Signed(value) => made(value.into_pyobject(py)),
                Value::Unsigned(value) => made(value.into_pyobject(py)),
                Value::Float(value) => PyFloat::new(py, value).into_any(),
                Value::Text(text) => PyString::new(py, text).into_any(),
                // numpy takes the bytes of booleans as they are, and calculates wrongly with others than 0 and 1.
                Value::Numbers { number: number @ Number::Bool, octets, .. }
                    if octets.iter().any(|octet| *octet > 1) =>
                {
                    let octets: Vec<u8> = octets.iter().map(|octet| u8::from(*octet != 0)).collect();
                    let kind = this.dtype(number, input.is_big()).bind(py);
                    this.view.bind(py).call1((PyBytes::new(py, &octets), kind))?
                }
                Value::Numbers { number, octets, at } => {
                    let whole = match buffer.clone() {
                        Some(whole) => whole,
                        None => Bound::new(py, zbytes::PyZBytes::from(bytes.clone()))?,
                    };
                    buffer = Some(whole.clone());
                    let kind = this.dtype(number, input.is_big()).bind(py);
                    let count = octets.len() / number.size();
                    this.view.bind(py).call1((whole, kind, count, at + zwire_proto::cdr::HEADER))?
                }
                Value::Texts { count, mut at } => {
                    let list = PyList::empty(py);
                    for _ in 0..count {
                        let (text, next) = input.text(at, usize::MAX)?;
                        list.append(text)?;
                        at = next;
                    }
                    list.into_any()
                }
                Value::Record { record, at } => Self::object(slf, bytes, input, record, at)?,
                Value::Records { record, count, mut at } => {
                    let list = PyList::empty(py);
                    for _ in 0..count {
                        list.append(Self::object(slf, bytes, input, record, at)?)?;
                        at = this.plan.skip(input, record, at)?;
                    }
                    list.into_any()
                }
            });
            Ok::<_, Failed>(())
        })?;
        Ok(values)
    }

    fn dtype(&self, number: Number, big: bool) -> &Py<PyAny> {
        // In the order of the declaration, as `Number::ALL` is.
        &self.types[usize::from(big)][number as usize]
    }

    fn write(&self, message: &Bound<'_, PyAny>, record: usize, output: &mut Output) -> Result<(), Failed> {
        let (py, class) = (message.py(), &self.classes[record]);
        // Structures have their place in the plan.
        let Some(described) = self.plan.records().nth(record) else { return Ok(()) };
        for (field, name) in described.fields.iter().zip(&class.attributes) {
            let written = match message.getattr(name.bind(py)) {
                Ok(value) => self.write_field(&value, field, output),
                Err(error) => Err(refused(py, error)),
            };
            written.map_err(|error| error.placed(|error| error.within(&field.name)))?;
        }
        Ok(())
    }

    fn write_field(
        &self,
        value: &Bound<'_, PyAny>,
        field: &Field,
        output: &mut Output,
    ) -> Result<(), Failed> {
        let py = value.py();
        if field.many == Many::One {
            return self.write_item(value, field.item, output);
        }
        if let Item::Number(number) = field.item {
            return self.write_numbers(value, number, field.many, output);
        }
        if value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>() {
            return Err(Failed::value("a list is expected"));
        }
        let items = value.try_iter().and_then(|items| items.collect::<PyResult<Vec<_>>>());
        let items = items.map_err(|error| refused(py, error))?;
        counted(items.len(), field.many, output)?;
        for (number, item) in items.iter().enumerate() {
            let written = self.write_item(item, field.item, output);
            written.map_err(|error| error.placed(|error| error.item(number)))?;
        }
        Ok(())
    }

    fn write_item(&self, value: &Bound<'_, PyAny>, item: Item, output: &mut Output) -> Result<(), Failed> {
        match item {
            Item::Number(number) => write_number(value, number, output),
            Item::Record(record) => self.write(value, record, output),
            Item::Text(most) => {
                let text = value.cast::<PyString>().map_err(|_| Failed::value(wanted("a text", value)))?;
                let text = text.to_str().map_err(|error| refused(value.py(), error))?;
                if text.len() > most {
                    return Err(Failed::value(format!("{} octets, and the type allows {most}", text.len())));
                }
                output.text(text).ok_or_else(|| Failed::value("the text is too long"))
            }
        }
    }

    fn write_numbers(
        &self,
        value: &Bound<'_, PyAny>,
        number: Number,
        many: Many,
        output: &mut Output,
    ) -> Result<(), Failed> {
        let (py, size) = (value.py(), number.size());
        if let (Number::U8, Ok(octets)) = (number, value.cast::<PyBytes>()) {
            counted(octets.as_bytes().len(), many, output)?;
            output.numbers(1, octets.as_bytes());
            return Ok(());
        }
        let packed = self.pack.bind(py).call1((value, self.dtype(number, false).bind(py)));
        let packed = packed.map_err(|error| refused(py, error))?;
        let written = zbytes::with_bytes(&packed, |octets| {
            counted(octets.len() / size, many, output)?;
            output.numbers(size, octets);
            Ok::<_, Failed>(())
        })?;
        written.unwrap_or_else(|| Err(Failed::value(wanted("an array", &packed))))
    }
}

/// A plan of structures as Python describes them.
fn compiled(records: Vec<(String, Vec<Described>)>) -> PyResult<Plan> {
    let record = |(name, fields): (String, Vec<Described>)| {
        Some(Record { name, fields: fields.into_iter().map(field).collect::<Option<_>>()? })
    };
    let records = records.into_iter().map(record).collect::<Option<_>>();
    let records = records.ok_or_else(|| PyValueError::new_err("a field has an unknown kind"))?;
    Plan::new(records).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A field as Python describes it.
fn field((name, kind, bound, many, count): Described) -> Option<Field> {
    let unbounded = |bound| if bound == 0 { usize::MAX } else { bound };
    let item = match kind {
        's' => Item::Text(unbounded(bound)),
        'r' => Item::Record(bound),
        code => Item::Number(Number::from_code(code)?),
    };
    let many = match many {
        '1' => Many::One,
        'a' => Many::Array(count),
        'v' => Many::Sequence(unbounded(count)),
        _ => return None,
    };
    Some(Field { name, item, many })
}

/// The bytes of a payload. Those that another process could change are copied: texts are checked before they are used.
fn kept(payload: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    let found = zbytes::extract(payload)?;
    if zwire_engine::is_shared(&found) { Ok(Bytes::copy_from_slice(&found)) } else { Ok(found) }
}

/// An object that was made without an error.
fn made<'py, T>(result: Result<Bound<'py, T>, core::convert::Infallible>) -> Bound<'py, PyAny> {
    match result {
        Ok(object) => object.into_any(),
        Err(never) => match never {},
    }
}

/// Writes the number of items of a field, which its type has to allow.
fn counted(count: usize, many: Many, output: &mut Output) -> Result<(), Failed> {
    match many {
        Many::One => Ok(()),
        Many::Array(wanted) if count == wanted => Ok(()),
        Many::Array(wanted) => Err(Failed::value(format!("{count} items for an array of {wanted}"))),
        Many::Sequence(most) if count > most => {
            Err(Failed::value(format!("{count} items, and the type allows {most}")))
        }
        Many::Sequence(_) => output.count(count).ok_or_else(|| Failed::value("too many items")),
    }
}

fn write_number(value: &Bound<'_, PyAny>, number: Number, output: &mut Output) -> Result<(), Failed> {
    fn int<'py, T: for<'a> FromPyObject<'a, 'py>>(
        value: &Bound<'py, PyAny>,
        name: &str,
    ) -> Result<T, Failed> {
        value.extract().map_err(|_| Failed::value(wanted(name, value)))
    }
    match number {
        Number::Bool => {
            let value = value.is_truthy().map_err(|error| refused(value.py(), error))?;
            output.number([value.into()]);
        }
        Number::I8 => output.number(int::<i8>(value, "an int8")?.to_le_bytes()),
        Number::U8 => output.number(int::<u8>(value, "a uint8")?.to_le_bytes()),
        Number::I16 => output.number(int::<i16>(value, "an int16")?.to_le_bytes()),
        Number::U16 => output.number(int::<u16>(value, "a uint16")?.to_le_bytes()),
        Number::I32 => output.number(int::<i32>(value, "an int32")?.to_le_bytes()),
        Number::U32 => output.number(int::<u32>(value, "a uint32")?.to_le_bytes()),
        Number::I64 => output.number(int::<i64>(value, "an int64")?.to_le_bytes()),
        Number::U64 => output.number(int::<u64>(value, "a uint64")?.to_le_bytes()),
        Number::F32 => {
            let double: f64 = int(value, "a float32")?;
            #[allow(clippy::cast_possible_truncation, reason = "a value that does not fit becomes infinite")]
            let single = double as f32;
            if single.is_infinite() && double.is_finite() {
                return Err(Failed::value(wanted("a float32", value)));
            }
            output.number(single.to_le_bytes());
        }
        Number::F64 => output.number(int::<f64>(value, "a float64")?.to_le_bytes()),
    }
    Ok(())
}

/// The problem of a value: numbers are named, of other objects the type.
fn wanted(wanted: &str, value: &Bound<'_, PyAny>) -> String {
    let named = if value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() {
        value.str().map(|text| text.to_string_lossy().chars().take(40).collect::<String>())
    } else {
        value.get_type().name().map(|name| name.to_string())
    };
    format!("{} is not {wanted}", named.unwrap_or_default())
}

/// An error of a conversion as a problem of the value. Signals and exits pass.
fn refused(py: Python<'_>, error: PyErr) -> Failed {
    if error.is_instance_of::<pyo3::exceptions::PyException>(py) {
        Failed::value(error.value(py))
    } else {
        Failed::Python(error)
    }
}

/// A new object of a class of messages, without attributes.
#[allow(
    unsafe_code,
    reason = "the interface of Python without it runs an initializer, or a look-up per object"
)]
fn allocated<'py>(class: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: classes of messages are heap types of Python code, with slots alone and `object` as their base, for which
    // `object.__new__` does the same; the result is a new reference, or null with an exception.
    unsafe {
        let made = ffi::PyType_GenericAlloc(class.as_type_ptr(), 0);
        Bound::from_owned_ptr_or_err(class.py(), made)
    }
}

/// Sets an attribute as `object.__setattr__` does, also where the class has a method of its own.
#[allow(unsafe_code, reason = "the interface of Python without it calls the method of the class")]
fn set(object: &Bound<'_, PyAny>, name: &Bound<'_, PyString>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    // SAFETY: the three references live during the call, which takes none of them.
    let result = unsafe { ffi::PyObject_GenericSetAttr(object.as_ptr(), name.as_ptr(), value.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(PyErr::fetch(object.py())) }
}
