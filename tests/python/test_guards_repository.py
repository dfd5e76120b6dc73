"""Files of the repository: no path of a developer's machine, and complete, small test vectors."""

from __future__ import annotations

import gzip
import lzma
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CAPTURES = ROOT / "tests" / "vectors" / "captures"

# A folder of a developer's machine at the start of a path.
MACHINE_PATH = re.compile(rb"(?<![\w.~*@$}/-])/(?:home|root|work|Users|tmp/w)/[\w.-]")


def tracked_files() -> list[Path]:
    git = shutil.which("git")
    assert git, "git is needed to list the files of the repository"
    out = subprocess.run(
        [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=25,
    ).stdout
    return [path for name in out.decode().split("\0") if name and (path := ROOT / name).is_file()]


def captures() -> list[str]:
    return sorted(path.name.split(".")[0] for path in CAPTURES.glob("*.pcap*"))


def unpack(path: Path) -> bytes:
    return (lzma.open if path.suffix == ".xz" else gzip.open)(path).read()


def test_no_file_names_a_path_of_a_machine():
    texts = {path: path.read_bytes() for path in tracked_files() if path.suffix not in {".gz", ".xz"}}
    assert len(texts) > 20, "the guard has not found the repository"
    hits = [
        f"{path.relative_to(ROOT)}:{text[: hit.start()].count(10) + 1}"
        for path, text in texts.items()
        for hit in MACHINE_PATH.finditer(text)
    ]
    assert hits == []


@pytest.mark.parametrize("text", [b"open('/%s/x')", b"see /%s/main", b"PATH=/%s/bin"])
@pytest.mark.parametrize("folder", [b"home", b"root", b"work", b"tmp/w"])
def test_the_guard_sees_a_path_of_a_machine(text, folder):
    assert MACHINE_PATH.search(text % folder)
    assert not MACHINE_PATH.search(b"demo/" + text[-3:] + b"net" + folder + b"/x")


def test_the_vectors_stay_below_20_mebibytes():
    sizes = [path.stat().st_size for path in tracked_files() if path.is_relative_to(CAPTURES.parent)]
    assert len(sizes) > 50, "the guard has not found the vectors"
    assert sum(sizes) < 20 * 1024 * 1024


def test_every_capture_is_listed_with_its_origin():
    assert len(captures()) >= 19, "the guard has not found the captures"
    readme = (CAPTURES.parent / "README.md").read_text()
    assert sorted(re.findall(r"\(captures/([\w-]+)\.md\)", readme)) == captures()


@pytest.mark.parametrize("name", captures())
def test_every_capture_has_packets_truth_and_origin(name):
    (packets,) = CAPTURES.glob(f"{name}.pcap*")
    (truth,) = CAPTURES.glob(f"{name}.truth.jsonl.*")
    assert unpack(packets)[:4] in {b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1", b"\x0a\x0d\x0d\x0a"}
    assert unpack(truth).startswith(b'{"i": 0, ')
    assert (CAPTURES / f"{name}.md").read_text().startswith(f"# {name}.pcap")


def test_every_source_that_the_documentation_names_exists():
    pages = [path for path in tracked_files() if path.suffix == ".md" and CAPTURES not in path.parents]
    named = {
        (page.relative_to(ROOT), name)
        for page in pages
        for name in re.findall(r"`((?:rust|python|tests|benches|docs)/[\w./-]+\.\w+)`", page.read_text())
    }
    assert len(named) > 20, "the guard has not found the architecture page"
    assert [(str(page), name) for page, name in sorted(named) if not (ROOT / name).exists()] == []
