"""Selectors of partitions and columns are asked, and every reply comes back as a row."""

import datetime as dt
import time

import pytest
from pyspark.errors import PythonException
from pyspark.sql import functions as f

import zwire.spark as zs
from zwire import zenoh

pytestmark = pytest.mark.smoke


@pytest.fixture
def squares(client):
    def answer(query):
        parameters = query.parameters
        if "fail" in parameters:
            query.reply_err(f"cannot {parameters.get('fail')}".encode(), encoding="text/plain")
            return
        if "gone" in parameters:
            query.reply_del(query.key_expr)
            return
        number = int(str(query.key_expr).rsplit("/", 1)[1])
        extra = b"" if query.payload is None else b" " + query.payload.to_bytes()
        query.reply(query.key_expr, str(number * number).encode() + extra, encoding="text/plain")

    queryable = client.declare_queryable("square/*", answer)
    yield queryable
    queryable.undeclare()


def test_an_rdd_of_selectors_is_answered_in_order(spark, endpoint, squares):
    rdd = spark.sparkContext.parallelize([f"square/{n}" for n in range(500)], 2)
    rows = rdd.mapPartitions(zs.get_partition(endpoint)).collect()
    assert [type(row) for row in rows] == [zs.ReplyRow] * 500
    assert [int(row.payload) for row in rows] == [n * n for n in range(500)]
    assert [row.key for row in rows] == [f"square/{n}" for n in range(500)]
    assert {(row.encoding, row.error) for row in rows} == {("text/plain", None)}


def test_errors_deletions_payloads_and_bad_selectors_are_rows(spark, endpoint, squares):
    asked = ["square/1?fail=it", "square/2?gone=", ("square/3", b"with this"), "square//4", None]
    rows = spark.sparkContext.parallelize(asked, 1).mapPartitions(zs.get_partition(endpoint)).collect()
    failed, gone, payload, bad, null = rows
    assert (failed.error, failed.payload, failed.encoding) == ("cannot it", b"cannot it", "text/plain")
    assert (gone.key, gone.payload, gone.error) == ("square/2", None, None)
    assert payload.payload == b"9 with this"
    assert "empty chunk" in bad.error
    assert null.error == "the selector is null"


def test_a_column_of_selectors_is_a_lookup_join(spark, endpoint, client, squares):
    df = spark.range(1000).select("id", f.concat(f.lit("square/"), f.col("id")).alias("ask"))
    joined = zs.get(df, "ask", endpoint)
    assert joined.columns == ["id", "ask", *zs.schema.REPLY.names]
    rows = joined.collect()
    assert len(rows) == 1000
    assert all(int(bytes(row.payload)) == row.id**2 for row in rows)


def test_rows_without_a_reply_stay_or_go(spark, endpoint, squares):
    df = spark.createDataFrame([("square/3", 1), ("nobody/1", 2)], "ask string, n int").coalesce(1)
    left = zs.get(df, "ask", endpoint).collect()
    assert [(row.n, row.payload and bytes(row.payload), row.error) for row in left] == [
        (1, b"9", None),
        (2, None, None),
    ]
    assert [row.n for row in zs.get(df, "ask", endpoint, how="inner").collect()] == [1]


def test_several_replies_repeat_the_row(spark, endpoint, client):
    queryables = [
        client.declare_queryable("multi", lambda query, n=n: query.reply("multi", str(n))) for n in range(3)
    ]
    df = spark.createDataFrame([("multi", "a"), ("multi", "b")], "ask string, name string").coalesce(1)
    rows = zs.get(df, "ask", endpoint, target="all", consolidation="none", prefix="reply_").collect()
    assert [row.name for row in rows] == ["a"] * 3 + ["b"] * 3
    assert sorted(bytes(row.reply_payload) for row in rows[:3]) == [b"0", b"1", b"2"]
    for queryable in queryables:
        queryable.undeclare()


def test_payloads_and_times_come_along(spark, endpoint, client):
    stamp = client.new_timestamp()
    queryable = client.declare_queryable(
        "echo", lambda query: query.reply("echo", query.payload, timestamp=stamp)
    )
    df = spark.createDataFrame([("echo", "hello")], "ask string, say string")
    (row,) = zs.get(df, "ask", endpoint, payload_column="say").collect()
    assert bytes(row.payload) == b"hello"
    # Spark gives local time without a zone.
    got = row.timestamp.astimezone(dt.UTC)
    assert abs(got - stamp.get_time()) < dt.timedelta(microseconds=2)
    queryable.undeclare()


def test_silence_becomes_a_row_at_the_timeout(spark, endpoint, client):
    held = []
    queryable = client.declare_queryable("slow", held.append)
    rdd = spark.sparkContext.parallelize(["slow", "slow"], 1)
    begin = time.monotonic()
    rows = rdd.mapPartitions(zs.get_partition(endpoint, timeout=0.5)).collect()
    assert [row.error for row in rows] == ["no complete answer within 0.5 s"] * 2
    # Both were under way at once.
    assert time.monotonic() - begin < 5
    queryable.undeclare()


def test_an_error_reply_can_end_the_job(spark, endpoint, squares):
    df = spark.createDataFrame([("square/1?fail=it",)], "ask string")
    with pytest.raises(PythonException, match=r"QueryError.*square/1\?fail=it: cannot it"):
        zs.get(df, "ask", endpoint, errors="raise").collect()


def test_only_so_many_are_under_way(spark, endpoint, client):
    held, most = [], []

    def hold(query):
        held.append(query)
        most.append(len(held))
        if len(held) == 4:
            time.sleep(0.1)
            most.append(len(held))
            for one in held:
                one.reply(one.key_expr, b"")
                one.drop()
            held.clear()

    queryable = client.declare_queryable("held/*", hold)
    rdd = spark.sparkContext.parallelize([f"held/{n}" for n in range(16)], 1)
    rows = rdd.mapPartitions(zs.get_partition(endpoint, in_flight=4, timeout=5)).collect()
    assert [row.error for row in rows] == [None] * 16
    assert max(most) == 4
    queryable.undeclare()


@pytest.mark.parametrize(
    ("column", "options", "words"),
    [
        ("nothing", {}, "no column 'nothing'"),
        ("n", {}, "must be string, not int"),
        ("ask", {"how": "outer"}, "how must be left or inner"),
        ("ask", {"prefix": "my"}, "column 'mykey' already"),
        ("ask", {"in_flight": 0}, "in_flight"),
        ("ask", {"timeout": 0}, "timeout"),
        ("ask", {"target": "some"}, "target"),
    ],
)
def test_mistakes_are_found_before_the_job(spark, column, options, words):
    df = spark.createDataFrame([], "ask string, n int, mykey string")
    with pytest.raises(ValueError, match=words):
        zs.get(df, column, "tcp/127.0.0.1:1", **options)


def test_a_session_of_the_driver_can_ask_too(endpoint, squares):
    session = zs.session(endpoint)
    (reply,) = session.get("square/12")
    assert reply.ok.payload.to_bytes() == b"144"
    assert zs.session(zenoh.Config({"mode": "client", "connect/endpoints": [endpoint]})) is session
    zs.close_sessions()
    assert session.is_closed()
