//! The table of conformance in the documentation names tests; each of them exists, and none is missing.

const PAGE: &str = include_str!("../../../../../../docs/zre-conformance.md");

/// Files of tests, by the path that the page uses.
const FILES: [(&str, &str); 12] = [
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
];

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
        if !["rfc20", "rfc36", "problems"].iter().any(|file| path.ends_with(file)) {
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
