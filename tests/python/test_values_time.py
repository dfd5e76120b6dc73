"""NTP64, Timestamp, TimestampId and the ids of nodes."""

import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zwire import errors
from zwire.zenoh import NTP64, EntityGlobalId, SourceInfo, Timestamp, TimestampId, ZenohId

MOMENT = datetime(2024, 7, 1, 13, 51, 12, 129693, tzinfo=UTC)
STAMP = Timestamp(MOMENT, b"\x33")


def pickled(value):
    return pickle.loads(pickle.dumps(value))


def test_a_time():
    time = NTP64(1, 500_000_000)
    assert str(time) == repr(time) == "6442450944"
    assert int(time) == 6442450944
    assert time.as_secs_f64() == 1.5
    assert time.as_secs() == 1
    assert time.subsec_nanos() == 500_000_000
    assert time.as_nanos() == 1_500_000_000
    assert time.to_datetime() == datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)
    assert NTP64(1, 5).to_string_rfc3339_lossy() == "1970-01-01T00:00:01.000000005Z"
    assert NTP64(1, 2_000_000_000) == NTP64(3, 0)
    assert NTP64(0, 1) < NTP64(0, 5) < NTP64(1, 0)
    assert NTP64(0, 1) != 1


@pytest.mark.parametrize("seconds", [2**32, 2**63])
def test_a_time_ends_in_2106(seconds):
    assert int(NTP64(2**32 - 1, 999_999_999)) < 2**64
    with pytest.raises(errors.InvalidValue, match="2106"):
        NTP64(seconds, 0)
    with pytest.raises(OverflowError):
        NTP64(-1, 0)


def test_instants_as_text():
    time = NTP64.parse_rfc3339("2024-07-01T13:51:12.129693000Z")
    assert int(time) == 7386664595088445305
    assert time.to_string_rfc3339_lossy() == "2024-07-01T13:51:12.129693000Z"
    with pytest.raises(errors.InvalidValue, match="at byte 0"):
        NTP64.parse_rfc3339("x")


def test_a_timestamp():
    assert str(STAMP) == repr(STAMP) == "7386664595088445305/33"
    assert STAMP.to_string_rfc3339_lossy() == "2024-07-01T13:51:12.129693000Z/33"
    assert Timestamp.parse_rfc3339("2024-07-01T13:51:12.129693000Z/33") == STAMP
    assert STAMP.get_time() == MOMENT
    assert STAMP.get_time().tzinfo is UTC
    assert STAMP.get_time_as_ntp64() == NTP64(1719841872, 129_693_000)
    assert STAMP.get_id() == TimestampId(b"\x33")
    assert Timestamp(time=NTP64(1, 0), id=TimestampId(b"\1")) == Timestamp(NTP64(1, 0), bytearray(b"\1"))


def test_any_zone_will_do_and_none_will_not():
    there = timezone(timedelta(hours=-5))
    assert Timestamp(MOMENT.astimezone(there), b"\x33") == STAMP
    with pytest.raises(TypeError, match="offset-naive"):
        Timestamp(MOMENT.replace(tzinfo=None), b"\x33")


def test_what_is_no_timestamp():
    for time in (datetime(1969, 12, 31, tzinfo=UTC), datetime(2107, 1, 1, tzinfo=UTC)):
        with pytest.raises(errors.InvalidValue):
            Timestamp(time, b"\1")
    for id in (b"", b"\0", b"\1" * 17):
        with pytest.raises(errors.InvalidValue, match="1 to 16 bytes"):
            Timestamp(MOMENT, id)
    for time, id in ((1, b"\1"), (MOMENT, "1"), (MOMENT, None)):
        with pytest.raises(TypeError):
            Timestamp(time, id)
    with pytest.raises(errors.InvalidValue):
        Timestamp.parse_rfc3339("2024-07-01T13:51:12Z")


def test_order_is_time_then_id():
    later = Timestamp(MOMENT + timedelta(microseconds=1), b"\1")
    assert later > STAMP
    assert Timestamp(MOMENT, b"\x33\1") > STAMP
    assert sorted([later, STAMP]) == [STAMP, later]
    assert len({STAMP, Timestamp(MOMENT, b"\x33"), later}) == 2
    assert STAMP != 1


def test_a_difference_has_a_sign():
    # The reference wraps it around at 2^32 seconds.
    later = Timestamp(MOMENT + timedelta(days=3, microseconds=7), b"\1")
    assert later.get_diff_duration(STAMP) == timedelta(days=3, microseconds=7)
    assert STAMP.get_diff_duration(later) == timedelta(days=-3, microseconds=-7)


def test_ids_of_timestamps():
    assert str(TimestampId(b"\1\2")) == "201"
    assert bytes(TimestampId(b"\1\2\0\0")) == b"\1\2"
    assert TimestampId(b"\1") < TimestampId(b"\2")
    assert TimestampId(TimestampId(b"\1")) == TimestampId(memoryview(b"\1"))


def test_ids_of_nodes():
    zid = ZenohId("a1a2a3a4")
    assert str(zid) == repr(zid) == "a1a2a3a4"
    assert bytes(zid) == b"\xa4\xa3\xa2\xa1"
    assert bytes(ZenohId("a0b")) == b"\x0b\x0a"
    assert bytes(ZenohId("1" + "0" * 31)) == bytes(15) + b"\x10"
    assert zid == ZenohId("a1a2a3a4")
    assert zid != "a1a2a3a4"
    assert len({zid, ZenohId("a1a2a3a4"), ZenohId("1")}) == 2
    for wrong in ("", "0", "01", "g", "A", "1" * 33):
        with pytest.raises(errors.InvalidValue):
            ZenohId(wrong)


def test_ids_of_entities_and_sources():
    entity = EntityGlobalId(ZenohId("ab"), 7)
    assert (entity.zid, entity.eid) == (ZenohId("ab"), 7)
    source = SourceInfo(source_id=entity, source_sn=3)
    assert (source.source_id, source.source_sn) == (entity, 3)
    assert source == SourceInfo(entity, 3)
    assert len({source, SourceInfo(entity, 3), SourceInfo(entity, 4)}) == 2
    with pytest.raises(TypeError):
        SourceInfo(1, 2)
    with pytest.raises(OverflowError):
        SourceInfo(entity, 2**32)


@given(st.integers(0, 2**64 - 1), st.binary(min_size=1, max_size=16).filter(any))
def test_they_pickle_without_loss(time, id):
    stamp = Timestamp(NTP64.from_int(time), id)
    assert pickled(stamp) == stamp
    assert int(pickled(stamp.get_time_as_ntp64())) == time
    assert pickled(stamp.get_id()) == stamp.get_id()


def test_ids_pickle():
    for value in (
        ZenohId("ab"),
        EntityGlobalId(ZenohId("ab"), 1),
        SourceInfo(EntityGlobalId(ZenohId("1"), 1), 2),
    ):
        assert pickled(value) == value
        assert hash(pickled(value)) == hash(value)
