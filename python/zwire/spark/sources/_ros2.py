"""The format ``zwire.ros2``: the messages of a topic of ROS 2 as a table with the columns of their type."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pyspark.sql.datasource import DataSource, DataSourceReader

from zwire._lazy import pa, pc
from zwire.spark._ros2 import KEY, NO_HASH, type_name
from zwire.spark._types import struct, types
from zwire.spark._worker import task
from zwire.spark.payloads import spec_of
from zwire.spark.sources._options import Options, named
from zwire.spark.sources._pcap import FILES, Captures, listed, packed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from zwire.ros2 import MessageType
    from zwire.spark._payloads._apply import Spec

    Errors: TypeAlias = Literal["rows", "raise"]

NAME = "zwire.ros2"

KNOWN = (*named("topic type definitions distribution spool columns prefix errors pushdown"), *FILES)

# Columns between the reader and the decoder.
_PAYLOAD, _PROBLEM = "zwire_payload", "zwire_problem"

_ROWS = [("ts", "timestamp"), ("topic", "string")]
_READ = ("encoding", "key", "payload", "recv_ts", "timestamp")
_INSTEAD = "topic, type, columns, or fewer paths"


class Wanted:
    """A topic, its type, and where its messages are."""

    def __init__(self, options: Options) -> None:
        self.options = options
        topic = options.text("topic")
        if topic is None or not topic.strip("/"):
            raise options.error("topic", "is missing: give the name of a topic, such as /robot/imu")
        self.topic = "/" + topic.strip("/")
        self.errors: Errors = options.choice("errors", ("rows", "raise"), "rows")
        self.prefix = options.text("prefix", "")
        self.spool = options.text("spool")
        if self.spool is not None and ("path" in options or "paths" in options):
            raise options.error("spool", "and path exclude each other")

    def paths(self) -> list[str]:
        """Return the files, or the folder of the spool."""
        return [self.spool] if self.spool is not None else [file.path for file in listed(self.options)]

    def read(self, path: str) -> Iterator[pa.RecordBatch]:
        """Read the rows of the topic in a file or a spool."""
        from zwire import recording

        name = self.topic[1:]
        keys = [name, f"*/{name}/*/*"]
        yield from recording.read(path, keys=keys, columns=_READ)

    def type(self) -> MessageType[Any]:
        """Return the type of the topic: that of the option, or of the first message that has one."""
        from zwire.ros2._store import DISTRIBUTIONS, TypeStore

        name = self.options.text("type")
        paths = self.paths()
        if name is None:
            name = next(filter(None, map(self._named, paths)), None)
            if name is None:
                raise self.options.error("type", f"is missing: no message of {self.topic} has one")
        store = TypeStore(self.options.choice("distribution", DISTRIBUTIONS, "jazzy"))
        folder = self.options.text("definitions")
        if folder is not None and name in store.add_folder(folder):
            return store.message(name)
        for path in paths:
            # A recording has the definition that its publisher had, whatever the distribution.
            own = TypeStore(None)
            if Path(path).suffix == ".mcap" and own.add_mcap(path, names=[name]):
                return own.message(name)
        return store.message(name)

    def _named(self, path: str) -> str | None:
        for batch in self.read(path):
            rows = batch.select(["key", "encoding"]).to_pylist()
            found = next(filter(None, (type_name(row["key"], row["encoding"]) for row in rows)), None)
            if found is not None:
                return found
        return None


class Ros2DataSource(DataSource):
    """Messages of a topic as a table: see the guide for its options."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> StructType:
        """Check the options, and return time, topic, the fields of the type, and ``error``."""
        options = Options(NAME, self.options, KNOWN)
        options.no_pushdown(_INSTEAD)
        wanted = Wanted(options)
        spec = _spec(wanted, wanted.type())
        fields = [*spec.schema, *struct([("error", "string")])]
        more = [types.StructField(wanted.prefix + each.name, each.dataType) for each in fields]
        names = [name for name, _ in _ROWS]
        for field in more:
            if field.name in names:
                raise options.error("prefix", f"is needed: there is a column {field.name!r} already")
        return types.StructType([*struct(_ROWS), *more])

    def reader(self, schema: StructType) -> Ros2Reader:
        """Return the reader of messages."""
        options = Options(NAME, self.options, KNOWN)
        options.no_pushdown(_INSTEAD)
        wanted = Wanted(options)
        return Ros2Reader(wanted, wanted.type(), schema.fieldNames())


class Ros2Reader(DataSourceReader):
    """Reads the messages of a topic, the files of a partition one after the other."""

    def __init__(self, wanted: Wanted, made: MessageType[Any], names: list[str]) -> None:
        self.wanted, self.names = wanted, names
        self.hash, self.spec = made.hash, _spec(wanted, made)

    def partitions(self) -> list[InputPartition]:
        """Spread the present files over partitions; a spool is one."""
        if self.wanted.spool is not None:
            return [Captures([self.wanted.spool])]
        return [Captures(paths) for paths in packed(listed(self.wanted.options), self.wanted.options)]

    @task
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Decode the messages."""
        from zwire.spark._payloads._apply import Unpack

        unpack = Unpack(self.spec)
        error = f"{self.spec.prefix}error"
        # Without files Spark makes a partition of its own.
        for path in partition.paths if isinstance(partition, Captures) else []:
            for batch in self.wanted.read(path):
                for decoded in unpack(iter([self._rows(batch)])):
                    problems = pc.coalesce(decoded.column(_PROBLEM), decoded.column(error))
                    place = decoded.schema.get_field_index(error)
                    yield decoded.set_column(place, error, problems).select(self.names)

    def _rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return time, topic and payload of rows; keys with the hash of another type have no payload."""
        problems = pa.array([self._problem(key) for key in batch.column("key").to_pylist()], pa.string())
        payload = batch.column("payload")
        columns = {
            "ts": pc.coalesce(batch.column("timestamp"), batch.column("recv_ts")),
            "topic": pa.repeat(pa.scalar(self.wanted.topic), batch.num_rows),
            _PAYLOAD: pc.if_else(pc.is_null(problems), payload, pa.scalar(None, payload.type)),
            _PROBLEM: problems,
        }
        return pa.record_batch(columns)

    def _problem(self, key: str) -> str | None:
        match = re.match(KEY, key)
        if match is None or match[4] in (self.hash, NO_HASH):
            return None
        return f"{self.spec.message} has the hash {self.hash}, and the key {match[4]}"


def _spec(wanted: Wanted, made: MessageType[Any]) -> Spec:
    return spec_of(made, wanted.options.listed("columns") or None, _PAYLOAD, wanted.prefix, wanted.errors)
