"""Duplicates pass once, in bounded memory."""

import asyncio
import json
import pickle
import random
import threading
import uuid

import pyarrow as pa
import pytest

import nodes
from zwire import aio, zenoh
from zwire.idempotence import BATCHES, SIZE, Filter, Identity, commit_key, receipt_key

JOB = uuid.UUID(int=7)


class Marked:
    """A sample, as far as a filter looks at it."""

    def __init__(self, attachment):
        self.attachment = attachment

    @classmethod
    def row(cls, row, batch=0, partition=0, query=JOB, rest=b""):
        return cls(Identity(query, batch, partition, row).attachment(rest))


def rows(numbers, **where):
    return [Marked.row(number, **where) for number in numbers]


def test_an_identity_is_forty_bytes_that_are_documented():
    packed = Identity(JOB, 2, 3, 4).attachment(b"rest")
    expected = b"zwi\x01" + JOB.bytes + bytes(7) + b"\x02" + bytes(3) + b"\x03" + bytes(7) + b"\x04"
    assert packed == expected + b"rest"
    assert len(expected) == SIZE
    assert Identity.parse(packed) == (JOB, 2, 3, 4)
    assert Identity.parse(packed[: SIZE - 1]) is None
    assert Identity.parse(b"zwi\x02" + packed[4:]) is None
    with pytest.raises(ValueError, match="partition=4294967296"):
        Identity(JOB, 0, 1 << 32, 0).attachment()


def test_repeats_do_not_pass():
    once = Filter()
    assert len(once.new(rows(range(10)))) == 10
    # A second attempt, which comes further.
    assert once.new(rows(range(15)))[0].attachment == Marked.row(10).attachment
    assert once.new(rows(range(15), partition=1)) != []
    assert once.new(rows(range(15), batch=1)) != []
    assert once.new(rows(range(15), query=uuid.UUID(int=8))) != []
    assert once.stats() == {
        "passed": 60, "repeated": 10, "late": 0, "unmarked": 0, "forgotten": 0, "ranges": 4,
    }  # fmt: skip


def test_what_has_no_identity_passes():
    once = Filter()
    assert len(once.new([Marked(None), Marked(b""), Marked(b"zwi\x01"), Marked(bytes(SIZE))] * 2)) == 8
    assert once.stats()["unmarked"] == 8


def test_holes_are_filled_by_a_later_attempt():
    once = Filter()
    once.new(rows([0, 1, 5, 6, 9]))
    assert [Identity.of(sample).row for sample in once.new(rows(range(11)))] == [2, 3, 4, 7, 8, 10]
    assert once.stats()["ranges"] == 1


def test_it_does_what_a_set_does():
    """Any order, any overlap: a set of all that has come gives the same, by rows and by batches."""
    chance = random.Random(11)
    for _ in range(60):
        by_row, by_batch, seen = Filter(), Filter(), set()
        for _ in range(12):
            start = chance.randrange(40)
            run = [(chance.randrange(2), number) for number in range(start, start + chance.randrange(1, 12))]
            if chance.random() < 0.3:
                chance.shuffle(run)
            identities = [Identity(JOB, 0, *one) for one in run]
            expected = []
            for one in run:
                if one not in seen:
                    seen.add(one)
                    expected.append(one)
            samples = [Marked(one.attachment()) for one in identities]
            passed = [Identity.of(sample) for sample in by_row.new(samples)]
            assert [(one.partition, one.row) for one in passed] == expected
            column = pa.array([sample.attachment for sample in samples], pa.binary())
            batch = by_batch.batch(pa.RecordBatch.from_arrays([column], ["attachment"]))
            passed = [Identity.parse(cell) for cell in batch.column(0).to_pylist()]
            assert [(one.partition, one.row) for one in passed] == expected
        assert by_row.stats() == by_batch.stats()


def test_batches_keep_their_other_columns():
    once = Filter()
    cells = [one.attachment for one in rows(range(6))]
    batch = pa.record_batch({"attachment": cells, "payload": list(range(6))})
    assert once.batch(batch.slice(1, 2)).column("payload").to_pylist() == [1, 2]
    assert once.batch(batch).column("payload").to_pylist() == [0, 3, 4, 5]
    assert once.batch(batch).num_rows == 0
    # Of all lengths, and null.
    cells = [None, Marked.row(6, rest=b"more").attachment, b"", cells[0], None]
    mixed = pa.record_batch({"attachment": pa.array(cells, pa.binary()), "payload": list(range(5))})
    assert once.batch(mixed).column("payload").to_pylist() == [0, 1, 2, 4]
    assert once.batch(mixed.slice(1, 3)).column("payload").to_pylist() == [2]
    same = pa.record_batch({"attachment": [bytes(SIZE)] * 3 + [Marked.row(1).attachment]})
    assert once.batch(same).num_rows == 3
    with pytest.raises(ValueError, match="no column 'attachment'"):
        once.batch(pa.record_batch({"payload": [b""]}))
    with pytest.raises(ValueError, match="must be binary, not int64"):
        once.batch(pa.record_batch({"attachment": [1]}))


def test_batches_that_are_long_over_do_not_pass():
    once = Filter()
    once.new(rows(range(3), batch=0))
    once.new(rows(range(3), batch=BATCHES))
    assert once.new(rows(range(9), batch=0)) == []
    assert once.new(rows(range(3), batch=1)) != []
    assert once.stats()["late"] == 9


def test_memory_is_bounded_and_what_is_forgotten_counts():
    once = Filter(max_ranges=10)
    once.new(Marked.row(0, partition=number) for number in range(100))
    assert (once.stats()["ranges"], once.stats()["forgotten"]) == (10, 90)
    # What is used stays.
    assert once.new(rows([0], partition=90)) == []
    # Holes of one partition, of which the first are forgotten.
    once.new(rows(range(0, 200, 2), query=uuid.UUID(int=1)))
    assert once.stats()["ranges"] == 10
    assert once.received(uuid.UUID(int=1), 0, 0, 200) == 10
    # It repeats rather than loses.
    assert len(once.new(rows([0, 198], query=uuid.UUID(int=1)))) == 1
    with pytest.raises(ValueError, match="at least 1"):
        Filter(0)


def test_a_pickled_filter_goes_on():
    once = Filter(max_ranges=50)
    once.new(rows([0, 1, 2, 7]))
    again = pickle.loads(pickle.dumps(once))
    assert again.stats() == once.stats()
    assert again.max_ranges == 50
    assert len(again.new(rows(range(8)))) == 4
    assert len(once.new(rows(range(8)))) == 4


def test_a_marker_tells_what_is_missing():
    once = Filter()
    once.new(rows(range(10), partition=0) + rows(range(1, 5), partition=1))
    said = {"query": JOB.hex, "batch": 0, "partitions": {"0": 10, "1": 5, "2": 1}}
    assert once.missing(json.dumps(said).encode()) == 2
    once.new(rows([0], partition=1) + rows([0], partition=2))
    assert once.missing(said) == 0
    for wrong in (b"", b"[]", b"{}", {"query": "x", "batch": 0, "partitions": {}}):
        with pytest.raises(ValueError, match="no marker of a batch"):
            once.missing(wrong)


def test_threads_share_a_filter():
    once = Filter()
    passed = []

    def take():
        passed.extend(once.new(rows(range(2000))))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(passed) == 2000


def test_samples_of_a_subscriber_and_receipts_of_them(hub, session):
    once = Filter()
    came = []
    hub.declare_subscriber("a/**", lambda sample: came.append(once.is_new(sample)))
    queryable = once.receipts(hub, "a")
    for number in [0, 1, 0, 1, 2]:
        session.put("a/b", b"x", attachment=Identity(JOB, 0, 0, number).attachment())
    session.put("a/b", b"x")
    session.flush(5)

    def ask(rows):
        asked = f"{receipt_key('a')}?query={JOB.hex};batch=0;partition=0;rows={rows}"
        (reply,) = session.get(asked, timeout=5)
        assert str(reply.ok.key_expr) == receipt_key("a", hub.zid())
        return json.loads(reply.ok.payload.to_bytes())

    nodes.eventually(lambda: len(came) == 6)
    assert came == [True, True, False, False, True, True]
    assert [ask(rows) for rows in (1, 3, 9)] == [{"rows": 1}, {"rows": 3}, {"rows": 3}]
    # What is no question is answered with an error, and the next one is heard.
    (reply,) = session.get(receipt_key("a") + "?query=x", timeout=5)
    assert "badly formed" in reply.err.payload.to_string()
    assert ask(2) == {"rows": 2}
    # Subscribers to data do not receive it.
    assert not zenoh.KeyExpr("a/**").intersects(receipt_key("a"))
    assert not zenoh.KeyExpr("a/**").intersects(commit_key("a", JOB))
    queryable.undeclare()


def test_it_serves_event_loops(hub, session):
    async def take(once):
        async with aio.open(nodes.settings("client", connect=hub.listening())) as taking:
            subscriber = taking.declare_subscriber("a/**")
            async with subscriber, once.receipts(taking, "a"):
                await taking.ready(5)
                for number in [0, 0, 1]:
                    session.put("a/b", b"x", attachment=Identity(JOB, 0, 0, number).attachment())
                came = []
                async for sample in subscriber:
                    came.append(once.is_new(sample))
                    if len(came) == 3:
                        break
                asked = f"{receipt_key('a')}?query={JOB.hex};batch=0;partition=0;rows=2"
                replies = [reply async for reply in taking.get(asked, timeout=5)]
                return came, [json.loads(reply.ok.payload.to_bytes()) for reply in replies]

    assert asyncio.run(take(Filter())) == ([True, False, True], [{"rows": 2}])
