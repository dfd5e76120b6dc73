//! Writes the seeds of the fuzz targets, from the vectors: `cargo run --bin seeds`.

use bytes::Bytes;
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};
use zwire_proto::zenoh::wire::{BatchItem, BatchReader};

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target)
}

fn unhex(s: &str) -> Vec<u8> {
    (0..s.len()).step_by(2).map(|i| u8::from_str_radix(&s[i..i + 2], 16).expect("hex digits")).collect()
}

fn examples(protocol: &str) -> io::Result<Vec<serde_json::Value>> {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors");
    Ok(serde_json::from_slice(&fs::read(vectors.join(protocol).join("examples.json"))?)?)
}

/// Writes each worked example for the target that it concerns; the network messages of a batch also
/// alone.
fn main() -> io::Result<()> {
    let mut written = 0;
    let mut write = |target: &str, name: &str, bytes: &[u8]| -> io::Result<()> {
        fs::create_dir_all(folder(target))?;
        written += 1;
        fs::write(folder(target).join(name), bytes)
    };
    let zmtp: BTreeMap<String, Vec<u8>> = examples("zmtp")?
        .iter()
        .map(|example| {
            let text = |field: &str| example[field].as_str().unwrap_or_default();
            (text("id").to_owned(), unhex(text("bytes")))
        })
        .collect();
    for (id, bytes) in &zmtp {
        write("zmtp", id, bytes)?;
    }
    // Whole sides of connections: a DEALER, a SUB, and clients of PLAIN and CURVE.
    let mut plain = zmtp["15.1.1"].clone();
    plain[12..17].copy_from_slice(b"PLAIN");
    let mut curve = zmtp["15.1.1"].clone();
    curve[12..17].copy_from_slice(b"CURVE");
    for (name, greeting, parts) in [
        ("curve", &curve, &["15.9.1", "15.9.3", "15.9.5"][..]),
        ("dealer", &zmtp["15.1.1"], &["15.2", "15.4", "15.6.1", "15.4", "15.6.3"][..]),
        ("sub", &zmtp["15.1.1"], &["15.3.3", "15.5.1", "15.5.3", "15.5.2", "15.5.5"][..]),
        ("plain", &plain, &["15.8.1", "15.8.3", "15.4"][..]),
    ] {
        let side: Vec<u8> = parts.iter().fold(greeting.clone(), |side, id| [&side[..], &zmtp[*id]].concat());
        write("zmtp", name, &side)?;
        for mode in 0..3 {
            write("dissect", &format!("{name}-{mode}"), &[&[mode], &side[..]].concat())?;
        }
    }
    // A DEALER with a last frame on loan.
    let loan = unhex("0409044C4F414E07010008");
    write("zmtp", "loan", &[&zmtp["15.1.1"][..], &zmtp["15.2"], &loan, &[0, 0]].concat())?;
    let ready = |identity: &[u8]| -> Vec<u8> {
        let mut ready = zmtp["15.2"].clone();
        let at = ready.len() - identity.len();
        ready[at..].copy_from_slice(identity);
        ready
    };
    // A member joins, sends the rest of the examples, and falls silent.
    let mut group = Vec::new();
    // Every message that fits, in both directions.
    let mut passing = Vec::new();
    let start = [&[0], &zmtp["15.1.1"][..], &ready(&unhex("010F1E2D3C4B5A69788796A5B4C3D2E1F0"))].concat();
    for example in examples("zenoh")? {
        let text = |field: &str| example[field].as_str().unwrap_or_default();
        let bytes = unhex(text("bytes"));
        let prefix = match text("prefix") {
            "u16" => 2,
            "u32" => 4,
            _ => 0,
        };
        let (id, bytes) = (text("id"), &bytes[prefix..]);
        match text("form") {
            "scouting" => write("scouting", id, bytes)?,
            "messages" | "low_latency" => write("network", id, bytes)?,
            "query" => write("network", id, &[&[0x1c, 0x01, 0x00], bytes].concat())?,
            "compressed" if bytes[0] != 0 => {}
            form => {
                let batch = Bytes::copy_from_slice(if form == "compressed" { &bytes[1..] } else { bytes });
                write("transport", id, &batch)?;
                if let Ok(len) = u8::try_from(batch.len()) {
                    let from = if id == "E66" { 2 } else { 1 };
                    group.push((id != "E59", [&[0x0b, from, len], &batch[..]].concat()));
                }
                let mut walk = BatchReader::new(&batch);
                let mut start = 0;
                while let Ok(Some(item)) = walk.next_item() {
                    if matches!(item, BatchItem::Network(_)) {
                        let message = &batch[start..walk.offset()];
                        if let Ok(len) = u8::try_from(message.len()) {
                            passing.push([&[0x80, len], message, &[0x81, len], message].concat());
                        }
                        write("network", &format!("{id}-{start}"), &batch[start..walk.offset()])?;
                    }
                    start = walk.offset();
                }
            }
        }
    }
    group.sort_by_key(|(later, _)| *later);
    let said = group.iter().map(|(_, piece)| &piece[..]);
    write("intercept", "script", &passing.concat())?;
    write("group", "script", &said.chain([&[0xf8, 0, 0][..]].repeat(6)).collect::<Vec<_>>().concat())?;
    // Routers that introduce themselves, declare and are queried; clients; a link that is lost.
    for mode in 0..4 {
        let face = |number: u8, role: u8| vec![0x11, number, 1, 0x30 + role];
        let links = [0x00, 1, 0x02, 0, 0x01, 0, 0x00, 0, 0x02, 1, 0x01, 0];
        let said = |number: u8, bytes: [u8; 6]| [&[0x1b, number, 6][..], &bytes].concat();
        let mut script = vec![mode];
        for (number, role) in [(0, 0), (1, 2), (2, 1), (3, 0), (4, 2)] {
            script.extend(face(number, role));
        }
        for number in [0, 2, 3] {
            let mut links = links;
            links[3] = number;
            script.extend([&[0x18, number, 12][..], &links].concat());
        }
        script.extend([0xf0, 0, 0]);
        for number in 0..5 {
            script.extend(said(number, [1, 1, 0, 0x20, 0, 0]));
            script.extend(said(number, [3, 1, 2, 0x22, 2, 0]));
            script.extend(said(number, [4, 2, 1, 0x23, 0, 0]));
            script.extend(said(number, [10, 3, 0, 0x23, 2, 0x17]));
            script.extend(said(number, [12, 0, 1, 0x21, 0, 0]));
            script.extend(said(number, [13, number, 1, 0x20, 0, 200]));
        }
        script.extend([0x02, 3, 0, 0xf0, 0, 0]);
        write("zenoh_node", &format!("script-{mode}"), &script)?;
    }
    // Samples with gaps, heartbeats, tokens, queries and their replies, with and without recovery.
    for mode in [0x30, 0x37, 0x3f_u8] {
        let mut script = vec![mode];
        let mut say = |what: u8, who: u8, bytes: &[u8]| {
            script.extend([&[what, who, bytes.len().try_into().unwrap_or(0)], bytes].concat());
        };
        for sn in [1, 2, 5, 6, 9] {
            say(0, 2, &[sn, 0, 0, 0]);
            say(5, 2, &[sn + 1, 0, 0, 0]);
            say(7, sn, b"_sn=1..5;_max=2;_time=[now(-1s)..]");
        }
        say(2, 2, &[12, 0, 0, 0]);
        say(3, 7, b"a/@adv/pub/1e/3/_");
        say(4, 1, b"a/@adv/pub/1e/2/_");
        say(4, 1, b"a/@adv/pub/1e/uhlc/_");
        say(1, 200, &[1, 0, 0, 0, 0, 0, 0, 1]);
        say(0x0e, 0, b"\x02");
        say(0x0e, 1, b"\x01");
        say(0xf8, 1, b"_sn=3..");
        write("advanced", &format!("script-{mode:02x}"), &script)?;
    }
    // SCOUT, HELLO, an outgoing and an incoming connection, and their ends.
    let found: &[u8] = b"\x22\x09\x01\x05\x01\x11tcp/10.0.0.5:7447";
    let steps: [(u8, u8, &[u8]); 9] = [
        (0x07, 5, b"\x01\x09\x07"),
        (0x06, 5, found),
        (0x02, 5, b"\x00"),
        (0x02, 5, b"\x02"),
        (0x02, 5, b"\x01"),
        (0x04, 0, b"\x01"),
        (0x0b, 5, b""),
        (0xa0, 0, b""),
        (0x02, 5, b"\x03"),
    ];
    let steps =
        steps.iter().map(|(what, whom, piece)| [&[*what, *whom, piece.len() as u8][..], piece].concat());
    write("discovery", "script", &steps.collect::<Vec<_>>().concat().repeat(3))?;
    // Messages of the channel of shared memory, payloads in slices, and steps of a lender.
    for (name, hex) in [
        ("hello", "0107070707070707070707070707070707"),
        ("ring", "038020"),
        ("segment", "040380808002"),
        ("mapped", "0503"),
        ("retired", "0703"),
        ("loan", "01020707018020a08d06"),
        ("slices", "0300026162020707018020a08d060103bbb301"),
        ("steps", "80c0800000404141 81e080"),
        ("header", "00000000 00000000 00100000 00080000 00000100 000000000000000c 808002 bbb301 00 00"),
        ("handshake", "0100000000000000 0700000000000000 0100000000000000 0000000000000000"),
    ] {
        write("lending", name, &unhex(&hex.replace(' ', "")))?;
    }
    // Keys, an attachment, a content and a sign of life of a bridge to ZRE.
    for (name, octets) in [
        ("shout", &b"zre zre/group/a%2Fb/0f1e2d3c4b5a69788796a5b4c3d2e1f0"[..]),
        ("peer", b"a/b a/b/@peer/0f1e2d3c4b5a69788796a5b4c3d2e1f0/a1b2"),
        ("pattern", b"robot-*"),
        ("attachment", b"\x01\x0f\x1e\x2d\x3c\x4b\x5a\x69\x78\x87\x96\xa5\xb4\xc3\xd2\xe1\xf0\xb2\xa1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02\x01\0\0\0\0\0\0\x03\x03Ada"),
        ("frames", b"\x02\x02ab\0"),
        ("beat", b"zwire-zre-bridge\x01\xb2\xa1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x03zre"),
    ] {
        write("bridge", name, octets)?;
    }
    // Messages of the published client, and a sample.
    for (name, hex) in [
        ("ping", "9900000000"),
        ("subscriber", "82010000000000000003612f6202"),
        ("queryable", "84020000000100000004712f2a2a0102"),
        ("publisher", "8003000000020000000170000000a5"),
        ("put", "0e01610268690000000000a5"),
        ("delete", "0f01610000a5"),
        ("publisher-put", "10020000000178000000"),
        ("get", "120300000003672f2a03783d31000000ad1010270000"),
        ("undeclare", "830400000000000000"),
        ("querier", "06000000000171ad1010270000"),
        ("sample", "0500000000016102686900040000000101000000000000001001000000000000000000000000000000a5"),
    ] {
        write("remote_api", name, &unhex(hex))?;
    }
    // Script for a hub and a client: each message preceded by an operation byte and its length.
    let mut script = vec![0x0c, 0];
    for example in examples("zre")? {
        let frames: Vec<Vec<u8>> = example["frames"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|hex| hex.as_str())
            .map(unhex)
            .collect();
        let id = example["id"].as_str().unwrap_or_default();
        match example["form"].as_str() {
            Some("beacon") => write("zre_beacon", id, &frames.concat())?,
            Some("message") => {
                let in_zmtp = |frames: &[Vec<u8>]| -> Vec<u8> {
                    let last = frames.len() - 1;
                    let heads = frames.iter().enumerate();
                    heads
                        .flat_map(|(at, frame)| {
                            [&[u8::from(at < last), frame.len() as u8], &frame[..]].concat()
                        })
                        .collect()
                };
                write("dissect", id, &[&start[..], &in_zmtp(&frames)].concat())?;
                let behind_lengths = |frame: &Vec<u8>| [&[frame.len() as u8], &frame[..]].concat();
                write("zre", id, &frames.iter().map(behind_lengths).collect::<Vec<_>>().concat())?;
            }
            _ if frames.concat().starts_with(&[0xaa, 0xa0]) => {
                let frame = frames.concat();
                script.extend_from_slice(&[&[0x10, frame.len() as u8], &frame[..]].concat());
                write("zre_gossip", id, &frame)?;
            }
            _ => write("zre_log", id, &frames.concat())?,
        }
    }
    write("zre_gossip", "script", &script.repeat(2))?;
    // Fields of sensor_msgs/JointState, and a payload of it.
    let joints = "0b050006000f000c000b000f001c000b060a060a060a06\
                  0001000000f1536515cd5b0705000000626173650000000003000000020000006100000006000000656c626f77000000\
                  010000000000000002000000000000000000f83f00000000000004400000000001000000000000000000f0bf";
    write("cdr", "joints", &unhex(joints))?;
    for (name, seed) in zwire_spool::fuzzing::seeds() {
        write("spool", &name, &seed)?;
    }
    for (name, seed) in zwire_spool::fuzzing::range_seeds() {
        write("spool_range", &name, &seed)?;
    }
    println!("{written} seeds");
    Ok(())
}
