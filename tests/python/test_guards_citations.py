"""Comments cite sections of the protocol references: each cited section exists in ``docs/protocol``."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "protocol"
NAMES = ("zenoh-wire", "zenoh-behaviour", "zmtp", "zre")
PLACES = [
    f"{folder}/*.{suffix}" for folder in ("rust", "python", "tests", "docs") for suffix in ("rs", "py", "md")
]

_NUMBER = r"E?\d+(?:\.\d+)*"
_AND = r"(?:, and |, | and | to |\u2013)"
CITATION = re.compile(
    rf"`(?P<name>{'|'.join(NAMES)})`(?: reference,)?(?: sections?)? "
    rf"(?P<sections>{_NUMBER}(?:{_AND}{_NUMBER})*)"
)
_RANGE = re.compile(rf"({_NUMBER})(?: to |\u2013)({_NUMBER})")
# A citation may continue in the next line of a comment.
_NEXT_LINE = re.compile(r"[ \t]*\n[ \t]*(?:///|//!|//|#(?!#)|\*)?[ \t]*")


def citations(text: str) -> list[tuple[str, str]]:
    """Return all citations of a text as pairs of page and section; a range yields each of its sections."""
    found = []
    for citation in CITATION.finditer(_NEXT_LINE.sub(" ", text)):
        sections = citation["sections"]
        for first, last in _RANGE.findall(sections):
            head, _, start = first.rpartition(".")
            end = last.rpartition(".")[2]
            if start.isdigit() and end.isdigit():
                sections += "".join(f", {head}.{n}".replace(" .", " ") for n in range(int(start), int(end)))
        found += [(citation["name"], section) for section in dict.fromkeys(re.findall(_NUMBER, sections))]
    return found


def targets(page: str) -> set[str]:
    """Return the sections of a page with an anchor, and the numbered rows of their tables."""
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    found = set()
    for anchor, heading, body in re.findall(
        rf"^\({page}-([\w.]+)\)=\n#+ (.*)\n((?:(?!\({page}-).*\n)*)", text, re.MULTILINE
    ):
        assert re.match(rf"(?:Appendix )?{re.escape(anchor)}[. ]", heading), (
            f"{page}: {anchor} above {heading!r}"
        )
        found.add(anchor)
        if "\n| # |" in body:
            found |= {f"{anchor}.{row}" for row in re.findall(r"^\| (\d+) \|", body, re.MULTILINE)}
    return found


def citing_files() -> list[Path]:
    git = shutil.which("git")
    assert git, "git is needed to list the files of the repository"
    out = subprocess.run(
        [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *PLACES],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=25,
    ).stdout
    paths = [ROOT / name for name in out.decode().split("\0") if name]
    return [path for path in paths if path.is_file() and path != Path(__file__).resolve()]


def implemented() -> list[tuple[str, str]]:
    """Return the citations in the table of implemented sections; an empty page means the previous one."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    name, found = "", []
    for cell in re.findall(r"^\| ([^|]*) \| [^|]* \| `rust/", text, re.MULTILINE):
        if page := re.match(r"`([\w-]+)` ", cell):
            name = page[1]
        numbers = re.match(rf"(?:`[\w-]+` )?({_NUMBER}(?:{_AND}{_NUMBER})*)", cell)
        if numbers:
            found += citations(f"`{name}` {numbers[1]}")
    return found


def test_each_cited_section_exists():
    known = {name: targets(name) for name in NAMES}
    cited = [
        (path, *citation)
        for path in citing_files()
        for citation in citations(path.read_text(encoding="utf-8"))
    ]
    assert len(cited) > 300, "the guard has not found the citations"
    assert {name for _, name, _ in cited} == set(NAMES)
    missing = [
        f"{path.relative_to(ROOT)}: `{name}` {section}"
        for path, name, section in cited
        if section not in known[name]
    ]
    assert missing == []


def test_each_implemented_section_exists():
    cited = implemented()
    assert len(cited) > 100, "the guard has not found the table of implemented sections"
    assert [f"`{name}` {section}" for name, section in cited if section not in targets(name)] == []


@pytest.mark.parametrize("name", NAMES)
def test_each_numbered_heading_has_an_anchor(name):
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    numbered = r"^(.*)\n#{2,3} (?:Appendix )?((?:\d+(?:\.\d+)*|E\d+|[A-C])(?=[. ]))"
    headings = re.findall(numbered, text, re.MULTILINE)
    assert len(headings) > 30, "the guard has not found the sections"
    assert [number for above, number in headings if above != f"({name}-{number})="] == []


def test_citations_are_read_as_they_are_written():
    page = "`zre`"
    assert citations(f"{page} 3.10).") == [("zre", "3.10")]
    assert citations(f"{page} 9, 10 and 12.1; 7") == [("zre", "9"), ("zre", "10"), ("zre", "12.1")]
    assert citations(f"{page} 1.6 to 1.8, 2") == [("zre", n) for n in ("1.6", "1.8", "2", "1.7")]
    assert citations(f"/// see {page}\n    /// 4\n//! and {page} 5,\n//! 6") == [("zre", n) for n in "456"]
    assert citations(f"{page} E5 and E7") == [("zre", "E5"), ("zre", "E7")]
    assert citations(f"format {page}, and 3") == []


def test_sections_and_rows_are_found():
    assert {"3.10", "E34", "6.4.107"} <= targets("zenoh-wire")
    assert {"0", "9.4", "C"} <= targets("zenoh-behaviour")
    assert "16.33" in targets("zre")
    assert "16.34" not in targets("zre")
