//! Types of messages, compiled for reading.

use super::aligned;
use thiserror::Error;

/// Most structures within each other; readers nest as deep.
const MOST_DEPTH: usize = 128;

/// Largest value of fixed size, in bytes: no payload is as long.
const MOST_SIZE: usize = 1 << 30;

/// A number or a boolean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Number {
    Bool,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
}

impl Number {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Bool,
        Self::I8,
        Self::U8,
        Self::I16,
        Self::U16,
        Self::I32,
        Self::U32,
        Self::I64,
        Self::U64,
        Self::F32,
        Self::F64,
    ];

    /// The number with a code of Python's module `struct`.
    #[must_use]
    pub fn from_code(code: char) -> Option<Self> {
        Self::ALL.into_iter().find(|number| number.code() == code)
    }

    /// The code in Python's module `struct`.
    #[must_use]
    pub const fn code(self) -> char {
        match self {
            Self::Bool => '?',
            Self::I8 => 'b',
            Self::U8 => 'B',
            Self::I16 => 'h',
            Self::U16 => 'H',
            Self::I32 => 'i',
            Self::U32 => 'I',
            Self::I64 => 'q',
            Self::U64 => 'Q',
            Self::F32 => 'f',
            Self::F64 => 'd',
        }
    }

    /// The size and alignment, in bytes.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }
}

/// The type of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// A number.
    Number(Number),
    /// A text in UTF-8, of at most so many bytes.
    Text(usize),
    /// A structure: its place among those of the plan.
    Record(usize),
}

/// How many values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Many {
    /// One.
    One,
    /// A fixed number.
    Array(usize),
    /// A number given in the payload, at most this one.
    Sequence(usize),
}

/// A field of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name.
    pub name: String,
    /// The type of its values.
    pub item: Item,
    /// How many values it has.
    pub many: Many,
}

/// A structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The name of its type.
    pub name: String,
    /// The fields, in order.
    pub fields: Vec<Field>,
}

/// Reason why structures make no plan.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// There are none.
    #[error("a plan needs a structure")]
    Empty,
    /// A structure has no field; an empty one of ROS has one.
    #[error("{0} has no field")]
    NoField(String),
    /// A field is a structure that does not precede its own.
    #[error("{record}.{field} is none of the structures before it")]
    Order {
        /// The structure.
        record: String,
        /// Its field.
        field: String,
    },
    /// A field has a fixed number of no values.
    #[error("{record}.{field} is an array without items")]
    NoItem {
        /// The structure.
        record: String,
        /// Its field.
        field: String,
    },
    /// The structures are too deep within each other, or too large.
    #[error("{0} is too large, or too deeply nested")]
    Size(String),
}

/// Sizes by the place where a value begins, modulo eight.
pub(super) type Sizes = [usize; 8];

/// A part of a structure, for skipping it.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Fields of fixed size, up to the one with this number.
    Run { end: usize, sizes: Sizes },
    /// One field of any size.
    Field(usize),
}

#[derive(Clone, Debug)]
pub(super) struct Compiled {
    pub(super) record: Record,
    pub(super) steps: Vec<Step>,
    /// The size, if it is fixed.
    pub(super) sizes: Option<Sizes>,
    depth: usize,
}

/// Structures, each behind those in it; the last one is the message.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) records: Vec<Compiled>,
}

impl Plan {
    /// Compiles structures: each follows those that are in it, and the last one is the message.
    ///
    /// # Errors
    ///
    /// Returns [`PlanError`] if the structures contradict these rules, or exceed a bound.
    pub fn new(records: Vec<Record>) -> Result<Self, PlanError> {
        let mut plan = Self { records: Vec::with_capacity(records.len()) };
        for record in records {
            let compiled = plan.compile(record)?;
            plan.records.push(compiled);
        }
        if plan.records.is_empty() { Err(PlanError::Empty) } else { Ok(plan) }
    }

    /// The structures.
    pub fn records(&self) -> impl ExactSizeIterator<Item = &Record> {
        self.records.iter().map(|compiled| &compiled.record)
    }

    /// The place of the message among the structures.
    #[must_use]
    pub fn message(&self) -> usize {
        self.records.len() - 1
    }

    /// Whether a structure has no array, and at most so many numbers and texts; those of structures in it count.
    #[must_use]
    pub fn is_small(&self, record: usize, most: usize) -> bool {
        self.left(record, most).is_some()
    }

    /// How many of `most` values a small structure leaves.
    fn left(&self, record: usize, most: usize) -> Option<usize> {
        self.records[record].record.fields.iter().try_fold(most, |most, field| {
            match (field.item, field.many) {
                (Item::Record(inner), Many::One) => self.left(inner, most),
                (_, Many::One) => most.checked_sub(1),
                _ => None,
            }
        })
    }

    fn compile(&self, record: Record) -> Result<Compiled, PlanError> {
        if record.fields.is_empty() {
            return Err(PlanError::NoField(record.name));
        }
        let (mut steps, mut depth) = (Vec::<Step>::new(), 0);
        let too_large = || PlanError::Size(record.name.clone());
        for (number, field) in record.fields.iter().enumerate() {
            let place = || (record.name.clone(), field.name.clone());
            if field.many == Many::Array(0) {
                let (record, field) = place();
                return Err(PlanError::NoItem { record, field });
            }
            if let Item::Record(inner) = field.item {
                let Some(inner) = self.records.get(inner) else {
                    let (record, field) = place();
                    return Err(PlanError::Order { record, field });
                };
                depth = depth.max(inner.depth + 1);
            }
            let Some(fixed) = self.sizes(field) else {
                steps.push(Step::Field(number));
                continue;
            };
            let fixed = fixed.ok_or_else(too_large)?;
            if let Some(Step::Run { end, sizes }) = steps.last_mut() {
                *end = number + 1;
                for (start, size) in sizes.iter_mut().enumerate() {
                    *size += fixed[(start + *size) % 8];
                    if *size > MOST_SIZE {
                        return Err(too_large());
                    }
                }
            } else {
                steps.push(Step::Run { end: number + 1, sizes: fixed });
            }
        }
        if depth > MOST_DEPTH {
            return Err(too_large());
        }
        let sizes = match steps.as_slice() {
            [Step::Run { sizes, .. }] => Some(*sizes),
            _ => None,
        };
        Ok(Compiled { record, steps, sizes, depth })
    }

    /// The size of a field, if it is fixed; the inner option is empty if it exceeds the bound.
    fn sizes(&self, field: &Field) -> Option<Option<Sizes>> {
        let count = match field.many {
            Many::One => 1,
            Many::Array(count) => count,
            Many::Sequence(_) => return None,
        };
        match field.item {
            Item::Text(_) => None,
            Item::Number(number) => {
                let size = number.size();
                let whole = count.checked_mul(size).filter(|whole| *whole <= MOST_SIZE);
                Some(whole.map(|whole| core::array::from_fn(|start| aligned(start, size) - start + whole)))
            }
            Item::Record(inner) => {
                let one = self.records[inner].sizes?;
                let mut all = Sizes::default();
                for (start, size) in all.iter_mut().enumerate() {
                    for _ in 0..count {
                        *size += one[(start + *size) % 8];
                        if *size > MOST_SIZE {
                            return Some(None);
                        }
                    }
                }
                Some(Some(all))
            }
        }
    }
}
