"""Measures of `make house` find what they count, and fail if there are no files to measure."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / ".ci" / "house.py"

spec = importlib.util.spec_from_file_location("house", SCRIPT)
house = importlib.util.module_from_spec(spec)
sys.modules["house"] = house
spec.loader.exec_module(house)

ENGINE = "rust/zwire-engine/"
PROTO = "rust/zwire-proto/"
BINDING = "rust/zwire-py/"


@pytest.fixture
def rows(tmp_path):
    """Function that measures a small tree: ``rows(measure, {path: text})`` returns the rows by key."""

    def measure(function, files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return {row.key: row for row in function(house.Tree(tmp_path))}

    return measure


def lines(row):
    return [finding.line for finding in row.findings]


def crate(name, **files):
    return {f"rust/{name}/Cargo.toml": ""} | {
        f"rust/{name}/src/{file.replace('__', '/')}.rs": text for file, text in files.items()
    }


def test_actors_are_counted_in_comments_and_docstrings_alone(rows):
    found = rows(
        house.actors,
        {
            "rust/a/src/lib.rs": '/// Who reads.\nlet x = "who"; // the peer\n'
            "/* for\n   whoever */\nlet who = '\"'; // whose\n",
            "python/a.py": '"""Say who.\n\nThe peer.\n"""\nWHO = "# who"  # nobody\nx = r"""who"""\n',
            "python/a.pyi": "def who() -> str:\n    '''Somebody.'''\n",
            "tests/a.txt": "who\n",
        },
    )["1"]
    assert [(finding.file[-3:], finding.line) for finding in found.findings] == [
        (".py", 1),
        (".py", 5),
        ("pyi", 2),
        (".rs", 1),
        (".rs", 4),
        (".rs", 5),
    ]
    # Blank lines of a docstring do not count.
    assert found.figure == house.percent(6, 5 + 4 + 1)


def test_openers_are_counted_once_per_comment(rows):
    found = rows(
        house.openers,
        {
            "rust/a/src/lib.rs": "//! It says.\n//! Who else.\n\n/// A thing.\n/// What it is.\nstruct A;\n\n"
            "///\n/// *Those* of a peer.\nfn a() {} // What\n// One\n//// That\n/// Itself.\n",
            "python/a.py": '"""A module."""\n\nA = 1\n"""What it holds."""\n\n\nclass B:\n    """`It`."""\n',
        },
    )["2"]
    assert [(finding.file[-3:], finding.line) for finding in found.findings] == [
        (".py", 4),
        (".rs", 1),
        (".rs", 9),
    ]
    assert found.figure == house.percent(3, 4 + 3)


def test_shared_names_leave_out_tests_and_associated_types(rows):
    proto = """
pub struct State;
struct Only<T> { x: T }
impl Iterator for Only<u8> {
    type Item = u8;
    fn next(&mut self) {}
}
trait Sink {
    type Item: Sized;
}
#[cfg(test)]
mod tests {
    struct Only;
}
"""
    other = """
pub(crate) enum State { A { b: u8 } }
#[cfg(test)]
struct Sink;
// struct Only;
const TEXT: &str = "
struct Only;
";
type Item = u8;
"""
    more = "struct Only;\n"
    found = rows(
        house.shared_names,
        crate(
            "zwire-proto",
            lib=proto + "#[cfg(test)]\nmod made;\n",
            other=other,
            tests=more,
            made=more,
            a__testing=more,
        )
        | crate("zwire-engine", lib="struct A;\nunion B {}\ntrait C {}\n"),
    )
    assert [finding.text for finding in found["3a"].findings] == [
        "pub struct State;",
        "pub(crate) enum State { A { b: u8 } }",
    ]
    assert found["3a"].figure == 40
    assert found["3b"].figure == 0


def test_files_in_the_root_of_the_engine_are_counted(rows):
    assert rows(house.engine_root, crate("zwire-engine", lib="", a="", b__mod=""))["4"].figure == 2


def circle(row):
    return {arrow for finding in row.findings for arrow in [finding.text.split(": ")[0]]}


def test_circles_of_rust_follow_every_form_of_a_path(rows):
    tree = crate(
        "zwire-engine",
        lib="mod a;\nmod b;\nmod c;\nmod d;\npub use a::A;\npub mod solo;\n",
        a="use crate::{solo::S, b::{self, B}};\n#[cfg(test)]\nmod tests {\n    use crate::solo::x;\n}\n",
        b="fn f() { crate::c::g::<u8>() }\n",
        c__mod="mod e;\npub use e::E;\npub(in crate::solo) struct C;\n",
        c__e="use super::super::d::*;\n",
        d="use super::{\n    c::E,\n    a::A as Other,\n};\n",
        solo='// crate::a::x\nconst A: &str = "crate::a";\nuse core::fmt;\n',
    ) | {"python/zwire/a.py": "x = 1\n"}
    found = rows(house.circles, tree)["5.engine"]
    # `c::E` is a name of the module `c`, and names that a parent exports are no uses of its children.
    assert found.figure == 0
    tree["rust/zwire-engine/src/c/mod.rs"] += "use e::F;\n"
    found = rows(house.circles, tree)["5.engine"]
    assert circle(found) == {"a -> b", "b -> c", "c -> c::e", "c::e -> d", "d -> c", "d -> a"}
    assert found.figure == 5
    assert sorted(lines(found)) == [1, 1, 1, 1, 1, 4]


def test_circles_of_python_are_those_of_the_import(rows):
    tree = crate("zwire-engine", lib="") | {
        "python/zwire/__init__.py": "from zwire import _zwire\nfrom .a import A\n",
        "python/zwire/_zwire.pyi": "",
        "python/zwire/a.py": "try:\n    from .sub import b\nexcept ImportError:\n    pass\n",
        "python/zwire/sub/__init__.py": "from zwire.sub.b import B\n",
        "python/zwire/sub/b.py": "if TYPE_CHECKING:\n    from zwire.a import A\n\n"
        "def f():\n    import zwire.a\n",
    }
    assert rows(house.circles, tree)["5.python"].figure == 0
    tree["python/zwire/sub/b.py"] += "\nfrom .. import a\n"
    assert circle(rows(house.circles, tree)["5.python"]) == {
        "zwire.a -> zwire.sub.b",
        "zwire.sub.b -> zwire.a",
    }
    tree["python/zwire/sub/b.py"] = "from . import C\n"
    assert circle(rows(house.circles, tree)["5.python"]) == {
        "zwire.sub -> zwire.sub.b",
        "zwire.sub.b -> zwire.sub",
    }


def test_the_largest_of_several_circles_is_taken():
    edges = {1: [2], 2: [1], 3: [4, 1], 4: [5], 5: [3], 6: [6]}
    assert sorted(house.largest_circle(edges)) == [3, 4, 5]
    assert house.largest_circle({1: [2], 2: []}) == []


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("6a", "fn write_out<'a>(&'a self, mut tx: MutexGuard<'a, Tx>, n: usize) {}"),
        ("6b", "async fn run_timer(shared: Weak<Shared>) {}"),
        ("6c", "struct Tables {\n    north: HashMap<u16, Text>,\n    more: BTreeMap<u16, KeyExpr>,\n}"),
        ("6d", "struct Defrag;"),
        ("6d", "enum State {\n    Empty,\n    Skip { n: u8 },\n    Collecting { next: u32 },\n}"),
    ],
)
def test_implementations_are_counted_by_file(rows, key, text):
    not_one = (
        "fn write_out(&mut self) {}\nfn f(s: State) { matches!(s, State::Collecting { .. }) }\n"
        "struct A {\n    map: HashMap<u16, u8>,\n}\n"
    )
    tree = crate("zwire-engine", lib=text, a=not_one, tests=text) | crate("zwire-proto", lib=text)
    found = rows(house.implementations, tree)
    assert found[key].figure == 2
    assert sum(row.figure for row in found.values()) == 2


def test_the_binding_is_measured_with_its_tests(rows):
    found = rows(house.binding, {f"{BINDING}src/lib.rs": "a\n" * 300, f"{BINDING}src/a/b.rs": "b\n" * 301})
    assert (found["7a"].figure, found["7b"].figure) == (601, 1)
    assert found["7b"].findings[0].file.endswith("b.rs")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("rust/zwire-spool/src/a.rs", 'Field::new("kind", DataType::Utf8, true)'),
        ("rust/zwire-spool/src/a.rs", 'columns! { "hlc": Int64 }'),
        ("python/zwire/a.py", 'ROW = (("congestion", "string"),)'),
        ("python/zwire/a.py", 'StructField("kind", StringType())'),
        ("python/zwire/a.py", 'pa.field("hlc", pa.int64())'),
    ],
)
def test_definitions_of_columns_are_seen(rows, path, text):
    tree = crate("zwire-spool", lib='map.get("kind")') | {
        "python/zwire/b.py": 'row["kind"]  # ("kind", "string")\n'
    }
    assert rows(house.dialects, tree)["8"].figure == 0
    assert rows(house.dialects, tree | {path: text})["8"].figure == 1


def test_thread_locals_are_counted_but_for_caches(rows):
    text = (
        "thread_local! {\n    static WALL: Cell<u8> = const { Cell::new(0) };\n"
        "    static PASSED: Cell<u8>;\n}\n"
        "static OTHER: u8 = 1;\n#[cfg(test)]\nthread_local! { static MADE: u8 }\n"
    )
    assert lines(rows(house.thread_locals, crate("zwire-engine", lib=text))["9"]) == [3]


@pytest.mark.parametrize("file", ["errors", "errors__deep__spool"])
def test_wildcards_among_errors_are_seen(rows, file):
    text = (
        "match error {\n    A => 1,\n    _ => 2,\n    B | _ => 3,\n    _ if x == 1 => 4,\n"
        "    C(_) => 5,\n    D { _x } => 6,\n}\n"
    )
    assert lines(rows(house.exhaustive_errors, crate("zwire-py", **{file: text}))["10a"]) == [3, 4, 5]


def test_claims_need_their_guard(rows):
    (claim, guard), (second, _), *_ = house.CLAIMS
    tree = {
        "docs/architecture.md": f"# Page\n\nIt {claim}.\n",
        "tests/python/test_a.py": f'"""def {guard}"""\n',
    }
    assert lines(rows(house.unguarded_claims, tree)["10b"]) == [3]
    tree["tests/python/test_b.py"] = f"def {guard}():\n    pass\n"
    assert rows(house.unguarded_claims, tree)["10b"].figure == 0
    tree["docs/architecture.md"] += f"{second}\n"
    assert lines(rows(house.unguarded_claims, tree)["10b"]) == [4]


def test_the_size_leaves_tests_and_stubs_out(rows):
    text = (
        "// why\nfn a() {}\n\n#[cfg(test)]\n#[allow(dead_code)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n"
    )
    tree = crate("zwire-py", lib=text, tests__b="x\n") | crate("fuzz", lib="x\n")
    tree |= {"python/zwire/a.py": "x\n" * 7, "python/zwire/a.pyi": "x\n"}
    assert rows(house.size, tree)["11"].figure == 4 + 7


def test_the_size_leaves_bodies_of_fuzz_targets_out(rows):
    text = (
        '#[cfg(any(test, feature = "fuzzing"))]\nmod fuzzing;\n#[cfg(any(test, feature = "lz4"))]\nmod b;\n'
    )
    tree = crate("zwire-spool", lib=text, fuzzing="x\n" * 9, b="x\n") | {"python/zwire/a.py": "x\n"}
    assert rows(house.size, tree)["11"].figure == 2 + 1 + 1


def test_generated_files_are_not_measured_but_their_inputs_are(rows):
    text = '# Generated by .ci/stub.py from *.pyi.in\n"""Who."""\n'
    tree = crate("zwire-py", lib="fn a() {}\n", made="// Generated by tables.py from a table.\n/// Who.\n")
    tree |= {"python/zwire/a.py": "x = 1\n", "python/zwire/b.py": text, "python/zwire/a.pyi": text}
    tree["rust/zwire-py/stub/a.pyi.in"] = '"""Who."""\n# Generated by hand; not the first line.\n'
    for measure, key in ((house.actors, "1"), (house.openers, "2")):
        found = rows(measure, tree)[key].findings
        assert [finding.file for finding in found] == ["rust/zwire-py/stub/a.pyi.in"]
    assert rows(house.size, tree)["11"].figure == 2


@pytest.mark.parametrize(
    ("item", "left"),
    [
        ("use a::{b, c};", 2),
        ("fn a(x: [u8; 3]) -> u8 { if x { 1 } else { 2 } }", 2),
        ("pub(crate) const A: [u8; 1] = { [1] };", 2),
        ("impl A for B { fn c() {} }", 2),
        ("struct A(u8);", 2),
    ],
)
def test_an_item_of_tests_ends_where_it_ends(rows, item, left):
    tree = crate("zwire-py", lib=f"fn a() {{}}\n#[cfg(test)]\n{item}\nfn b() {{}}\n") | {
        "python/zwire/a.py": ""
    }
    assert rows(house.size, tree)["11"].figure == left


def test_missing_features_are_named(rows):
    tree = {f"{ENGINE}Cargo.toml": '[features]\ntls = []\nquic = ["tls"]\n'}
    assert [finding.text for finding in rows(house.features, tree)["12"].findings] == [
        "no feature ws",
        "no feature yaml",
        "no feature lz4",
        "no feature curve",
    ]


@pytest.mark.parametrize("measure", house.MEASURES, ids=lambda measure: measure.__name__)
def test_a_measure_of_nothing_fails(rows, measure):
    with pytest.raises(house.NothingToMeasureError, match=r"^no "):
        rows(measure, {})


def test_a_row_is_judged_by_its_ceiling_or_its_bound():
    row = house.Row("4", "files", 5, 4)
    assert row.verdict({}) == "BEYOND"
    assert row.verdict({"4": 5}) == "open, ceiling 5"
    assert row.verdict({"4": 4.5}).startswith("BEYOND")
    assert house.Row("4", "files", 4, 4).verdict({}) == "ok"
    assert house.Row("7a", "lines", 5, 4).verdict({}) == "printed only"


def run(*arguments):
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, timeout=50, check=False
    )


@pytest.fixture
def small(monkeypatch):
    """Replace the rows of the repository, which take seconds, by two made ones."""
    made = [
        house.Row("4", "files", 5, 4, findings=[house.Finding("a.rs", 7, "  mod b;")]),
        house.Row("9", "b", 0, 0),
    ]
    monkeypatch.setattr(house, "measured", lambda _: made)
    monkeypatch.setattr(house, "NOT_YET", {})


@pytest.mark.timeout(60)
def test_the_repository_is_within_its_bounds():
    done = run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) > 20, "the script has measured nothing"


def test_findings_of_a_row_are_listed_with_their_place(small, capsys):
    assert house.main(["--list", "4"]) == 0
    assert capsys.readouterr().out == "a.rs:7: mod b;\n"
    assert house.main(["--list", "99"]) == 2


def test_a_figure_beyond_its_bound_fails(small, capsys, monkeypatch):
    assert house.main([]) == 1
    assert "house: beyond the bound: 4;" in capsys.readouterr().out
    monkeypatch.setattr(house, "NOT_YET", {"4": 5})
    assert house.main([]) == 0


def test_an_empty_tree_fails(tmp_path):
    done = run("--root", str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("house: no ")
