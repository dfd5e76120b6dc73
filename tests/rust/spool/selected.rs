//! Selections of rows by key and time: the same rows as by reading all, from fewer segments.

use crate::support::{Folder, ID, NOW, column};
use arrow_array::{Int64Array, StringArray, TimestampMicrosecondArray};
use proptest::prelude::*;
use std::{fs, sync::Arc};
use zwire_spool::{
    BatchLimits, Error, KeyChoice, Layout, Options, Plan, Rule, Selection, Shard, ShardWriter, Shards, Spool,
    Value, Wanted, Writer, layout::SAMPLES, wire::Receiver,
};

const SHARD: Shard = Shard::Data(0);

fn open(folder: &Folder) -> (Writer, Shards) {
    let layout = Layout::select(&SAMPLES, &["key", "payload"]).unwrap();
    let wanted = Wanted { layout, shards: 1, rule: Rule::Hash };
    Writer::open(&folder.0, &wanted, ID, &Options::default(), NOW).unwrap()
}

fn push(writer: &mut ShardWriter, key: &str, time: i64) {
    let row = [Value::Text(key), Value::Bytes(b"payload"), Value::Int(0), Value::Int(time), Value::Null];
    writer.push(&row).unwrap();
}

/// Keys that begin with a text, and all times from one to another.
fn selection(begin: Option<&'static str>, times: Option<(i64, i64)>) -> Arc<Selection> {
    let keys = begin.map(|begin| {
        let expression = format!("{begin}/**");
        let wants = move |key: &str| {
            key.strip_prefix(begin).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        KeyChoice::new(&[expression], Arc::new(wants))
    });
    let (since, until) = times.unzip();
    Arc::new(Selection { keys, since, until })
}

/// Offsets, keys and times.
type Row = (u64, String, i64);

fn all(
    spool: &Spool,
    range: (u64, u64),
    selection: Option<Arc<Selection>>,
) -> Result<(Vec<Row>, (u64, u64)), Error> {
    let columns = ["offset", "key", "recv_ts"];
    let mut rows = spool.read(SHARD, range.0, range.1, Some(&columns), BatchLimits::default())?;
    if let Some(selection) = selection {
        rows = rows.select(selection)?;
    }
    let mut found = Vec::new();
    while let Some(batch) = rows.next_batch()? {
        let (offsets, keys) = (column::<Int64Array>(&batch, "offset"), column::<StringArray>(&batch, "key"));
        let times = column::<TimestampMicrosecondArray>(&batch, "recv_ts");
        found.extend(
            (0..batch.num_rows()).map(|row| {
                (offsets.value(row).cast_unsigned(), keys.value(row).to_owned(), times.value(row))
            }),
        );
    }
    Ok((found, rows.segments()))
}

/// The same over a network.
fn remote(spool: &Spool, to: u64, selection: &Arc<Selection>) -> Vec<u64> {
    let names: Vec<String> = spool.layout(SHARD).names().iter().map(ToString::to_string).collect();
    let about = (SAMPLES.name, &names[..]);
    let mut receiver =
        Receiver::new("zwire:test", about, SHARD, (0, to), Some(&["offset"]), BatchLimits::default())
            .unwrap();
    receiver.select(selection.clone()).unwrap();
    let mut found = Vec::new();
    while receiver.next() < to {
        let mut cursor = spool.cursor(SHARD).unwrap();
        cursor.select(Some(selection.clone()));
        let mut answer = cursor.answer(receiver.next(), to, 1 << 20).unwrap();
        while let Some((label, block)) = answer.next_block().unwrap() {
            receiver.take(&label.encode(), block.to_vec().into());
        }
    }
    receiver.finish().unwrap();
    while let Some(batch) = receiver.next_batch().unwrap() {
        found.extend(
            column::<Int64Array>(&batch, "offset").values().iter().map(|offset| offset.cast_unsigned()),
        );
    }
    found
}

/// Segments of ten rows in blocks of five: all of one robot, a second a row.
fn robots(folder: &Folder, segments: u64) {
    let (_writer, mut shards) = open(folder);
    let shard = &mut shards.data[0];
    for segment in 0..segments {
        for row in 0..10 {
            push(shard, &format!("fleet/{}/pose", segment % 10), second(segment * 10 + row));
            if row % 5 == 4 {
                shard.flush(NOW).unwrap();
            }
        }
        shard.seal().unwrap();
    }
    shard.close(NOW).unwrap();
}

fn second(number: u64) -> i64 {
    NOW + number.cast_signed() * 1_000_000
}

#[test]
fn segments_without_wanted_rows_are_not_opened() {
    let folder = Folder::new();
    robots(&folder, 40);
    let spool = folder.spool();
    let seven = selection(Some("fleet/7"), None);
    let (rows, segments) = all(&spool, (0, 400), Some(seven.clone())).unwrap();
    assert_eq!((rows.len(), segments), (40, (4, 36)));
    assert!(rows.iter().all(|(_, key, _)| key == "fleet/7/pose"));
    let day = selection(None, Some((second(95), second(120))));
    let (rows, segments) = all(&spool, (0, 400), Some(day.clone())).unwrap();
    assert_eq!(rows.iter().map(|row| row.0).collect::<Vec<_>>(), (95..120).collect::<Vec<_>>());
    assert_eq!(segments, (3, 37));
    let both = selection(Some("fleet/7"), Some((second(175), second(300))));
    assert_eq!(all(&spool, (0, 400), Some(both.clone())).unwrap().1, (2, 38));
    assert_eq!(all(&spool, (0, 400), Some(selection(Some("fleet/11"), None))).unwrap(), (vec![], (0, 40)));

    let (start, end) = ([(0, 0)].into(), [(0, 400)].into());
    let plan = spool.plan(&start, &end, Some(&both)).unwrap();
    assert_eq!((plan.segments, plan.skipped), (2, 38));
    let whole = spool.plan(&start, &end, None).unwrap();
    let sizes = folder.files("0", "arrow").into_iter().map(|file| fs::metadata(file).unwrap().len());
    assert_eq!(whole, Plan { segments: 40, skipped: 0, bytes: sizes.sum() });
    let parts = spool.split(&start, &end, 4, Some(&seven)).unwrap();
    assert_eq!(
        parts.iter().map(|part| (part.start, part.stop)).collect::<Vec<_>>(),
        [(0, 80), (80, 180), (180, 280), (280, 400)]
    );
    let none = spool.split(&start, &end, 4, Some(&selection(Some("fleet/11"), None))).unwrap();
    assert_eq!(
        none.iter().map(|part| (part.start, part.stop, part.bytes)).collect::<Vec<_>>(),
        [(0, 400, 0)]
    );
    // Limits pass over what is not wanted, and reach the end where nothing else is.
    let walk = |from: u64, rows, bytes| {
        spool.walk(&[(0, from)].into(), &end, (rows, bytes), Some(&*seven)).unwrap()[&0]
    };
    assert_eq!((walk(0, Some(10), None), walk(80, Some(15), None)), (170, 275));
    assert_eq!((walk(0, Some(1), None), walk(380, Some(1), None)), (71, 400));
    assert!((70..=80).contains(&walk(0, None, Some(2000))));
    assert_eq!(walk(380, None, Some(1)), 400);
    assert_eq!(spool.at(second(215)).unwrap(), [(0, 215)].into());
    assert_eq!(remote(&spool, 400, &both), (175..180).chain(270..280).collect::<Vec<_>>());
}

#[test]
fn a_damaged_segment_is_noticed_by_the_readers_of_its_rows() {
    let folder = Folder::new();
    robots(&folder, 12);
    let spool = folder.spool();
    fs::write(&folder.files("0", "arrow")[3], b"damaged").unwrap();
    let read = |begin| all(&spool, (0, 120), Some(selection(Some(begin), None)));
    assert!(matches!(read("fleet/3"), Err(Error::Corrupt { offset: 30, resumes: Some(40), .. })));
    assert_eq!(read("fleet/1").unwrap().0.len(), 20);
}

/// A list that is changed anywhere leaves out no row that is wanted.
#[test]
fn a_damaged_list_of_segments_leaves_out_nothing() {
    let folder = Folder::new();
    robots(&folder, 12);
    let list = folder.0.join("0/segments");
    let octets = fs::read(&list).unwrap();
    let read = || all(&folder.spool(), (0, 120), Some(selection(Some("fleet/1"), None))).unwrap();
    let (rows, segments) = read();
    assert_eq!((rows.len(), segments), (20, (2, 10)));
    for at in 0..octets.len() {
        let mut changed = octets.clone();
        changed[at] ^= 1 << (at % 8);
        fs::write(&list, &changed).unwrap();
        assert_eq!(read().0, rows, "octet {at}");
        fs::write(&list, &octets[..at]).unwrap();
        assert_eq!(read().0, rows, "cut at {at}");
    }
    fs::remove_file(&list).unwrap();
    assert_eq!(read(), (rows.clone(), (12, 0)), "without a list, all segments are opened");
    // The next writer makes it again, from what segments have at their ends.
    drop(open(&folder));
    assert_eq!(read(), (rows.clone(), (2, 10)));
    fs::write(&list, &octets[..octets.len() - 9]).unwrap();
    drop(open(&folder));
    assert_eq!(read(), (rows, (2, 10)));
}

#[test]
fn a_segment_of_a_writer_that_was_killed_is_described_by_the_next() {
    let folder = Folder::new();
    let (_writer, mut shards) = open(&folder);
    for row in 0..20 {
        push(&mut shards.data[0], &format!("fleet/{row}/pose"), second(row));
        shards.data[0].flush(NOW).unwrap();
    }
    let elsewhere = || all(&folder.spool(), (0, 20), Some(selection(Some("elsewhere"), None))).unwrap().1;
    assert_eq!(elsewhere(), (1, 0), "a segment that is written may have any row");
    let killed = folder.copy();
    drop(open(&killed));
    let read = |begin| all(&killed.spool(), (0, 20), Some(selection(Some(begin), None))).unwrap();
    assert_eq!(read("elsewhere").1, (0, 1));
    assert_eq!(read("fleet/19").0.len(), 1);
}

/// A segment that nothing lists may have had any row.
#[test]
fn a_missing_segment_is_missed_by_every_reader() {
    let folder = Folder::new();
    robots(&folder, 12);
    let spool = folder.spool();
    fs::remove_file(&folder.files("0", "arrow")[3]).unwrap();
    for begin in ["fleet/3", "fleet/1"] {
        let read = all(&spool, (0, 120), Some(selection(Some(begin), None)));
        assert!(matches!(read, Err(Error::Missing { offset: 30, until: 40, .. })));
    }
}

#[test]
fn rows_without_keys_are_not_selected_by_them() {
    let folder = Folder::new();
    robots(&folder, 1);
    let spool = folder.spool();
    let rows = spool.read(Shard::Gaps, 0, 0, None, BatchLimits::default()).unwrap();
    let error = rows.select(selection(Some("a"), None)).err().unwrap();
    assert_eq!(error.to_string(), "gap log: its rows have no key");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Few keys in a segment or many, clocks that jump, segments anywhere.
    #[test]
    fn a_selection_has_the_rows_that_are_wanted(
        segments in prop::collection::vec((1_u64..30, 1_u64..400, 0_i64..50), 1..12),
        which in 0_usize..4,
        times in prop::option::of((0_i64..60, 0_i64..30)),
        cut in 0.0..0.5_f64,
    ) {
        let folder = Folder::new();
        let (_writer, mut shards) = open(&folder);
        let shard = &mut shards.data[0];
        for (rows, keys, time) in &segments {
            for row in 0..*rows {
                let number = row * 7919 % keys;
                let key = if number % 3 == 0 { format!("fleet/{number}/pose") } else { format!("a/{number}") };
                push(shard, &key, NOW + time + row.cast_signed() / 4);
                if row % 7 == 6 {
                    shard.flush(NOW).unwrap();
                }
            }
            shard.flush(NOW).unwrap();
            shard.seal().unwrap();
        }
        shard.close(NOW).unwrap();
        let spool = folder.spool();
        let end = spool.mark(SHARD).unwrap().end;
        let begin = [None, Some("fleet"), Some("a/1"), Some("fleet/3")][which];
        let times = times.map(|(since, len)| (NOW + since, NOW + since + len));
        let selection = selection(begin, times);
        let range = ((end as f64 * cut) as u64, end - (end as f64 * cut) as u64);
        let wanted = |row: &Row| {
            begin.is_none_or(|begin| row.1 == begin || row.1.starts_with(&format!("{begin}/")))
                && times.is_none_or(|(since, until)| (since..until).contains(&row.2))
        };
        let expected: Vec<Row> = all(&spool, range, None).unwrap().0.into_iter().filter(wanted).collect();
        prop_assert_eq!(all(&spool, range, Some(selection.clone())).unwrap().0, expected);
        let all: Vec<u64> = all(&spool, (0, end), None).unwrap().0.into_iter().filter(wanted).map(|row| row.0).collect();
        prop_assert_eq!(remote(&spool, end, &selection), all.clone());
        // Ranges of a plan have all of them, each once.
        let parts = spool.split(&[(0, 0)].into(), &[(0, end)].into(), 3, Some(&selection)).unwrap();
        let mut found = Vec::new();
        for part in parts {
            found.extend(self::all(&spool, (part.start, part.stop), Some(selection.clone())).unwrap().0.iter().map(|row| row.0));
        }
        prop_assert_eq!(found, all.clone());
        // So have batches of a stream.
        let (mut at, mut found) = (0, Vec::new());
        while at < end {
            let to = spool.walk(&[(0, at)].into(), &[(0, end)].into(), (Some(5), None), Some(&selection)).unwrap()[&0];
            prop_assert!(to > at);
            found.extend(self::all(&spool, (at, to), Some(selection.clone())).unwrap().0.iter().map(|row| row.0));
            at = to;
        }
        prop_assert_eq!(found, all);
    }
}
