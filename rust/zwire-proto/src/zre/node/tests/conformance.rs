//! The table of conformance in the documentation names tests; each of them exists, and none is missing.

const PAGE: &str = include_str!("../../../../../../docs/zre-conformance.md");

/// Files of tests, by the path that the page uses.
const FILES: [(&str, &str); 13] = [
    ("wire::rfc20", include_str!("../../wire/tests/rfc20.rs")),
    ("wire::problems", include_str!("../../wire/tests/problems.rs")),
    ("wire::log", include_str!("../../wire/log.rs")),
    ("node::rfc20", include_str!("rfc20.rs")),
    ("node::rfc36", include_str!("rfc36.rs")),
    ("node::strict", include_str!("strict.rs")),
    ("node::sessions", include_str!("sessions.rs")),
    ("node::liveness", include_str!("liveness.rs")),
    ("node::groups", include_str!("groups.rs")),
    ("node::generations", include_str!("generations.rs")),
    ("node::sim", include_str!("sim.rs")),
    ("node::bounds", include_str!("bounds.rs")),
    ("engine::tests", include_str!("../../../../../zwire-engine/src/zre/tests.rs")),
];

/// Sentences of 20/ZRE with SHALL or MUST, apart from the one that explains these words: by their characteristic
/// words, as the page quotes them.
const SENTENCES: [&str; 44] = [
    // Discovery and connection.
    "Each ZRE node SHALL listen to the ZRE discovery service",
    "Each ZRE node SHALL broadcast, at regular intervals, on UDP port 5670 a beacon",
    "The header SHALL consist of the letters",
    "The body SHALL consist of the sender's 16-octet UUID",
    "A valid beacon SHALL use a recognized header",
    "A node that receives an invalid beacon SHALL discard it silently",
    "A node SHALL discard beacons that it receives from itself",
    "it SHALL consider this to be a new peer",
    "it SHALL disconnect from this peer",
    "Each node SHALL create a ZeroMQ ROUTER socket",
    "The node SHALL broadcast this mailbox port number",
    "This ROUTER socket SHALL be used for all incoming",
    "A node SHALL NOT send messages to peers via this socket",
    "it SHALL create a ZeroMQ DEALER socket, set its identity",
    "A node SHALL connect each DEALER sockets to at most one peer",
    "This DEALER socket SHALL be used for all outgoing",
    "A node SHALL not receive messages on this socket",
    "The identity SHALL be a binary 16-octet UUID value",
    "it SHALL treat this as a new peer",
    // Commands.
    "Every ZRE message sent by TCP SHALL start with the ZRE protocol signature",
    "A node SHALL silently discard any message received that does not start",
    "Each node SHALL start a dialog by sending HELLO",
    "it SHALL silently ignore any commands that precede a HELLO",
    "it SHALL create a ZeroMQ DEALER socket and connect it to the endpoint",
    "it SHALL use the WHISPER command",
    "it SHALL use the SHOUT command",
    "it SHALL broadcast a JOIN command",
    "it SHALL broadcast a LEAVE command",
    "it SHALL reply with a PING-OK command",
    // The log.
    "The log service SHALL create a ZeroMQ SUB socket",
    "The log service SHALL broadcast its connection endpoint",
    "Any node wishing to send log data SHALL create a PUB socket",
    "Every ZRE/LOG message SHALL start with the protocol signature",
    "The log service SHALL silently discard any message received",
    // The summary of discovery and of beacons. "(twice)" in a row of the page covers a sentence above.
    "A ZRE node SHALL listen to the ZRE discovery service",
    "Each ZRE node SHALL broadcast, at regular intervals, a UDP beacon",
    "that it does not already know about, it SHALL consider this to be a new peer",
    "it SHALL consider this peer to be disconnected or dead",
    "The header SHALL consist of the letters",
    "The body SHALL consist of the sender's 16-octet UUID",
    "A valid beacon SHALL: use a recognized header",
    "A node that receives an invalid beacon SHALL discard it silently",
    "A node SHALL discard beacons that it receives from itself",
    // A second demand in a sentence above.
    "followed by the beacon version number, which SHALL be %x01",
];

/// Every demand of the RFC has a row with a test.
#[test]
fn every_sentence_of_the_rfc_has_a_row() {
    let (_, table) = PAGE.split_once("## Sentences of 20/ZRE").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let rows: Vec<(&str, &str)> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.rsplit_once(" | "))
        .collect();
    for sentence in SENTENCES {
        let row = rows.iter().find(|(quoted, _)| quoted.contains(sentence));
        let Some((_, tests)) = row else { panic!("no row for: {sentence}") };
        assert!(named().iter().any(|test| tests.contains(&format!("`{test}`"))), "no test for: {sentence}");
    }
}

/// `path::name` of each test that the page names.
fn named() -> Vec<&'static str> {
    let ticked = PAGE.split('`').skip(1).step_by(2);
    ticked.filter(|text| FILES.iter().any(|(path, _)| text.starts_with(&format!("{path}::")))).collect()
}

#[test]
fn the_tests_of_the_table_exist() {
    let named = named();
    assert!(named.len() >= 90, "{}", named.len());
    for test in &named {
        let (path, name) = test.rsplit_once("::").unwrap();
        let (_, text) = FILES.iter().find(|(file, _)| *file == path).unwrap();
        assert!(text.contains(&format!("fn {name}(")), "{test}");
    }
}

/// Every test of a sentence or a problem is in the table, and every problem has one.
#[test]
fn nothing_is_missing_from_the_table() {
    let named = named();
    for (path, text) in &FILES {
        if !["rfc20", "rfc36", "problems", "engine::tests"].iter().any(|file| path.ends_with(file)) {
            continue;
        }
        for test in text.split("#[test]").skip(1) {
            let name = test.split_once("fn ").and_then(|(_, rest)| rest.split_once('(')).unwrap().0;
            assert!(named.contains(&&*format!("{path}::{name}")), "{path}::{name} is not in the table");
        }
    }
    for problem in 1..=33 {
        let names =
            |test: &&&str| test.split("::").last().unwrap().starts_with(&format!("problem_{problem}_"));
        assert!(named.iter().any(|test| names(&test)), "problem {problem}");
    }
    for problem in 1..=10 {
        let names = |test: &&&str| test.contains(&format!("::rfc36_problem_{problem}_"));
        assert!(named.iter().any(|test| names(&test)), "RFC 36, problem {problem}");
    }
}
