//! Planning over a million segments of a store: which of them have wanted rows.
//!
//! `cargo bench -p zwire-tier --bench plan` makes the manifest of a store of files, without any segment, as a spooler
//! writes it. Then a process of its own opens the store and plans, once for each line of the table: seconds of it all
//! until the ranges are known, and its greatest resident memory.

use std::{
    collections::BTreeMap,
    env, fs,
    path::Path,
    process::Command,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};
use zwire_spool::{
    KeyChoice, Layout, Options, Rule, Selection, Shard, Wanted, Writer,
    layout::SAMPLES,
    tier::{Keys, PAGE, Sealed},
};
use zwire_tier::{TierWriter, manifest::Change};

const SEGMENTS: u64 = 1_000_000;
/// A multiple of the segments of an entry, for a run that only tests.
const FEW: u64 = 20_480;
const MEBIBYTE: u64 = 1 << 20;
/// Robots of the fleet, of which each segment has ten.
const ROBOTS: u64 = 1000;

fn clock() -> Duration {
    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    BEGIN.elapsed()
}

/// Summary that names keys, each without what it shares with the one before.
fn keys(number: u64) -> Keys {
    let mut names: Vec<String> =
        (0..10).map(|at| format!("fleet/robot-{}/pose", (number * 10 + at) % ROBOTS)).collect();
    names.sort();
    let (mut octets, mut before) = (vec![1], "");
    for name in &names {
        let shared = before.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
        octets.extend([shared as u8, (name.len() - shared) as u8]);
        octets.extend_from_slice(&name.as_bytes()[shared..]);
        before = name;
    }
    Keys::stored(octets.into())
}

/// One mebibyte and a thousand rows, received in a second.
fn segment(number: u64) -> Sealed {
    Sealed {
        base: number * 1000,
        end: number * 1000 + 1000,
        rows: 1000,
        bytes: MEBIBYTE,
        crc: number as u32,
        times: (number as i64 * 1_000_000, number as i64 * 1_000_000 + 999_999),
        keys: Some(keys(number)),
        problem: None,
    }
}

fn make(dir: &Path, segments: u64) {
    let wanted = Wanted { layout: Layout::whole(&SAMPLES), shards: 1, rule: Rule::Hash };
    let (writer, _shards) =
        Writer::open(&dir.join("spool"), &wanted, [7; 16], &Options::default(), 0).expect("a spool");
    let url = format!("file://{}", dir.join("tier").display());
    let mut tier = TierWriter::new(&url, writer.meta(), clock).expect("a store");
    tier.begin(writer.meta(), 0).expect("an empty store");
    let mut record = |add: Vec<Sealed>| {
        let change = Change { add, ..Change::default() };
        tier.record(BTreeMap::from([(Shard::Data(0), change)]), 0).expect("an entry");
    };
    let all = (0..segments).step_by(PAGE);
    all.for_each(|from| record((from..segments.min(from + PAGE as u64)).map(segment).collect()));
    // The last state is as a spooler leaves it, with a segment in each of the last entries.
    (segments..segments + 100).for_each(|number| record(vec![segment(number)]));
    tier.hint().expect("a hint");
}

/// Opens the store and plans; returns a line.
fn plan(dir: &Path, what: &str) -> String {
    let begin = Instant::now();
    let spool = zwire_tier::open(&dir.join("tier"), clock).expect("a store");
    let mark = spool.mark(Shard::Data(0)).expect("a mark");
    let middle = (mark.end / 2000).cast_signed() * 1_000_000;
    let times = (what == "hour").then_some((middle, middle + 3_600_000_000));
    let (since, until) = times.unzip();
    let wants = |key: &str| key.starts_with("fleet/robot-7/");
    let keys = (what == "robot").then(|| KeyChoice::new(&["fleet/robot-7/**"], Arc::new(wants)));
    let selection = Selection { keys, since, until };
    let (start, end) = ([(0, 0)].into(), [(0, mark.end)].into());
    let found = spool.plan(&start, &end, Some(&selection)).expect("a plan");
    let seconds = begin.elapsed().as_secs_f64();
    let total = mark.end / 1000;
    assert_eq!(found.segments + found.skipped, total);
    let expected = match what {
        "hour" => 3600.min(total - total / 2)..=3600,
        "robot" => total / 100..=total / 100 + 1,
        _ => total..=total,
    };
    assert!(expected.contains(&found.segments), "{what}: {found:?} of {total}");
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak: u64 = peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0);
    format!("| {what} | {seconds:.4} | {} | {} |", found.segments, peak / 1024)
}

#[allow(clippy::print_stdout, reason = "the table is the result")]
fn main() {
    let args: Vec<String> = env::args().collect();
    if let [_, mode, dir, what] = &args[..]
        && mode == "plan"
    {
        println!("{}", plan(Path::new(dir), what));
        return;
    }
    let segments = if args.iter().any(|arg| arg == "--test") { FEW } else { SEGMENTS };
    let dir = env::temp_dir().join(format!("zwire-plan-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a folder");
    make(&dir, segments);
    println!("| wanted | seconds | segments | MB of memory |");
    println!("| --- | --- | --- | --- |");
    let program = env::current_exe().expect("this program");
    for what in ["hour", "robot", "all"] {
        let done = Command::new(&program).args(["plan", &dir.display().to_string(), what]).output();
        let done = done.expect("a process");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        print!("{}", String::from_utf8_lossy(&done.stdout));
    }
    fs::remove_dir_all(&dir).expect("the folder");
}
