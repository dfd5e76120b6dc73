"""Recordings in files, and published again."""

import datetime as dt
from pathlib import Path
from typing import assert_type

from zwire import aio, recording, zenoh
from zwire.aio import recording as on_a_loop
from zwire.recording import McapSchema, Recording, Remap, Replayed, ReplayOptions, Written


def files() -> None:
    found = recording.read(
        "a.mcap", Path("b.parquet"), keys=["a/**"], start=dt.datetime.now(dt.UTC), stop=9.5
    )
    assert_type(found, Recording)
    assert_type(found.size, int)
    schemas = {"demo.Pose": McapSchema("protobuf", b"")}
    assert_type(recording.write(found, "c.mcap", schemas=schemas), Written)
    assert_type(Remap({"a": "b"})("a/c"), str)
    recording.read(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def again(session: zenoh.Session) -> None:
    options: ReplayOptions = {"rate": None, "loop": 2, "timestamps": "original", "progress": print}
    done = recording.replay(session, recording.read("a.mcap"), **options)
    assert_type(done, Replayed)
    assert_type((done.rows, done.late, done.unsent), tuple[int, float, int])
    recording.replay(session, [], timestamps="old")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    recording.replay(session, [], speed=2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def live(session: zenoh.Session) -> None:
    with recording.Recorder(session, ["a/**"], "a.mcap", rotate_bytes=1 << 30) as recorder:
        assert_type(recorder.stats(), recording.Recorded)
    assert_type(recording.losses("a.mcap"), list[recording.Loss])
    assert_type(recording.damage("a.mcap", Path("b")), list[recording.Damage])
    recording.Recorder(session, ["a"], "a.mcap", rotate=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def on_loops(session: aio.Session) -> None:
    assert_type(await on_a_loop.replay(session, recording.read("a.mcap"), rate=2.0), Replayed)
