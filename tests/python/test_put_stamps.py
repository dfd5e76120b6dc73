"""Time stamps of batches that are published: each row its own, and errors that name the column."""

import datetime as dt

import pyarrow as pa
import pytest

import nodes
from zwire import zenoh
from zwire.errors import RowError

WHEN = dt.datetime(2026, 3, 4, 5, 6, 7, 123_457, dt.UTC)
PATIENCE = 10
BITS = (1 << 63) + 12_345_678_901
UTC = pa.timestamp("us", "UTC")


@pytest.fixture
def pair():
    # No router between them: it would stamp what has no stamp.
    with nodes.opened("peer", listen=nodes.LOCAL) as here, nodes.client(here) as there:
        yield here, there


def batch(**columns):
    rows = len(next(iter(columns.values())))
    return pa.record_batch({"key": [f"a/{row}" for row in range(rows)], "payload": ["x"] * rows, **columns})


def published(pair, given):
    """The samples that a subscriber of another node gets."""
    here, there = pair
    with there.declare_subscriber("a/*") as subscriber:
        subscriber.wait_ready(PATIENCE)
        assert here.put_batch(given).rows == given.num_rows
        return [subscriber.recv(PATIENCE) for _ in range(given.num_rows)]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_instants_of_any_unit(pair, unit):
    when = WHEN.replace(microsecond={"s": 0, "ms": 123_000}.get(unit, 123_457))
    kind = pa.timestamp(unit, "Europe/Berlin")
    first, second = published(pair, batch(timestamp=pa.array([when, None], kind)))
    assert first.timestamp == zenoh.Timestamp(when, bytes(pair[0].zid()))
    assert second.timestamp is None


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()])
def test_all_bits_of_a_stamp_and_whose_it_is(pair, kind):
    bits = pa.array([BITS, None, BITS + 1], pa.uint64()).view(kind)
    ids = pa.array([b"\x42", b"\x42", None], pa.binary())
    given = batch(hlc=bits, hlc_id=ids, timestamp=pa.array([None, WHEN, WHEN], UTC))
    own = bytes(pair[0].zid())
    assert [sample.timestamp for sample in published(pair, given)] == [
        zenoh.Timestamp(zenoh.NTP64.from_int(BITS), b"\x42"),
        zenoh.Timestamp(WHEN, b"\x42"),
        zenoh.Timestamp(zenoh.NTP64.from_int(BITS + 1), own),
    ]


def test_slices_and_deletions_keep_theirs(pair):
    times = pa.array([WHEN + dt.timedelta(seconds=row) for row in range(9)], UTC)
    given = batch(timestamp=times, hlc_id=[b"%d" % row for row in range(9)], kind=["put", "del", "put"] * 3)
    got = published(pair, given.slice(3, 5))
    assert [str(sample.key_expr) for sample in got] == [f"a/{row}" for row in range(3, 8)]
    assert [sample.timestamp for sample in got] == [
        zenoh.Timestamp(WHEN + dt.timedelta(seconds=row), b"%d" % row) for row in range(3, 8)
    ]
    assert [sample.kind for sample in got].count(zenoh.SampleKind.DELETE) == 2


def test_what_was_received_in_batches_is_passed_on_with_its_stamps(pair):
    here, there = pair
    times = pa.array([WHEN, None, WHEN + dt.timedelta(microseconds=1)], UTC)
    with there.declare_subscriber("a/*") as first, here.declare_subscriber("again/*") as second:
        first.wait_ready(PATIENCE)
        here.put_batch(batch(timestamp=times))
        rows = []
        while len(rows) < 3:
            got = pa.record_batch(first.recv_batch(timeout=PATIENCE))
            rows += got.column("timestamp").to_pylist()
            keys = pa.array([f"again/{key}".replace("/a/", "/") for key in got.column("key").to_pylist()])
            second.wait_ready(PATIENCE)
            there.put_batch(got.set_column(0, "key", keys))
        again = [second.recv(PATIENCE).timestamp for _ in range(3)]
    assert rows == times.to_pylist()
    assert [None if one is None else one.get_time() for one in again] == rows


def test_rows_without_a_stamp_of_their_own_are_stamped_as_ever():
    with (
        nodes.opened("peer", timestamping__enabled=True) as session,
        session.declare_subscriber("a/*") as subscriber,
    ):
        session.put_batch(batch(timestamp=pa.array([None, WHEN, None], UTC)))
        got = [subscriber.recv(PATIENCE).timestamp.get_time() for _ in range(3)]
    assert got[1] == WHEN
    assert abs(got[0] - dt.datetime.now(dt.UTC)) < dt.timedelta(hours=1)
    assert got[2] >= got[0]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"timestamp": ["now"]}, "'timestamp' must be a timestamp with a time zone"),
        ({"timestamp": [7]}, "'timestamp' must be a timestamp with a time zone"),
        (
            {"timestamp": pa.array([WHEN], pa.timestamp("us"))},
            "'timestamp' must be a timestamp with a time zone",
        ),
        ({"hlc": [0.5]}, "'hlc' must be int64 or uint64"),
        ({"hlc": [1], "hlc_id": ["0a"]}, "'hlc_id' must be binary"),
    ],
)
def test_a_wrong_type_names_its_column(pair, columns, words):
    with pytest.raises(TypeError, match=words.replace("'", '"')):
        pair[0].put_batch(batch(**columns))


def test_one_instant_only(pair):
    times = pa.array([WHEN], UTC)
    with (
        pytest.warns(DeprecationWarning, match="is called"),
        pytest.raises(ValueError, match="one of them only"),
    ):
        pair[0].put_batch(batch(timestamp=times, ts=times))


def test_a_former_name_is_accepted_with_a_warning(pair):
    given = batch(ts=pa.array([WHEN], UTC))
    with pytest.warns(DeprecationWarning, match='"ts" is called "timestamp" now'):
        (sample,) = published(pair, given)
    assert sample.timestamp.get_time() == WHEN


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"timestamp": pa.array([0, -1], pa.int64()).cast(UTC)}, "'timestamp': the time lies before 1970"),
        (
            {"timestamp": pa.array([0, 1 << 32]).cast(pa.timestamp("s", "UTC"))},
            "'timestamp': .* in February 2106",
        ),
        ({"hlc": [1, 2], "hlc_id": [b"x", b""]}, "'hlc_id': an id has 1 to 16 bytes .* not 0"),
        ({"hlc": [1, 2], "hlc_id": [b"x", b"\0" * 3]}, "'hlc_id': an id has 1 to 16 bytes .* not 3"),
        ({"hlc": [1, 2], "hlc_id": [b"x", b"y" * 17]}, "'hlc_id': an id has 1 to 16 bytes .* not 17"),
    ],
)
def test_a_bad_row_names_its_column(pair, columns, words):
    with pytest.raises(RowError, match=words.replace("'", '"')) as raised:
        pair[0].put_batch(batch(**columns))
    assert (raised.value.row, raised.value.key) == (1, "a/1")
