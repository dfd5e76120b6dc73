"""Spoolers and caches of eclipse-zenoh's publishers: recovery of samples lost on the way or while stopped."""

import itertools

import pyarrow as pa
import pytest

from interop.harness import ECLIPSE, LossyWorld, eventually
from zwire import spool, zenoh

NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def world():
    """A router, a publisher, and a path on which datagrams are lost."""
    made = LossyWorld()
    settings = {"timestamping/enabled": True}
    made.publisher = made.net.client(ECLIPSE, made.hub, **settings)
    yield made
    made.end()


@pytest.fixture
def publisher(world):
    yield world.publisher
    world.relay.loss = 0.0
    world.publisher.drop_all()


@pytest.fixture
def key():
    return f"spooled/{next(NUMBERS)}"


def spooler(folder, key, endpoint, **options):
    """A spooler with a shorter query timeout than the default: its queries may be lost, too."""
    config = {
        "mode": "client",
        "connect/endpoints": [endpoint],
        "queries_default_timeout": 500,
        "scouting/multicast/enabled": False,
    }
    made = spool.Spooler(folder, [key, f"{key}/ready"], config=config, **options)
    made.ready(10)
    return made


def payloads(folder):
    view = spool.open(folder)
    batches = view.read(0, 0, view.end()[0], columns=["payload"])
    found = [value for batch in batches for value in pa.record_batch(batch)["payload"].to_pylist()]
    return [int(value) for value in found if value]


def gaps(folder, kind):
    rows = [row for batch in spool.open(folder).gaps() for row in pa.record_batch(batch).to_pylist()]
    return [row for row in rows if row["kind"] == kind]


def known(publisher, spooler, key):
    """Wait until the publisher knows of the spooler: before, it sends nothing."""

    def heard():
        publisher.put(key=f"{key}/ready", payload="")
        return spooler.stats()["received"] > 0

    eventually("the spooler is known", heard, within=15)


def kept(spooler, count):
    def there():
        assert spooler.flush(5)
        return len(payloads(spooler.path)) >= count

    eventually(f"{count} rows", there, within=15)


def test_what_is_lost_on_the_way_is_got_from_the_cache(world, publisher, key, tmp_path):
    endpoint = f"udp/127.0.0.1:{world.relay.port}"
    with spooler(tmp_path, key, endpoint) as keeping:
        known(publisher, keeping, key)
        publisher.advanced_publisher(name="pub", key=key, cache=1000, detect={"heartbeat": 0.05})
        publisher.publish_numbers(name="pub", start=0, end=20)
        kept(keeping, 20)
        world.relay.loss = 0.2
        for start in range(20, 320, 20):
            # Each a datagram of its own.
            publisher.publish_numbers(name="pub", start=start, end=start + 20, period=0.001)
        kept(keeping, 320)
        world.relay.loss = 0.0
        assert world.relay.lost > 0
        assert keeping.stats()["lost"] == 0
    assert payloads(tmp_path) == list(range(320))
    assert gaps(tmp_path, "gap") == []


def test_what_no_cache_has_is_a_gap(world, publisher, key, tmp_path):
    """Published while no spooler ran, more than the cache holds. A heartbeat reveals the loss."""
    with spooler(tmp_path, key, world.hub.endpoint) as keeping:
        known(publisher, keeping, key)
        publisher.advanced_publisher(name="pub", key=key, cache=5, detect={"heartbeat": 0.1})
        publisher.publish_numbers(name="pub", start=0, end=10)
        kept(keeping, 10)
    publisher.publish_numbers(name="pub", start=10, end=20)
    with spooler(tmp_path, key, world.hub.endpoint) as keeping:
        kept(keeping, 15)
    # Of those that the cache still had, none is a gap.
    assert payloads(tmp_path) == [*range(10), *range(15, 20)]
    (gap,) = gaps(tmp_path, "gap")
    assert (gap["count"], gap["sn_to"] - gap["sn_from"]) == (5, 4)


def test_a_heartbeat_names_what_no_cache_has(world, publisher, key, tmp_path):
    """Published while no spooler ran, by a publisher without a cache that publishes nothing more."""
    with spooler(tmp_path, key, world.hub.endpoint) as keeping:
        known(publisher, keeping, key)
        publisher.advanced_publisher(name="pub", key=key, detect={"heartbeat": 0.1})
        publisher.publish_numbers(name="pub", start=0, end=10)
        kept(keeping, 10)
    publisher.publish_numbers(name="pub", start=10, end=20)
    with spooler(tmp_path, key, world.hub.endpoint) as keeping:
        eventually("the gap is named", lambda: gaps(tmp_path, "gap"), within=15)
        assert keeping.stats()["lost"] == 10
        publisher.publish_numbers(name="pub", start=20, end=21)
        kept(keeping, 11)
    # The next one does not name it again.
    with spooler(tmp_path, key, world.hub.endpoint) as keeping:
        known(publisher, keeping, key)
        publisher.publish_numbers(name="pub", start=21, end=22)
        kept(keeping, 12)
    (gap,) = gaps(tmp_path, "gap")
    assert (gap["sn_from"], gap["sn_to"], gap["count"]) == (10, 19, 10)


@pytest.mark.parametrize("detect", [{}, None], ids=["numbers", "times"])
def test_a_history_fills_what_was_missed(world, publisher, key, tmp_path, detect):
    """Nothing is published any more; what is there already is not taken again."""
    with spooler(tmp_path, key, world.hub.endpoint, history=True) as keeping:
        known(publisher, keeping, key)
        publisher.advanced_publisher(name="pub", key=key, cache=15, detect=detect)
        publisher.publish_numbers(name="pub", start=0, end=10)
        kept(keeping, 10)
    publisher.publish_numbers(name="pub", start=10, end=18)
    with spooler(tmp_path, key, world.hub.endpoint, history=True) as keeping:
        kept(keeping, 18)
    assert payloads(tmp_path) == list(range(18))
    assert gaps(tmp_path, "gap") == []
    asked = [row["detail"] for row in gaps(tmp_path, "epoch")]
    assert [detail.startswith("caches of publishers are asked for") for detail in asked] == [
        True,
        False,
        True,
    ]
    assert "all that they have" in asked[0]
    assert "since 20" in asked[2]


def test_plain_publishers_are_kept_as_they_come(world, key, tmp_path):
    """Times that go back and numbers that repeat do not matter for plain publishers."""
    with (
        zenoh.open({"mode": "client", "connect/endpoints": [world.hub.endpoint]}) as session,
        spooler(tmp_path, key, world.hub.endpoint, history=True) as keeping,
    ):
        stamps = [session.new_timestamp() for _ in range(3)]
        entity = session.declare_publisher(key).id
        block = {"congestion_control": zenoh.CongestionControl.BLOCK}
        for number, stamp in enumerate([stamps[2], stamps[0], stamps[0], stamps[1]]):
            session.put(key, str(number), timestamp=stamp, **block)
        for number in (1, 1, 0, 2):
            session.put(key, str(4 + number), source_info=zenoh.SourceInfo(entity, number), **block)
        kept(keeping, 8)
    assert sorted(payloads(tmp_path)) == [0, 1, 2, 3, 4, 5, 5, 6]
