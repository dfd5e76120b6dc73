"""SBOM of the wheel, list of unsafe code, advisories, hashes of packages, comparison of two builds."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".ci"))

reproducible, sbom, unsafe = map(importlib.import_module, ("reproducible", "sbom", "unsafe"))


@pytest.fixture(scope="module")
def document():
    return sbom.document()


def names(document, scope):
    return {
        component["name"]
        for component in document["components"]
        if component["scope"] == scope and component["purl"].startswith("pkg:cargo/")
    }


def test_the_sbom_tells_linked_crates_from_those_of_the_build(document):
    linked, build = names(document, "required"), names(document, "excluded")
    assert {"zwire-py", "zwire-proto", "tokio", "ring", "rustls", "pyo3", "arrow-array"} <= linked
    assert {"syn", "cc", "pyo3-macros", "tokio-macros"} <= build
    assert linked.isdisjoint(build)


def test_the_sbom_has_no_crate_of_tests_or_other_platforms(document):
    listed = names(document, "required") | names(document, "excluded")
    assert listed.isdisjoint({"proptest", "criterion", "zenoh-codec", "lzma-rs", "pem", "windows-sys"})


def test_every_crate_in_the_sbom_has_the_checksum_of_the_lock_file(document):
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    expected = {package["checksum"] for package in lock if "checksum" in package}
    crates = [component for component in document["components"] if component["purl"].startswith("pkg:cargo/")]
    for component in crates:
        if component["name"].startswith("zwire-"):
            continue
        (given,) = component["hashes"]
        assert given["alg"] == "SHA-256"
        assert given["content"] in expected
    assert len(crates) > 100
    assert all(component["licenses"][0]["expression"] for component in crates)


def test_the_sbom_has_the_crates_of_a_standard_library_that_is_compiled_with_the_wheel(tmp_path, monkeypatch):
    (package,) = [
        package
        for package in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
        if package["name"] == "cfg-if"
    ]
    source = tmp_path / "lib/rustlib/src/rust/library"
    (source / "std/src").mkdir(parents=True)
    (source / "std/src/lib.rs").touch()
    (source / "Cargo.toml").write_text('[workspace]\nmembers = ["std"]\nresolver = "3"\n')
    manifest = [
        "[package]",
        'name = "std"',
        'version = "0.0.0"',
        "[features]",
        "backtrace = []",
        'panic-unwind = ["dep:cfg-if"]',
        "[dependencies]",
        f'cfg-if = {{ version = "={package["version"]}", optional = true }}',
    ]
    (source / "std/Cargo.toml").write_text("\n".join(manifest))
    locked = [f'{name} = "{value}"' for name, value in package.items()]
    library = ['name = "std"', 'version = "0.0.0"', 'dependencies = ["cfg-if"]']
    lock = ["version = 4", "[[package]]", *locked, "[[package]]", *library]
    (source / "Cargo.lock").write_text("\n".join(lock) + "\n")
    compiler = tmp_path / "rustc"
    compiler.write_text(f'#!/bin/sh\n[ "$1" = --print ] && exec echo "{tmp_path}"\nexec rustc "$@"\n')
    compiler.chmod(0o755)
    assert sbom.library("x86_64-unknown-linux-gnu") == []
    monkeypatch.setenv("CARGO_UNSTABLE_BUILD_STD", "std")
    monkeypatch.setenv("RUSTC", str(compiler))
    (found,) = sbom.library("x86_64-unknown-linux-gnu")
    assert (found["name"], found["version"], found["scope"]) == ("cfg-if", package["version"], "required")
    assert found["hashes"] == [{"alg": "SHA-256", "content": package["checksum"]}]


def test_the_graph_of_the_sbom_reaches_every_component(document):
    graph = {entry["ref"]: entry["dependsOn"] for entry in document["dependencies"]}
    reached, todo = set(), [document["metadata"]["component"]["bom-ref"]]
    while todo:
        ref = todo.pop()
        if ref not in reached:
            reached.add(ref)
            todo += graph.get(ref, ())
    references = [component["bom-ref"] for component in document["components"]]
    assert len(references) == len(set(references))
    assert reached == {*references, document["metadata"]["component"]["bom-ref"]}


def test_the_sbom_lists_the_extras(document):
    optional = {
        component["name"]: component["properties"]
        for component in document["components"]
        if component["scope"] == "optional"
    }
    assert {"name": "zwire:requirement:spark", "value": "pyspark>=4.0"} in optional["pyspark"]
    assert len(optional["pyarrow"]) == 8
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [text for texts in metadata["optional-dependencies"].values() for text in texts]
    assert sorted(use["value"] for uses in optional.values() for use in uses) == sorted(declared)


def test_the_same_sources_give_the_same_sbom(document, monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert sbom.document() == document
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    later = sbom.document()
    assert later["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"
    assert later["serialNumber"] != document["serialNumber"]


@pytest.fixture
def wheels(tmp_path):
    """Function that writes two archives from lists of members and returns their first difference."""

    def compare(*contents):
        for number, members in enumerate(contents):
            with zipfile.ZipFile(tmp_path / f"{number}.whl", "w") as archive:
                for name, content in members:
                    archive.writestr(zipfile.ZipInfo(name), content)
        return reproducible.difference(tmp_path / "0.whl", tmp_path / "1.whl")

    return compare


def test_equal_wheels_have_no_difference(wheels):
    assert wheels([("a.py", b"1")], [("a.py", b"1")]) is None


def test_the_first_differing_member_and_its_offset_are_named(wheels):
    found = wheels([("a.py", b"1"), ("b.so", b"x" * 300)], [("a.py", b"1"), ("b.so", b"x" * 256 + b"y")])
    assert found.startswith("b.so differs at offset 0x100: ")


def test_a_missing_member_is_named(wheels):
    assert wheels([("a.py", b"1")], [("a.py", b"1"), ("b.py", b"2")]).startswith(
        "the wheels list no member and b.py"
    )


# In place of git and cargo-deny: the first fails when it is told to, the second notes its arguments.
GIT = '#!/bin/sh\n[ "$REACHABLE" = 1 ]\n'
DENY = """#!/bin/sh
echo "$*" >> "$NOTES"
case "$*" in *advisories*) [ -z "$UNREADABLE" ] ;; esac
"""


@pytest.fixture
def deny(tmp_path):
    """Function that runs .ci/deny; returns its status, what cargo-deny was called with, and the output."""
    for name, text in {"git": GIT, "cargo-deny": DENY}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)

    def run(**settings):
        notes = tmp_path / "notes"
        result = subprocess.run(
            [ROOT / ".ci" / "deny", tmp_path / "cargo-deny"],
            env={
                **os.environ,
                "PATH": f"{tmp_path}:{os.environ['PATH']}",
                "CARGO_HOME": str(tmp_path / "cargo"),
                "NOTES": str(notes),
                **settings,
            },
            check=False,
            capture_output=True,
            text=True,
            timeout=20,
        )
        return result.returncode, notes.read_text().splitlines(), result.stdout + result.stderr

    return run


def test_advisories_are_read_from_a_database_that_is_reachable(deny):
    status, calls, output = deny(REACHABLE="1")
    assert status == 0
    assert calls[-1].endswith("advisories")
    assert "--offline" not in calls[-1]
    assert "NOT CHECKED" not in output


@pytest.mark.parametrize("reachable", ["0", "1"])
def test_a_database_that_cannot_be_read_is_a_failure(deny, tmp_path, reachable):
    (tmp_path / "cargo" / "advisory-dbs" / "advisory-db-1").mkdir(parents=True)
    status, calls, _ = deny(REACHABLE=reachable, UNREADABLE="1")
    assert status == 1
    assert calls[-1].endswith("advisories")


def test_without_the_host_the_copy_of_an_earlier_run_is_read(deny, tmp_path):
    (tmp_path / "cargo" / "advisory-dbs" / "advisory-db-1").mkdir(parents=True)
    status, calls, output = deny(REACHABLE="0")
    assert status == 0
    assert "--offline" in calls[-1]
    assert "reading the copy" in output


def test_the_last_line_says_that_advisories_were_not_checked(deny):
    status, calls, output = deny(REACHABLE="0")
    assert status == 0
    assert not any("advisories" in call for call in calls)
    assert output.splitlines()[-1].startswith("== ADVISORIES NOT CHECKED: ")


def test_advisories_may_be_demanded(deny):
    status, calls, _ = deny(REACHABLE="0", ZWIRE_DENY_ADVISORIES="1", UNREADABLE="1")
    assert status == 1
    assert calls[-1].endswith("advisories")


PINNED = ["constraints.txt", "tests/interop/peer-1.0.0.txt", "tests/interop/peer-1.9.0.txt"]


@pytest.mark.parametrize("file", PINNED)
def test_every_pinned_package_has_hashes(file):
    entries = re.split(r"\n(?=\w)", (ROOT / file).read_text())
    pinned = [entry for entry in entries if re.match(r"[\w.-]+==", entry)]
    assert pinned, "the guard has read the wrong file"
    assert [entry.splitlines()[0] for entry in pinned if "--hash=sha256:" not in entry] == []


def test_the_list_of_unsafe_code_is_complete():
    assert unsafe.PAGE.read_text() == unsafe.page(), f"write it anew: python {unsafe.__file__}"


@pytest.fixture
def crate(tmp_path):
    """Function that writes a crate of one file and returns its page."""
    folder = tmp_path / "rust" / "one"
    (folder / "src").mkdir(parents=True)
    (folder / "Cargo.toml").write_text('[package]\nname = "one"\n')

    def write(text):
        (folder / "src" / "lib.rs").write_text(text)
        return unsafe.page(tmp_path)

    return write


def test_a_place_is_listed_with_its_item_and_argument(crate):
    nested = (
        "    fn inner() {}\n    // SAFETY: it takes\n    // nothing\n    g(|| {\n        unsafe {}\n    })\n"
    )
    page = crate(f"fn outer() {{\n{nested}}}\n// SAFETY: it is empty\nunsafe impl Send for One {{}}\n")
    assert "| `lib.rs` | `outer` | block | It takes nothing. |" in page
    assert "| `lib.rs` | `unsafe impl Send for One` | implementation | It is empty. |" in page


def test_a_place_without_an_argument_is_an_error(crate):
    with pytest.raises(unsafe.NoArgumentError, match=r"lib\.rs:2"):
        crate("fn f() {\n    unsafe { g() }\n}\n")
    with pytest.raises(unsafe.NoArgumentError):
        crate("unsafe fn f() {}\n")
    with pytest.raises(unsafe.NoArgumentError):
        crate("fn f() {\n    // SAFETY: of g\n    unsafe { g() };\n    unsafe { h() }\n}\n")


def test_unsafe_code_of_tests_and_in_texts_is_not_listed(crate):
    page = crate(
        'fn f() -> &str { "unsafe" } // unsafe\n#[cfg(test)]\nmod tests { fn g() { unsafe { h() } } }\n'
    )
    assert "Crates without unsafe code\n\n`one`." in page
