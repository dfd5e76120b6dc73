"""Bare bytes of Zenoh: they have to say what the captures say that they are from."""

import itertools
import random
from datetime import UTC, datetime

import pyarrow as pa
import pytest

import framing
from zwire.capture import Frame, FrameDecoder, decode, decode_frames
from zwire.errors import UsageError

pytestmark = pytest.mark.slow

# One of each that a decoder has to undo.
STREAMS = [
    "bulk",
    "compression",
    "declared-keyexpr",
    "fragmented",
    "lowlatency",
    "old-version",
    "pubsub-basic",
    "query",
]


def table(decoder):
    return pa.Table.from_batches([pa.record_batch(batch) for batch in decoder], schema=pa.schema(decoder))


def said(rows):
    """The messages of each side, in order."""
    sides = {}
    for row in rows.to_pylist():
        sides.setdefault((row["src"], row["dst"]), []).append(row)
    return sides


@pytest.mark.parametrize("name", STREAMS)
def test_chunks_of_streams_say_what_the_capture_says(name):
    chunks = list(framing.frames(name, framing.TCP))
    assert table(decode_frames(chunks)) == table(decode(framing.path(name)))


@pytest.mark.parametrize("name", ["compression", "pubsub-basic", "query"])
def test_it_does_not_matter_where_chunks_are_cut(name):
    randomness = random.Random(5)
    sides = {}
    for data, src, dst, _ in framing.frames(name, framing.TCP):
        sides.setdefault((src, dst), bytearray()).extend(data)
    # Sides alternate as slowly as the handshake allows, in pieces of any length.
    pieces = []
    for pair, side in sides.items():
        rest, at = bytes(side), 0
        while at < len(rest):
            size = randomness.randrange(1, 60)
            pieces.append((at, (rest[at : at + size], *pair)))
            at += size
    pieces.sort(key=lambda piece: piece[0])
    rows = table(decode_frames(piece for _, piece in pieces)).drop(["ts"])
    whole = table(decode(framing.path(name))).drop(["ts"])
    assert rows.num_rows == whole.num_rows > 50
    assert not any(rows["error"].to_pylist())
    for pair, expected in said(whole).items():
        got = [row | {"key": None, "scope": None, "suffix": None} for row in said(rows)[pair]]
        assert got == [row | {"key": None, "scope": None, "suffix": None} for row in expected]


@pytest.mark.parametrize(
    "name", ["bulk", "compression", "declared-keyexpr", "fragmented", "pubsub-basic", "query"]
)
def test_batches_say_what_the_capture_says(name):
    rows = table(decode_frames(framing.batches(framing.frames(name, framing.TCP)), stream=False))
    assert rows == table(decode(framing.path(name)))


@pytest.mark.parametrize("name", ["udp", "scouting"])
def test_datagrams_say_what_the_capture_says(name):
    whole = table(decode(framing.path(name)))
    chunks = framing.frames(name, framing.UDP)
    rows = table(decode_frames(chunks, stream=False))
    datagrams = {(src, dst) for _, src, dst, _ in framing.frames(name, framing.UDP)}
    expected = pa.Table.from_pylist(
        [row for row in whole.to_pylist() if (row["src"], row["dst"]) in datagrams], schema=whole.schema
    )
    assert rows == expected
    assert rows.num_rows > 20


@pytest.mark.parametrize(
    ("name", "stream"),
    # The lengths of the last one have four bytes, and are not cut here.
    [
        ("pubsub-basic", True),
        ("compression", True),
        ("pubsub-basic", False),
        ("compression", False),
        ("lowlatency", True),
    ],
)
def test_the_beginning_may_be_missing(name, stream):
    chunks = list(framing.frames(name, framing.TCP))
    if not stream:
        chunks = list(framing.batches(chunks))
    late = chunks[len(chunks) // 3 :]
    begin = datetime.fromtimestamp(late[0][3], UTC)
    whole, rows = (
        [row for row in table(rows).to_pylist() if row["message"] == "push" and row["ts"] > begin]
        for rows in (decode(framing.path(name)), decode_frames(late, stream=stream))
    )
    assert [row["payload"] for row in rows] == [row["payload"] for row in whole]
    assert len(rows) > 10
    assert all(row["key"] or row["suffix"] is not None for row in rows)


def test_names_stand_for_ends_and_what_is_not_given_is_null():
    chunks = list(framing.frames("declared-keyexpr", framing.TCP))
    whole = table(decode_frames(chunks))
    name = "robot {}".format
    named = table(decode_frames((data, name(src), name(dst)) for data, src, dst, _ in chunks))
    assert set(named["src"].to_pylist()) == {name(src) for src in whole["src"].to_pylist()}
    assert [name(dst) for dst in whole["dst"].to_pylist()] == named["dst"].to_pylist()
    assert set(named["ts"].to_pylist()) == {None}
    assert named.drop(["ts", "src", "dst"]) == whole.drop(["ts", "src", "dst"])
    # One side of one session, from bare buffers.
    _, src, dst, _ = chunks[0]
    one = [data for data, *ends, _ in chunks if ends == [src, dst]]
    for make in (bytes, bytearray, memoryview, lambda data: (data,), Frame):
        rows = table(decode_frames(map(make, one)))
        assert rows.num_rows == len(said(whole)[src, dst])
        assert set(rows["src"].to_pylist()) == {None}
        assert not any(rows["error"].to_pylist())


def test_an_init_begins_a_new_session_between_the_same_ends():
    chunks = [
        (data, "client" if src > dst else "hub", "hub" if src > dst else "client")
        for data, src, dst, _ in framing.frames("pubsub-basic", framing.TCP)
    ]
    once = table(decode_frames(chunks))
    assert once.num_rows > 200
    for stream, given in ((True, chunks), (False, list(framing.batches((*chunk, None) for chunk in chunks)))):
        thrice = table(decode_frames(given * 3, stream=stream))
        assert thrice.drop(["ts"]) == pa.concat_tables([once] * 3).drop(["ts"])


@pytest.mark.long
def test_many_sessions_are_remembered_and_too_many_are_not():
    chunks = [chunk[:3] for chunk in framing.frames("declared-keyexpr", framing.TCP)]
    _, src, dst = chunks[0]
    one = [data for data, *ends in chunks if set(ends) == {src, dst}][:6]
    sides = [ends for _, *ends in chunks if set(ends) == {src, dst}][:6]

    def all_at_once(count):
        for data, ends in zip(one, sides, strict=True):
            for number in range(count):
                yield data, f"{ends[0]} {number}", f"{ends[1]} {number}"

    alone = table(decode_frames(all_at_once(1)))
    rows = table(decode_frames(all_at_once(2000)))
    assert rows.num_rows == 2000 * alone.num_rows
    assert not any(rows["error"].to_pylist())
    # A row of a session that was forgotten is a row all the same; names do not pile up either.
    assert table(decode_frames(all_at_once(20_000))).num_rows >= 20_000 * 4


def test_times_are_seconds_or_datetimes():
    data = next(framing.frames("pubsub-basic", framing.TCP))[0]
    moment = datetime(2026, 11, 21, 12, 0, 0, 123457, UTC)
    for ts in (moment, moment.timestamp(), moment.astimezone().replace(tzinfo=None)):
        assert table(decode_frames([(data, None, None, ts)]))["ts"].to_pylist() == [moment]
    assert table(decode_frames([(data, None, None, 7)]))["ts"].to_pylist()[0].timestamp() == 7
    for ts in (-1.0, float("nan"), 1e30):
        with pytest.raises(ValueError, match="no time"):
            list(decode_frames([(data, None, None, ts)]))


def test_bytes_that_are_no_zenoh_are_a_row():
    for stream in (True, False):
        rows = table(decode_frames([b"\xff" * 80], stream=stream)).to_pylist()
        assert [row["message"] for row in rows] == ["error"]
        assert rows[0]["error"]
    for nothing in ([], [b""], [(None,)]):
        assert table(decode_frames(nothing)).num_rows == 0


def test_frames_are_taken_as_they_are_needed():
    chunks = list(framing.frames("pubsub-basic", framing.TCP))
    taken = itertools.count()

    def endless():
        for data, src, dst, ts in itertools.cycle(chunks):
            next(taken)
            yield data, src, dst, ts

    decoder = decode_frames(endless(), max_rows=100)
    assert next(taken) == 0
    batches = [pa.record_batch(next(decoder)) for _ in range(5)]
    assert [batch.num_rows for batch in batches] == [100] * 5
    assert next(taken) < 10_000
    # Also as a stream of Arrow, of which not everything is taken.
    with pa.RecordBatchReader.from_stream(decode_frames(endless(), max_rows=100)) as reader:
        assert reader.read_next_batch() == batches[0]


def test_what_the_iterable_raises_is_raised():
    chunks = list(framing.frames("pubsub-basic", framing.TCP))

    def broken():
        yield from chunks
        raise OSError("the queue is gone")

    decoder = decode_frames(broken())
    with pytest.raises(OSError, match="the queue is gone"):
        next(decoder)
    # What came before it is still to be had.
    assert table(decoder) == table(decode_frames(chunks))
    with pytest.raises(pa.ArrowInvalid, match="the queue is gone"):
        pa.table(decode_frames(broken()))


def test_a_reader_that_reads_itself_is_refused():
    def inside():
        yield next(decoder)

    decoder = decode_frames(inside())
    with pytest.raises(UsageError, match="one reader"):
        next(decoder)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        ("text", "bytes"),
        (7, "bytes"),
        ([b"x"], "bytes"),
        (("text",), "bytes"),
        ((b"x", 7), "text"),
        ((b"x", "a", b"b"), "text"),
        ((b"x", "a", "b", "now"), "seconds"),
    ],
)
def test_what_is_no_frame_is_refused(frame, words):
    with pytest.raises(TypeError, match=words):
        next(decode_frames([frame]))


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="fields"):
        next(decode_frames([()]))
    with pytest.raises(ValueError, match="fields"):
        next(decode_frames([(b"x", "a", "b", 1, 2)]))
    with pytest.raises(TypeError):
        decode_frames(7)
    with pytest.raises(ValueError, match="max_rows"):
        decode_frames([], max_rows=0)
    assert pa.schema(FrameDecoder([])) == pa.schema(decode(b""))
