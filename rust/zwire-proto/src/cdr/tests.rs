use super::*;
use crate::fuzzing::{copy, plan};
use proptest::prelude::*;

fn field(name: &str, item: Item, many: Many) -> Field {
    Field { name: name.into(), item, many }
}

fn number(name: &str, number: Number) -> Field {
    field(name, Item::Number(number), Many::One)
}

fn record(name: &str, fields: Vec<Field>) -> Record {
    Record { name: name.into(), fields }
}

/// `sensor_msgs/JointState` by its structures.
fn joints() -> Plan {
    let (text, any) = (Item::Text(usize::MAX), Many::Sequence(usize::MAX));
    let doubles = |name| field(name, Item::Number(Number::F64), any);
    Plan::new(vec![
        record("Time", vec![number("sec", Number::I32), number("nanosec", Number::U32)]),
        record(
            "Header",
            vec![field("stamp", Item::Record(0), Many::One), field("frame_id", text, Many::One)],
        ),
        record(
            "JointState",
            vec![
                field("header", Item::Record(1), Many::One),
                field("name", text, any),
                doubles("position"),
                doubles("velocity"),
                doubles("effort"),
            ],
        ),
    ])
    .unwrap()
}

/// As rosbags 0.11.9 writes it.
const JOINTS: &[u8] = b"\0\x01\0\0\0\xf1\x53\x65\x15\xcd\x5b\x07\x05\0\0\0base\0\0\0\0\x03\0\0\0\x02\0\0\0a\0\0\0\x06\0\0\0\
elbow\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\0\0\xf8\x3f\0\0\0\0\0\0\x04\x40\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\xf0\xbf";

fn turned(plan: &Plan, payload: &[u8]) -> Vec<u8> {
    let mut output = Output::default();
    copy(plan, Input::open(payload).unwrap(), plan.message(), 0, &mut output).unwrap();
    output.into_bytes()
}

#[test]
fn a_payload_of_another_implementation_is_read_and_written() {
    let plan = joints();
    plan.check(JOINTS).unwrap();
    assert_eq!(turned(&plan, JOINTS), JOINTS);
    let input = Input::open(JOINTS).unwrap();
    let mut seen = Vec::new();
    let end = plan
        .read(input, 2, 0, |number, value| {
            seen.push((number, value));
            Ok::<_, Misfit>(())
        })
        .unwrap();
    assert_eq!(end, JOINTS.len() - HEADER);
    assert_eq!(seen[0], (0, Value::Record { record: 1, at: 0 }));
    assert_eq!(seen[1], (1, Value::Texts { count: 3, at: 24 }));
    let velocity = Value::Numbers { number: Number::F64, octets: &[], at: 76 };
    assert_eq!(seen[3], (3, velocity), "no numbers, no alignment");
}

#[test]
fn every_cut_is_an_error_with_field_and_offset() {
    let plan = joints();
    for end in 0..JOINTS.len() {
        let error = plan.check(&JOINTS[..end]).unwrap_err();
        assert!(error.offset <= end, "{end}: {error:?}");
        assert_eq!(error.path.is_empty(), end < HEADER, "{end}: {error:?}");
    }
    let path = |end: usize| plan.check(&JOINTS[..end]).unwrap_err().path;
    assert_eq!(path(10), "header.stamp.nanosec");
    assert_eq!(path(38), "name[1]");
    assert_eq!(path(70), "position");
}

#[test]
fn lengths_that_lie_are_refused_before_anything_is_read() {
    let plan = joints();
    let mut payload = JOINTS.to_vec();
    payload[24..28].fill(0xFF);
    let error = plan.check(&payload).unwrap_err();
    assert_eq!(error.problem, Problem::Count { count: 0xFFFF_FFFF, left: JOINTS.len() - 28 });
    assert_eq!((error.offset, error.path.as_str()), (24, "name"));
    payload[24..28].copy_from_slice(&40_u32.to_le_bytes());
    assert!(plan.check(&payload).is_err());
    let more = [JOINTS, &[0; 4]].concat();
    assert_eq!(plan.check(&more).unwrap_err().problem, Problem::Rest(4));
    plan.check(&more[..more.len() - 1]).unwrap();
    assert_eq!(plan.check(b"\0\x07\0\0").unwrap_err().problem, Problem::Header([0, 7]));
    assert_eq!(plan.check(b"\0\x01").unwrap_err().problem, Problem::NoHeader(2));
}

#[test]
fn bounds_of_a_type_hold() {
    let few = field("few", Item::Number(Number::U8), Many::Sequence(2));
    let plan = Plan::new(vec![record("A", vec![few, field("text", Item::Text(3), Many::One)])]).unwrap();
    plan.check(b"\0\x01\0\0\x02\0\0\0ab\0\0\x04\0\0\0abc\0").unwrap();
    let error = plan.check(b"\0\x01\0\0\x03\0\0\0abc\0\x04\0\0\0abc\0").unwrap_err();
    assert_eq!((error.problem, error.path.as_str()), (Problem::Bound { count: 3, most: 2 }, "few"));
    let error = plan.check(b"\0\x01\0\0\x02\0\0\0ab\0\0\x05\0\0\0abcd\0").unwrap_err();
    assert_eq!((error.problem, error.path.as_str()), (Problem::Bound { count: 4, most: 3 }, "text"));
    let error = plan.check(b"\0\x01\0\0\x02\0\0\0ab\0\0\x03\0\0\0a\xff\0").unwrap_err();
    assert_eq!((error.problem, error.offset), (Problem::Utf8, 17));
}

#[test]
fn structures_that_make_no_plan_are_refused() {
    assert_eq!(Plan::new(vec![]).unwrap_err(), PlanError::Empty);
    assert_eq!(Plan::new(vec![record("A", vec![])]).unwrap_err(), PlanError::NoField("A".into()));
    let own = field("a", Item::Record(0), Many::One);
    let place = |record: &str, field: &str| (record.to_owned(), field.to_owned());
    let (record_, field_) = place("A", "a");
    let order = PlanError::Order { record: record_, field: field_ };
    assert_eq!(Plan::new(vec![record("A", vec![own])]).unwrap_err(), order);
    // Ten of ten of ten ...: 10^12 bytes.
    let tens = |at: usize| match at {
        0 => record("R", vec![field("x", Item::Number(Number::U8), Many::Array(10))]),
        _ => record("R", vec![field("x", Item::Record(at - 1), Many::Array(10))]),
    };
    assert_eq!(Plan::new((0..12).map(tens).collect()).unwrap_err(), PlanError::Size("R".into()));
    let nested = |at: usize| match at {
        0 => record("R", vec![field("x", Item::Text(9), Many::One)]),
        _ => record("R", vec![field("x", Item::Record(at - 1), Many::One)]),
    };
    assert_eq!(Plan::new((0..200).map(nested).collect()).unwrap_err(), PlanError::Size("R".into()));
}

#[test]
fn small_structures_have_few_values_and_no_array() {
    let plan = joints();
    // A time has two, a header a text more.
    assert!(plan.is_small(0, 2) && plan.is_small(1, 3));
    assert!(!plan.is_small(0, 1) && !plan.is_small(1, 2));
    assert!(!plan.is_small(2, usize::MAX));
}

/// The size of a run depends on where it begins.
#[test]
fn runs_are_aligned_as_one_number_after_another() {
    let small =
        record("S", vec![number("a", Number::U8), number("b", Number::F64), number("c", Number::U16)]);
    let some = field("s", Item::Record(0), Many::Array(3));
    let message = record("M", vec![number("x", Number::U8), some, number("y", Number::U32)]);
    let plan = Plan::new(vec![small, message]).unwrap();
    // x 0, a 1, b 8..16, c 16..18, a 18, b 24..32, c 32..34, a 34, b 40..48, c 48..50, y 52..56.
    let payload = [&b"\0\x01\0\0"[..], &[0; 56]].concat();
    plan.check(&payload).unwrap();
    assert_eq!(plan.skip(Input::open(&payload).unwrap(), 1, 0), Ok(56));
    assert_eq!(turned(&plan, &payload), payload);
    assert_eq!(plan.check(&payload[..59]).unwrap_err().path, "y");
    assert_eq!(plan.check(&payload[..40]).unwrap_err().path, "s[2].b");
}

#[test]
fn the_seed_of_the_fuzz_target_is_a_payload_of_its_type() {
    let fields = b"\x0b\x05\0\x06\0\x0f\0\x0c\0\x0b\0\x0f\0\x1c\0\x0b\x06\x0a\x06\x0a\x06\x0a\x06";
    let data = [&fields[..], JOINTS].concat();
    let (plan, payload) = plan(&data).unwrap();
    assert_eq!(payload, JOINTS);
    plan.check(payload).unwrap();
    crate::fuzzing::cdr(&data);
}

proptest! {
    /// Any type and any bytes: no panic; what is read is written again, and read as the same.
    #[test]
    fn any_type_and_any_payload(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        crate::fuzzing::cdr(&data);
    }

    /// Payloads of zeros are of nearly every type, in both byte orders.
    #[test]
    fn payloads_of_zeros(data in proptest::collection::vec(any::<u8>(), 1..40), big in any::<bool>()) {
        if let Some((plan, _)) = plan(&data) {
            let payload = [&[0, u8::from(!big), 0, 0][..], &[0; 4096]].concat();
            let input = Input::open(&payload).unwrap();
            let mut output = Output::default();
            if copy(&plan, input, plan.message(), 0, &mut output).is_ok() {
                plan.check(&output.into_bytes()).unwrap();
            }
        }
    }
}
