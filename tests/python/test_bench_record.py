"""The table of recorded benchmarks in the documentation, and the figures of README that come from it."""

import importlib
import re
import sys

import pytest

import snippets

sys.path.insert(0, str(snippets.ROOT / "benches"))

record = importlib.import_module("python.record")
rows = importlib.import_module("python.rows")

PAGE = snippets.ROOT / "docs" / "guide" / "performance.md"


def row(name, ours=2.0, theirs=1.0, **more):
    made = rows.Row("area", name, "msg/s", "peer", **more)
    made.ours, made.theirs = [rows.Trial(ours)], [rows.Trial(theirs)]
    return made


ABOUT = {"cores": 2, "processor": "P", "system": "Linux", "python": "3.11", "zwire": "1", "pyspark": ""}


def run(day, *made):
    return record.section(list(made), ABOUT, day, 5, 0.5)


def test_the_page_has_the_table_with_dates_and_machines():
    _, sections, _ = record.read(PAGE.read_text())
    assert len(sections) >= 3
    for section in sections:
        assert re.match(r"\d{4}-\d\d-\d\d, \d+ cores", section.title)
        assert section.rows
    names = [tuple(each[:2]) for section in sections for each in section.rows]
    assert len(names) == len(set(names))


def test_a_run_replaces_its_rows_and_keeps_the_others():
    page = f"# Page\n\n{record.BEGIN}\n{record.END}\n\nafter\n"
    page = record.write(page, run("2026-01-01", row("a"), row("b", 3.0)))
    page = record.write(
        page, run("2026-01-02", row("b", 4.0), row("bad", failed="lost"), row("no", skipped="x"))
    )
    before, sections, after = record.read(page)
    assert (before, after) == ("# Page\n\n", "\n\nafter\n")
    assert [(section.title[:10], [(each[1], each[5]) for each in section.rows]) for section in sections] == [
        ("2026-01-02", [("b", "4.00x")]),
        ("2026-01-01", [("a", "2.00x")]),
    ]
    again = record.write(page, run("2026-01-02", row("c")))
    _, sections, _ = record.read(again)
    assert [each[1] for each in sections[0].rows] == ["c", "b"]
    assert record.write(again, run("2026-01-02", row("c"))) == again
    assert "5 rounds of 0.5 s per side; system Linux, python 3.11, zwire 1." in again


@pytest.mark.parametrize(
    "page",
    [
        "no place",
        f"{record.BEGIN}\n",
        f"{record.BEGIN}\n### Day\n\nnote\n{record.END}",
        f"{record.BEGIN}\n### Day\n\n| a | b |\n|---|---|\n{record.END}",
    ],
)
def test_pages_without_a_place_for_the_table_are_refused(page):
    with pytest.raises(record.PageError):
        record.read(page)


def recorded():
    _, sections, _ = record.read(PAGE.read_text())
    return {
        (each[0], each[1]): (section.title[:10], each[5].rstrip("x"))
        for section in sections
        for each in section.rows
    }


def test_ratios_of_readme_are_recorded():
    found = recorded()
    table = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (snippets.ROOT / "README.md").read_text().splitlines()
        if re.match(r"\| .*\| 20\d\d-\d\d-\d\d \|$", line)
    ]
    names = {
        "callback, to": ("pubsub", "{} callback"),
        "Arrow batches, to": ("pubsub", "{} batch"),
        "shout to 2 peers": ("zre", "shout {} to 2"),
        "shout to 50 peers": ("zre", "shout {} to 50"),
        "DEALER to ROUTER": ("zmtp", "DEALER to ROUTER {}"),
        "PUB to SUB": ("zmtp", "PUB to SUB {}"),
    }
    assert len(table) == len(names)
    for what, *ratios, day in table:
        (area, name), *_ = (value for start, value in names.items() if what.startswith(start))
        for size, ratio in zip(("8 B", "64 B", "1 KiB", "64 KiB", "1 MiB"), ratios, strict=True):
            if ratio:
                assert found[area, name.format(size)] == (day, ratio), what
    text = (snippets.ROOT / "README.md").read_text()
    for size in ("64 KiB", "1 MiB", "8 MiB"):
        day, ratio = found["shm", f"{size} callback"]
        assert re.search(rf"{size}\s+{ratio} times", text)
        assert f"({day})" in text
    assert f"{found['zmtp', 'round trip 64 B, p50'][1]} of the time of pyzmq" in text


def test_ratios_of_the_description_are_recorded():
    text = " ".join((snippets.ROOT / "python" / "README.md").read_text().split())
    found = recorded()
    for words, key in [
        ("{} by callback to eclipse-zenoh", ("pubsub", "64 B callback")),
        ("{} in Arrow batches to its faster way", ("pubsub", "64 B batch")),
        ("{} for a shout to 2 peers to pyre", ("zre", "shout 64 B to 2")),
        ("{} from DEALER to ROUTER to pyzmq", ("zmtp", "DEALER to ROUTER 64 B")),
    ]:
        day, ratio = found[key]
        assert words.format(ratio) in text
        assert day in text
