"""Secrets of a job are in no event, plan, error or output of Spark."""

import json
import os
import subprocess
import sys

import pytest

import nodes

PASSWORD = "opensesame-by-name"
LITERAL = "opensesame-as-text"

# Arguments: settings of Spark, endpoint of the hub, literal secret. Prints the number of refusals.
SCRIPT = """
import contextlib, io, json, sys, traceback
from pyspark.sql import SparkSession

settings, endpoint, literal = json.loads(sys.argv[1]), *sys.argv[2:]
builder = SparkSession.builder.master("local[2]").appName("secrets")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
usrpwd = "zenoh.transport.auth.usrpwd"
named = {f"{usrpwd}.user": "me", f"{usrpwd}.password": "env:ZWIRE_TEST_PASSWORD"}
refusals = 0

def reader(**options):
    return spark.read.format("zwire").options(selector="k/**", **({"endpoints": endpoint} | options))

def writer(**options):
    rows = spark.createDataFrame([("w/1", b"x")], "key string, payload binary")
    return rows.write.format("zwire").mode("append").options(**({"endpoints": endpoint} | options))

def refused(make):
    global refusals
    try:
        make()
    except Exception:
        # What a user sees: also of Spark's own exceptions, with the text of the worker.
        traceback.print_exc(file=sys.stdout)
        refusals += 1

frame = reader(**named).load()
assert frame.where("payload is not null").count() == 1
for mode in ("simple", "extended", "codegen", "cost", "formatted"):
    frame.explain(mode=mode)
print(frame._jdf.queryExecution().toString())
writer(**named).save()

for source in (lambda **o: reader(**o).load().collect(), lambda **o: writer(**o).save()):
    refused(lambda: source(**{f"{usrpwd}.password": literal}))
    refused(lambda: source(config='{transport: {auth: {usrpwd: {password: "%s"}}}}' % literal))
    refused(lambda: source(config='{transport: {auth: {usrpwd: "%s"}}}' % literal))
    refused(lambda: source(config='{transport: {auth: {usrpwd: {password: "%s}' % literal))
    refused(lambda: source(**{"zenoh.transport.link.tls.connect_private_key_base64": literal}))
    refused(lambda: source(**{f"{usrpwd}.passwort": literal}))
    for form in ("base64", "raw"):
        refused(lambda: source(endpoints=f"tls/127.0.0.1:1#connect_private_key_{form}={literal}"))
        refused(lambda: source(endpoints=f"tls/127.0.0.1:1#connect_private_key_{form}={literal}?rel=1"))
    # A secret that is read where it is needed, and is the wrong one.
    refused(lambda: source(**named | {f"{usrpwd}.password": "env:ZWIRE_TEST_WRONG"}))
    refused(lambda: source(**named | {f"{usrpwd}.password": "env:ZWIRE_TEST_MISSING"}))

consumer = {"spool": "zwire:", "endpoints": endpoint, "consumerSecret": literal}
stream = spark.readStream.format("zwire").options(**consumer, **named)
refused(lambda: stream.load().writeStream.format("noop").start().processAllAvailable())
options = f"selector 'k/**', endpoints '{endpoint}', `{usrpwd}.password` '{literal}'"
refused(lambda: spark.sql(f"create temporary view v using zwire options ({options})").collect())
pcap = spark.read.format("zwire.pcap").option("keys", literal)
refused(lambda: pcap.load("nowhere.pcap").collect())
zre = spark.createDataFrame([("x",)], "content string").write.format("zre").mode("append")
refused(lambda: zre.options(group="G", **{"zre.secret_key": literal}).save())
spark.stop()
print("refused", refusals)
"""


@pytest.mark.timeout(300)
def test_no_secret_is_in_events_plans_errors_or_output(tmp_path):
    users = tmp_path / "users"
    users.write_text(f"me:{PASSWORD}\n")
    events = tmp_path / "events"
    events.mkdir()
    settings = {
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file:{events}",
        "spark.eventLog.compress": "false",
        "spark.log.level": "INFO",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
        "spark.local.dir": str(tmp_path / "local"),
        "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|private.?key",
    }
    own = {"transport__auth__usrpwd__user": "me", "transport__auth__usrpwd__password": PASSWORD}
    with (
        nodes.router(transport__auth__usrpwd__dictionary_file=str(users), **own) as hub,
        hub.declare_queryable("k/1", lambda query: query.reply("k/1", "v")),
    ):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, json.dumps(settings), hub.listening()[0], LITERAL],
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONWARNINGS": "ignore",
                "ZWIRE_TEST_PASSWORD": PASSWORD,
                "ZWIRE_TEST_WRONG": f"{PASSWORD}-not",
            },
        )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "refused 28" in done.stdout, done.stdout[-4000:]
    files = [file for file in events.rglob("*") if file.is_file()]
    assert any("SparkListenerSQLExecutionStart" in file.read_text() for file in files)
    texts = {file.name: file.read_text() for file in files}
    texts |= {"stdout": done.stdout, "stderr": done.stderr}
    for name, text in texts.items():
        lines = [line[:400] for line in text.splitlines() if "opensesame" in line]
        assert not lines, f"{name}: {lines[:5]}"
