//! Payloads of ROS 2.

use crate::cdr::{Field, Input, Item, Many, Misfit, Number, Output, Plan, Record, Value};

/// A type and a payload of it: the first byte is the number of fields, two bytes describe each.
pub fn cdr(data: &[u8]) {
    let Some((plan, payload)) = plan(data) else { return };
    let Ok(input) = plan.check(payload) else {
        if let Ok(input) = Input::open(payload) {
            // The parts do not panic either where the whole is none of the type.
            let _ = copy(&plan, input, plan.message(), 0, &mut Output::default());
        }
        return;
    };
    let written = |input, output: &mut Output| {
        copy(&plan, input, plan.message(), 0, output).expect("a checked payload is read");
    };
    let mut output = Output::default();
    written(input, &mut output);
    let canonical = output.into_bytes();
    // A text without its final zero gains one, and four bytes of alignment behind it.
    assert!(canonical.len() <= payload.len() * 3 + 8, "{} of {}", canonical.len(), payload.len());
    let input = plan.check(&canonical).expect("a payload that was written is read");
    let mut output = Output::default();
    written(input, &mut output);
    assert_eq!(output.into_bytes(), canonical);
}

/// The type that some bytes describe, and the rest of them.
pub(crate) fn plan(data: &[u8]) -> Option<(Plan, &[u8])> {
    let (&count, mut rest) = data.split_first()?;
    let (mut records, mut fields) = (Vec::<Record>::new(), Vec::new());
    for name in 0..count % 32 {
        let (&[item, many], next) = rest.split_first_chunk()?;
        rest = next;
        let item = match item % 16 {
            kind @ 0..11 => Item::Number(Number::ALL[usize::from(kind)]),
            11 => Item::Text(if many & 1 == 0 { usize::MAX } else { 5 }),
            12..15 if !records.is_empty() => Item::Record(usize::from(item >> 4) % records.len()),
            _ => {
                if !fields.is_empty() {
                    records.push(Record { name: format!("R{name}"), fields: core::mem::take(&mut fields) });
                }
                continue;
            }
        };
        let many = match many % 8 {
            0..4 => Many::One,
            4 => Many::Array(usize::from(many >> 3) % 5 + 1),
            5 => Many::Sequence(usize::from(many >> 3)),
            _ => Many::Sequence(usize::MAX),
        };
        fields.push(Field { name: format!("f{name}"), item, many });
    }
    if !fields.is_empty() {
        records.push(Record { name: "Message".into(), fields });
    }
    Some((Plan::new(records).ok()?, rest))
}

/// Writes a structure of a payload again.
pub(crate) fn copy(
    plan: &Plan,
    input: Input<'_>,
    record: usize,
    at: usize,
    output: &mut Output,
) -> Result<usize, Misfit> {
    let fields = &plan.records().nth(record).expect("a structure of the plan").fields;
    plan.read(input, record, at, |number, value| {
        let field = &fields[number];
        let listed = matches!(field.many, Many::Sequence(_));
        match value {
            Value::Bool(value) => output.number([value.into()]),
            Value::Signed(_) | Value::Unsigned(_) | Value::Float(_) => scalar(field, value, output),
            Value::Text(text) => output.text(text).expect("short"),
            Value::Numbers { number, octets, .. } => {
                let size = number.size();
                if listed {
                    output.count(octets.len() / size).expect("short");
                }
                if input.is_big() {
                    let turned: Vec<u8> =
                        octets.chunks(size).flat_map(|one| one.iter().rev().copied()).collect();
                    output.numbers(size, &turned);
                } else {
                    output.numbers(size, octets);
                }
            }
            Value::Texts { count, mut at } => {
                if listed {
                    output.count(count).expect("short");
                }
                for _ in 0..count {
                    let (text, next) = input.text(at, usize::MAX)?;
                    output.text(text).expect("short");
                    at = next;
                }
            }
            Value::Record { record, at } => {
                copy(plan, input, record, at, output)?;
            }
            Value::Records { record, count, mut at } => {
                if listed {
                    output.count(count).expect("short");
                }
                for _ in 0..count {
                    let next = copy(plan, input, record, at, output)?;
                    assert_eq!(plan.skip(input, record, at), Ok(next), "skipping and reading agree");
                    at = next;
                }
            }
        }
        Ok(())
    })
}

#[expect(clippy::cast_possible_truncation, reason = "the values are of the type")]
#[expect(clippy::cast_sign_loss, reason = "the same")]
fn scalar(field: &Field, value: Value<'_>, output: &mut Output) {
    let bits = match value {
        Value::Signed(value) => value as u64,
        Value::Unsigned(value) => value,
        Value::Float(value) if field.item == Item::Number(Number::F32) => u64::from((value as f32).to_bits()),
        Value::Float(value) => value.to_bits(),
        _ => unreachable!("called for numbers"),
    };
    let Item::Number(number) = field.item else { unreachable!("called for numbers") };
    match number.size() {
        1 => output.number((bits as u8).to_le_bytes()),
        2 => output.number((bits as u16).to_le_bytes()),
        4 => output.number((bits as u32).to_le_bytes()),
        _ => output.number(bits.to_le_bytes()),
    }
}
