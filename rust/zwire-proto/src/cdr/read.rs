//! Payloads, read by a plan.

use super::{
    HEADER, PADDING, aligned,
    plan::{Field, Item, Many, Number, Plan, Step},
};
use core::fmt::Write;
use thiserror::Error;

/// A payload that is none of its type.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{problem}")]
pub struct Misfit {
    /// Reason.
    pub problem: Problem,
    /// The offset in the payload, in bytes.
    pub offset: usize,
    /// The field, such as `poses[3].position.x`; empty for the payload as a whole.
    pub path: String,
}

/// Reason why a payload is none of its type.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// Fewer bytes than a header has.
    #[error("a payload of {0} octets has no header of CDR")]
    NoHeader(usize),
    /// Another header.
    #[error("{:02x}{:02x} is no header of plain CDR", .0[0], .0[1])]
    Header([u8; 2]),
    /// The payload ends before a value.
    #[error("the payload ends early")]
    Short,
    /// A count exceeds the rest of the payload.
    #[error("{count} items or octets are announced, {left} left")]
    Count {
        /// The count.
        count: usize,
        /// The rest of the payload, in bytes.
        left: usize,
    },
    /// A count exceeds the bound of the field.
    #[error("{count} items or octets, and the type allows {most}")]
    Bound {
        /// The count.
        count: usize,
        /// The bound.
        most: usize,
    },
    /// A text is not UTF-8.
    #[error("no UTF-8")]
    Utf8,
    /// A value of a program is none of its field.
    #[error("{0}")]
    Value(String),
    /// Bytes follow the last value.
    #[error("{0} octets after the end: is it of another type?")]
    Rest(usize),
}

impl Misfit {
    #[cold]
    const fn at(problem: Problem, at: usize) -> Self {
        Self { problem, offset: at + HEADER, path: String::new() }
    }

    /// A value of a program that is none of its field.
    #[cold]
    #[must_use]
    pub const fn value(problem: String) -> Self {
        Self { problem: Problem::Value(problem), offset: 0, path: String::new() }
    }

    /// Adds the enclosing field to the path.
    #[cold]
    #[must_use]
    pub fn within(mut self, name: &str) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{name}{dot}{}", self.path);
        self
    }

    /// Adds the number of an item to the path.
    #[cold]
    #[must_use]
    pub fn item(mut self, number: usize) -> Self {
        let rest = core::mem::take(&mut self.path);
        let dot = if rest.is_empty() { "" } else { "." };
        // Writing to a string does not fail.
        let _ = write!(self.path, "[{number}]{dot}{rest}");
        self
    }
}

/// A payload behind its header. Positions count from there.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    body: &'a [u8],
    big: bool,
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    Signed(i64),
    /// An unsigned integer.
    Unsigned(u64),
    /// A floating-point number.
    Float(f64),
    /// A text.
    Text(&'a str),
    /// Numbers, in the byte order of the payload.
    Numbers {
        /// Their type.
        number: Number,
        /// Their bytes.
        octets: &'a [u8],
        /// The position of the first one.
        at: usize,
    },
    /// Texts, for [`Input::text`].
    Texts {
        /// How many.
        count: usize,
        /// The position of the first one.
        at: usize,
    },
    /// A structure, for [`Plan::read`].
    Record {
        /// The structure.
        record: usize,
        /// Its position.
        at: usize,
    },
    /// Structures, for [`Plan::read`] or [`Plan::skip`].
    Records {
        /// The structure.
        record: usize,
        /// How many.
        count: usize,
        /// The position of the first one.
        at: usize,
    },
}

impl<'a> Input<'a> {
    /// Reads the header.
    ///
    /// # Errors
    ///
    /// Returns [`Misfit`] unless the payload begins with a header of plain CDR.
    pub fn open(payload: &'a [u8]) -> Result<Self, Misfit> {
        let Some((header, body)) = payload.split_first_chunk::<HEADER>() else {
            let problem = Problem::NoHeader(payload.len());
            return Err(Misfit { problem, offset: 0, path: String::new() });
        };
        match *header {
            [0, order @ (0 | 1), ..] => Ok(Self { body, big: order == 0 }),
            [a, b, ..] => Err(Misfit { problem: Problem::Header([a, b]), offset: 0, path: String::new() }),
        }
    }

    /// Whether numbers have their highest byte first.
    #[must_use]
    pub const fn is_big(&self) -> bool {
        self.big
    }

    fn short(&self) -> Misfit {
        Misfit::at(Problem::Short, self.body.len())
    }

    fn octets(&self, at: usize, size: usize) -> Result<&'a [u8], Misfit> {
        let end = at.checked_add(size).ok_or_else(|| self.short())?;
        self.body.get(at..end).ok_or_else(|| self.short())
    }

    fn fixed<const N: usize>(&self, at: usize) -> Result<[u8; N], Misfit> {
        let octets = self.octets(at, N)?;
        let mut found = [0; N];
        found.copy_from_slice(octets);
        if self.big {
            found.reverse();
        }
        Ok(found)
    }

    /// A number at an aligned position.
    fn number(&self, number: Number, at: usize) -> Result<Value<'a>, Misfit> {
        Ok(match number {
            Number::Bool => Value::Bool(self.fixed::<1>(at)? != [0]),
            Number::I8 => Value::Signed(i8::from_le_bytes(self.fixed(at)?).into()),
            Number::U8 => Value::Unsigned(u8::from_le_bytes(self.fixed(at)?).into()),
            Number::I16 => Value::Signed(i16::from_le_bytes(self.fixed(at)?).into()),
            Number::U16 => Value::Unsigned(u16::from_le_bytes(self.fixed(at)?).into()),
            Number::I32 => Value::Signed(i32::from_le_bytes(self.fixed(at)?).into()),
            Number::U32 => Value::Unsigned(u32::from_le_bytes(self.fixed(at)?).into()),
            Number::I64 => Value::Signed(i64::from_le_bytes(self.fixed(at)?)),
            Number::U64 => Value::Unsigned(u64::from_le_bytes(self.fixed(at)?)),
            Number::F32 => Value::Float(f32::from_le_bytes(self.fixed(at)?).into()),
            Number::F64 => Value::Float(f64::from_le_bytes(self.fixed(at)?)),
        })
    }

    /// The count at a position, and the position behind it. What is counted has at least a byte each.
    fn count(&self, at: usize, most: usize) -> Result<(usize, usize), Misfit> {
        let at = aligned(at, 4);
        // A count fits an address.
        let count = u32::from_le_bytes(self.fixed(at)?) as usize;
        let left = self.body.len() - at - 4;
        if count > left {
            return Err(Misfit::at(Problem::Count { count, left }, at));
        }
        if count > most {
            return Err(Misfit::at(Problem::Bound { count, most }, at));
        }
        Ok((count, at + 4))
    }

    /// The text at a position, and the position behind it.
    ///
    /// # Errors
    ///
    /// Returns [`Misfit`] if the text is longer than the payload or than `most`, or not UTF-8.
    pub fn text(&self, at: usize, most: usize) -> Result<(&'a str, usize), Misfit> {
        let (count, at) = self.count(at, usize::MAX)?;
        let octets = self.octets(at, count)?;
        // The final zero is part of the length; some writers leave it out.
        let octets = octets.strip_suffix(b"\0").unwrap_or(octets);
        if octets.len() > most {
            return Err(Misfit::at(Problem::Bound { count: octets.len(), most }, at - 4));
        }
        match core::str::from_utf8(octets) {
            Ok(text) => Ok((text, at + count)),
            Err(error) => Err(Misfit::at(Problem::Utf8, at + error.valid_up_to())),
        }
    }
}

impl Plan {
    /// Checks that a payload is a message of this type, and nothing else.
    ///
    /// # Errors
    ///
    /// Returns [`Misfit`] with field and offset.
    pub fn check<'a>(&self, payload: &'a [u8]) -> Result<Input<'a>, Misfit> {
        let input = Input::open(payload)?;
        let end = self.skip(input, self.message(), 0)?;
        let rest = input.body.len() - end;
        if rest > PADDING { Err(Misfit::at(Problem::Rest(rest), end)) } else { Ok(input) }
    }

    /// The position behind a structure, all of which is checked.
    ///
    /// # Errors
    ///
    /// Returns [`Misfit`] if the payload ends before, or a part of the structure is none of its type.
    pub fn skip(&self, input: Input<'_>, record: usize, mut at: usize) -> Result<usize, Misfit> {
        let compiled = &self.records[record];
        for step in &compiled.steps {
            match step {
                Step::Run { end, sizes } => {
                    let next = at + sizes[at % 8];
                    if next > input.body.len() {
                        return Err(self.run_short(input, &compiled.record.fields[..*end], at));
                    }
                    at = next;
                }
                Step::Field(number) => {
                    let field = &compiled.record.fields[*number];
                    at = self.skip_field(input, field, at).map_err(|error| error.within(&field.name))?;
                }
            }
        }
        Ok(at)
    }

    /// The error of a run that the payload cuts; `fields` end with those of the run.
    #[cold]
    fn run_short(&self, input: Input<'_>, fields: &[Field], at: usize) -> Misfit {
        let fixed = |field: &&Field| {
            !matches!(field.many, Many::Sequence(_))
                && match field.item {
                    Item::Number(_) => true,
                    Item::Text(_) => false,
                    Item::Record(inner) => self.records[inner].sizes.is_some(),
                }
        };
        let run = fields.iter().rev().take_while(fixed).count();
        let mut at = at;
        for field in &fields[fields.len() - run..] {
            match self.skip_field(input, field, at) {
                Ok(next) => at = next,
                Err(error) => return error.within(&field.name),
            }
        }
        input.short()
    }

    fn skip_field(&self, input: Input<'_>, field: &Field, at: usize) -> Result<usize, Misfit> {
        let (count, mut at) = start(input, field, at)?;
        match field.item {
            Item::Number(number) => numbers(input, number, count, at).map(|(octets, at)| at + octets.len()),
            Item::Text(most) => {
                for item in 0..count {
                    at = match input.text(at, most) {
                        Ok((_, next)) => next,
                        Err(error) => return Err(placed(error, field, item)),
                    };
                }
                Ok(at)
            }
            Item::Record(record) => {
                let sizes = self.records[record].sizes;
                for item in 0..count {
                    if let Some(sizes) = sizes {
                        let next = at + sizes[at % 8];
                        if next <= input.body.len() {
                            at = next;
                            continue;
                        }
                    }
                    at = self.skip(input, record, at).map_err(|error| placed(error, field, item))?;
                }
                Ok(at)
            }
        }
    }

    /// Reads the fields of a structure at a position, and returns the position behind it. Structures in it are left to
    /// further calls, and their contents are checked.
    ///
    /// # Errors
    ///
    /// Returns [`Misfit`] if the payload is none of this type, or an error of `take`, which gets the number of each
    /// field and its value.
    pub fn read<'a, E: From<Misfit>>(
        &self,
        input: Input<'a>,
        record: usize,
        mut at: usize,
        mut take: impl FnMut(usize, Value<'a>) -> Result<(), E>,
    ) -> Result<usize, E> {
        for (number, field) in self.records[record].record.fields.iter().enumerate() {
            let (value, next) =
                self.value(input, field, at).map_err(|error| E::from(error.within(&field.name)))?;
            take(number, value)?;
            at = next;
        }
        Ok(at)
    }

    fn value<'a>(&self, input: Input<'a>, field: &Field, at: usize) -> Result<(Value<'a>, usize), Misfit> {
        Ok(match (field.item, field.many) {
            (Item::Number(number), Many::One) => {
                let at = aligned(at, number.size());
                (input.number(number, at)?, at + number.size())
            }
            (Item::Text(most), Many::One) => {
                let (text, next) = input.text(at, most)?;
                (Value::Text(text), next)
            }
            (Item::Record(record), Many::One) => {
                (Value::Record { record, at }, self.skip(input, record, at)?)
            }
            (item, _) => {
                let end = self.skip_field(input, field, at)?;
                let (count, at) = start(input, field, at)?;
                let value = match item {
                    Item::Number(number) => {
                        let (octets, at) = numbers(input, number, count, at)?;
                        Value::Numbers { number, octets, at }
                    }
                    Item::Text(_) => Value::Texts { count, at },
                    Item::Record(record) => Value::Records { record, count, at },
                };
                (value, end)
            }
        })
    }
}

/// How many values a field has, and the position behind their count.
fn start(input: Input<'_>, field: &Field, at: usize) -> Result<(usize, usize), Misfit> {
    match field.many {
        Many::One => Ok((1, at)),
        Many::Array(count) => Ok((count, at)),
        Many::Sequence(most) => input.count(at, most),
    }
}

/// The bytes of numbers and their position. None of them need no alignment.
fn numbers<'a>(
    input: Input<'a>,
    number: Number,
    count: usize,
    at: usize,
) -> Result<(&'a [u8], usize), Misfit> {
    let at = if count == 0 { at } else { aligned(at, number.size()) };
    // A count is below the length of the payload, or that of an array.
    let octets = input.octets(at, count * number.size())?;
    Ok((octets, at))
}

#[cold]
fn placed(error: Misfit, field: &Field, item: usize) -> Misfit {
    if field.many == Many::One { error } else { error.item(item) }
}
