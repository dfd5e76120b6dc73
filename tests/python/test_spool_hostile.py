"""Damaged folders of spools: only rows as written are served, and errors give the place.

Cuts and flipped bits at every octet of segments, lists, marks and meta are tests of Rust
(tests/rust/spool/hostile.rs); here is what else may happen to files, and what Spark makes of it.
"""

import itertools
import os
import re
import shutil
import struct

import pyarrow as pa
import pytest

import zwire.spark as zs
from zwire import spool
from zwire.errors import SpoolError, SpoolMismatch
from zwire.spark.sources import _stream

pytestmark = pytest.mark.slow

ROWS, SHARDS = 120, 2


def make(folder):
    """A spool with some segments in each of two shards; row n of shard s says so."""
    appender = spool.Appender(folder, shards=SHARDS, segment_bytes=6000)
    with appender:
        for number in range(ROWS):
            appender.append(key="k", payload=b"%d" % number, shard=number % SHARDS)
            if number % 8 == 7:
                appender.flush()
        for shard in range(SHARDS):
            appender.append_gap(shard, "drop", count=shard + 1, detail="told")
    assert len(segments(folder)) >= 4
    return folder


def segments(folder, shard="0"):
    return sorted((folder / shard).glob("*.arrow"))


def lists(folder, shard="0"):
    return sorted((folder / shard).glob("*.idx"))


def served(folder):
    """Return the rows that readers get, as far as they get any, and what was said otherwise."""
    found, said = set(), []
    try:
        view = spool.open(folder)
        start, end = view.earliest(), view.end()
    except SpoolError as error:
        return found, [error]
    for shard in view.shards:
        try:
            # One block at a time, so that all that is good comes.
            for batch in view.read(shard, start[shard], end[shard], max_rows=1):
                for row in pa.record_batch(batch).to_pylist():
                    found.add((row["shard"], row["offset"], row["payload"]))
        except SpoolError as error:
            said.append(error)
    return found, said


def streamed(folder):
    """The same as a task of Spark reads it."""
    given = {"spool": str(folder), "startingOffsets": "earliest", "consumer": "none"}
    found, said = set(), []
    try:
        reader = _stream.SpoolStreamReader(given, zs.schema.SAMPLE.spark(), "zwire", "samples")
        start = reader.initialOffset()
        for part in reader.partitions(start, reader.latestOffset(start, reader.getDefaultReadLimit())):
            for batch in reader.read(part):
                names = ("shard", "offset", "payload")
                found.update(zip(*(batch.column(name).to_pylist() for name in names), strict=True))
    except SpoolError as error:
        said.append(error)
    return found, said


WHOLE = {(number % SHARDS, number // SHARDS, b"%d" % number) for number in range(ROWS)}


def swap(one, other):
    spare = one.with_suffix(".spare")
    one.rename(spare)
    other.rename(one)
    spare.rename(other)


def folder_instead(file):
    file.unlink()
    file.mkdir()


def pipe_instead(file):
    file.unlink()
    os.mkfifo(file)


def link_instead(file, target):
    file.unlink()
    file.symlink_to(target)


def header_length(file):
    octets = bytearray(file.read_bytes())
    octets[12:16] = struct.pack("<I", 0x7FFFFFC0)
    file.write_bytes(octets)


def extend(file):
    file.write_bytes(file.read_bytes() + b"\xff" * 999)


def later(file, base):
    shutil.copy(file, file.with_name(f"{base:020}.arrow"))


REFUSED = {
    "swapped between shards": (
        lambda f: swap(segments(f)[1], segments(f, "1")[1]),
        r"shard 1.*not of shard 0",
    ),
    "swapped in a shard": (lambda f: swap(*segments(f)[1:3]), r"offset 24, not of shard 0, offset 12"),
    "copied to a place between": (
        lambda f: later(segments(f)[1], 13),
        r"offset 12, not of shard 0, offset 13",
    ),
    "a link to another": (
        lambda f: link_instead(segments(f)[1], segments(f)[2]),
        r"not of shard 0, offset 12",
    ),
    "a link to nothing": (lambda f: link_instead(segments(f)[1], "nothing"), r"0/0*12.arrow.*No such file"),
    "a link to itself": (lambda f: link_instead(segments(f)[1], segments(f)[1]), r"0/0*12.arrow.*symbolic"),
    "a link to a device": (
        lambda f: link_instead(segments(f)[1], "/dev/zero"),
        r"shard 0, offset 12: .*shorter",
    ),
    "the first is empty": (lambda f: segments(f)[0].write_bytes(b""), r"shard 0, offset 0: .*shorter"),
    "one is empty": (lambda f: segments(f)[1].write_bytes(b""), r"shard 0, offset 12: .*shorter"),
    "the last is empty": (lambda f: segments(f)[-1].write_bytes(b""), r"shard 0, offset 48: .*shorter"),
    "the first is missing": (lambda f: segments(f)[0].unlink(), r"shard 0, offset 0: no segment"),
    "one is missing": (lambda f: segments(f)[1].unlink(), r"shard 0, offset 12: no segment"),
    "the last is missing": (lambda f: segments(f)[-1].unlink(), r"shard 0, offset 48: no segment"),
    "all are missing": (lambda f: shutil.rmtree(f / "0"), r"shard 0, offset 0: no segment"),
    "a folder in its place": (lambda f: folder_instead(segments(f)[1]), r"0/0*12.arrow.*Is a directory"),
    "a pipe in its place": (lambda f: pipe_instead(segments(f)[1]), r"0/0*12.arrow.*it is a pipe"),
    "a pipe for the marks": (lambda f: pipe_instead(f / "marks"), r"marks: .*it is a pipe"),
    "a file for the shard": (lambda f: (shutil.rmtree(f / "0"), (f / "0").touch()), r"/0: .*Not a directory"),
    "a length beyond all": (lambda f: header_length(segments(f)[1]), r"shard 0, offset 12: .*2147483600"),
    "no meta": (lambda f: (f / "meta.json").unlink(), r"there is no spool \(no meta.json\)"),
    "an empty meta": (lambda f: (f / "meta.json").write_bytes(b""), r"meta.json: is no JSON"),
    "a folder for the meta": (lambda f: folder_instead(f / "meta.json"), r"meta.json: .*Is a directory"),
    "a folder for the marks": (lambda f: folder_instead(f / "marks"), r"marks: .*Is a directory"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_as_it_was_written_is_refused(tmp_path, name):
    change, words = REFUSED[name]
    folder = make(tmp_path / "spool")
    change(folder)
    found, said = served(folder)
    assert found < WHOLE
    assert said
    assert re.search(words, str(said[0]))
    if "meta" in name or "marks" in name:
        assert not found
    elif name != "swapped between shards":
        # The other shard is as good as it was, and so is what is in front.
        assert {row for row in WHOLE if row[0] == 1} <= found
    rows, problems = streamed(folder)
    assert rows <= WHOLE
    assert problems
    assert re.search(words, str(problems[0]))
    # A writer takes it for no other spool, and hands out no offset twice.
    try:
        with spool.Appender(folder, shards=SHARDS) as appender:
            appender.append(key="k", payload=b"new", shard=0)
    except SpoolError:
        pass
    found, _ = served(folder)
    assert {row[1] for row in found - WHOLE} <= {end - 1 for end in _ends(folder)}
    assert all(row[1] >= ROWS // SHARDS for row in found - WHOLE)


def _ends(folder):
    try:
        return spool.open(folder).end().values()
    except SpoolError:
        return ()


NINES = "9" * 20 + ".arrow"

HARMLESS = {
    "copied behind all": lambda f: later(segments(f)[1], 10_000),
    "a link to itself elsewhere": lambda f: (
        segments(f)[1].rename(f / "elsewhere"),
        (f / "0" / f"{12:020}.arrow").symlink_to(f / "elsewhere"),
    ),
    "other files": lambda f: [(f / "0" / name).touch() for name in ("x", "8.arrow.bak", "-1.arrow", NINES)],
    "a shard too many": lambda f: shutil.copytree(f / "0", f / "7"),
    "octets behind the end": lambda f: extend(segments(f)[1]),
    "gigabytes of nothing behind": lambda f: os.truncate(segments(f)[1], 3 << 30),
    "the list of another": lambda f: shutil.copy(lists(f)[2], lists(f)[1]),
    "the list of another shard": lambda f: shutil.copy(lists(f, "1")[1], lists(f)[1]),
    "an empty list": lambda f: lists(f)[1].write_bytes(b""),
    "a list of ones": lambda f: lists(f)[1].write_bytes(b"\xff" * lists(f)[1].stat().st_size),
    "a folder for a list": lambda f: folder_instead(lists(f)[1]),
    "a pipe for a list": lambda f: pipe_instead(lists(f)[1]),
    "no marks": lambda f: (f / "marks").unlink(),
    "empty marks": lambda f: (f / "marks").write_bytes(b""),
    "marks of ones": lambda f: (f / "marks").write_bytes(b"\xff" * (f / "marks").stat().st_size),
    "no ahead": lambda f: (f / "ahead").unlink(),
    "ahead of ones": lambda f: (f / "ahead").write_bytes(b"\xff" * (f / "ahead").stat().st_size),
    "no log of gaps": lambda f: shutil.rmtree(f / "gaps"),
    "a file for consumers": lambda f: (shutil.rmtree(f / "consumers", True), (f / "consumers").touch()),
}  # fmt: skip


@pytest.mark.parametrize("name", HARMLESS)
def test_what_does_not_matter_changes_nothing(tmp_path, name):
    folder = make(tmp_path / "spool")
    HARMLESS[name](folder)
    for read in (served, streamed):
        assert read(folder) == (WHOLE, [])
    try:
        with spool.Appender(folder, shards=SHARDS) as appender:
            appender.append(key="k", payload=b"new", shard=0)
    except SpoolMismatch:
        # Nothing is written over what is no part of it.
        assert name == "copied behind all"
        assert served(folder) == (WHOLE, [])
        return
    found, said = served(folder)
    assert not said
    ((shard, offset, payload),) = found - WHOLE
    assert (shard, payload) == (0, b"new")
    assert offset >= ROWS // SHARDS
    assert found >= WHOLE


@pytest.mark.parametrize("name", ["meta.json", "marks", "ahead"])
def test_files_of_another_spool_are_refused(tmp_path, name):
    folder, other = make(tmp_path / "spool"), make(tmp_path / "other")
    shutil.copy(other / name, folder / name)
    with pytest.raises(SpoolMismatch, match="of another spool"), spool.Appender(folder, shards=SHARDS):
        pass
    found, said = served(folder)
    if name == "ahead":
        # Only writers want it.
        assert (found, said) == (WHOLE, [])
    else:
        assert not found
        assert "of another spool" in str(said[0])


def gaps_of(folder):
    view = spool.open(folder)
    batches = view.gaps(view.gaps_start())
    return [row for batch in batches for row in pa.record_batch(batch).to_pylist()]


def test_the_log_of_gaps_is_verified_as_well(tmp_path):
    folder = make(tmp_path / "spool")
    told = gaps_of(folder)
    assert [row["count"] for row in told] == [1, 2]
    (file,) = segments(folder, "gaps")
    octets = file.read_bytes()
    (list_,) = lists(folder, "gaps")
    list_.unlink()
    wrong = 0
    for at, what in itertools.product(range(0, len(octets), 101), ("flip", "cut")):
        changed = bytearray(octets)
        changed[at] ^= 1 << (at % 8)
        file.write_bytes(changed if what == "flip" else octets[:at])
        try:
            found = gaps_of(folder)
        except SpoolError as error:
            problem = error
        else:
            # Behind the last block is what other programs want to read.
            assert found == told
            continue
        wrong += 1
        assert re.search(r"gap.*\d", str(problem))
        assert problem.offset is not None
        assert spool.verify(folder)[0].shard == -1
        assert served(folder) == (WHOLE, [])
    assert wrong > len(octets) // 101


def test_the_file_of_a_consumer_is_verified(tmp_path):
    folder = make(tmp_path / "spool")
    view = spool.open(folder)
    view.commit("me", {0: 30, 1: 20})
    file = folder / "consumers" / "me.json"
    octets = file.read_bytes()
    for at, what in itertools.product(range(len(octets)), ("flip", "cut")):
        changed = bytearray(octets)
        changed[at] ^= 1 << (at % 7)
        file.write_bytes(changed if what == "flip" else octets[:at])
        with pytest.raises(SpoolError, match=r"me.json"):
            view.consumers()
    # Reading goes on, and the consumer commits its position again.
    assert served(folder) == (WHOLE, [])
    view.commit("me", {0: 31, 1: 21})
    assert view.consumers() == {"me": {0: 31, 1: 21}}


def test_everything_is_looked_at_once_also_behind_a_hole(tmp_path):
    folder = make(tmp_path / "spool")
    # The positions of readers are unknown, so offsets continue behind all that were reserved.
    (folder / "marks").unlink()
    with spool.Appender(folder, shards=SHARDS) as appender:
        appender.append(key="k", payload=b"new", shard=0)
    assert spool.open(folder).end()[0] > 1_000_000
    told = []
    assert spool.verify(folder, lambda done, total: told.append((done, total))) == []
    assert told[-1][0] == told[-1][1]
    assert len(told) < 100
    # Each segment that is wrong is said once, with its first offset.
    for shard in ("0", "1"):
        swap(*segments(folder, shard)[1:3])
    problems = [(shard, offset) for shard, offset, _ in spool.verify(folder)]
    assert problems == [(0, 12), (0, 24), (1, 12), (1, 24)]


def test_damage_of_what_is_reserved_hands_out_nothing_twice(tmp_path):
    folder = make(tmp_path / "spool")
    octets = (folder / "ahead").read_bytes()
    for at in range(0, len(octets), 29):
        changed = bytearray(octets)
        changed[at] ^= 0x10
        (folder / "ahead").write_bytes(changed)
        try:
            with spool.Appender(folder, shards=SHARDS):
                pass
        except SpoolMismatch:
            continue  # the id in it
        assert all(end >= ROWS // SHARDS for end in _ends(folder))
    (folder / "ahead").write_bytes(octets)
    assert served(folder) == (WHOLE, [])
