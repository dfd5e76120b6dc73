"""Values as rows of tables, and tables as values."""

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Literal
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

from models import (
    ID,
    NOON,
    Ambiguous,
    Circle,
    Extra,
    Gear,
    Group,
    Level,
    Metres,
    Model,
    Pose,
    Struct,
    Untold,
    there_and_back,
)
from zwire import typed
from zwire.typed import _table


def test_tables_of_arrow_see_the_payload_itself():
    table = pa.table({"x": pa.array(range(1_000), pa.int64()), "name": ["a"] * 1_000})
    payload, encoding = typed.encode(table)
    assert str(encoding) == "application/vnd.apache.arrow.stream"
    again = typed.decode(payload, encoding, pa.Table)
    assert again == table
    inside = memoryview(payload)
    start = np.frombuffer(inside, np.uint8).ctypes.data
    assert start <= again["x"].chunk(0).buffers()[1].address < start + len(inside)
    (batch,) = table.to_batches()
    assert there_and_back(batch) == batch
    assert typed.decode(payload, encoding, pa.RecordBatch) == batch
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as file:
        file.write(table)
    assert typed.decode(sink.getvalue(), "application/vnd.apache.arrow.file", pa.Table) == table
    assert there_and_back(table.slice(0, 0)).num_rows == 0


@dataclass
class Row:
    flag: bool
    count: int
    at: datetime
    day: date
    hour: time
    lasted: timedelta
    price: Decimal
    id: UUID
    raw: bytes
    gear: Gear
    level: Level | None
    shape: Literal["a", "b"]
    pose: Pose
    circles: list[Circle]
    names: set[str]
    by_name: dict[str, Pose | None]
    extra: Extra
    distance: Metres


def test_the_columns_of_a_model():
    schema = typed.arrow_schema(Row)
    pose = pa.struct([pa.field("x", pa.float64(), False), pa.field("y", pa.float64(), False)])
    assert schema.field("at").type == pa.timestamp("us", "UTC")
    assert schema.field("price").type == schema.field("id").type == schema.field("gear").type == pa.string()
    assert (schema.field("level").type, schema.field("level").nullable) == (pa.int64(), True)
    assert schema.field("pose").type == pose
    assert schema.field("by_name").type == pa.map_(pa.string(), pose)
    assert schema.field("circles").type.value_type.field("radius").type == pa.float64()
    assert schema.field("extra").type.field("weight").nullable
    assert [typed.arrow_schema(model).names for model in (Struct, Model, Extra, Pose)] == [
        ["x", "at", "tags"], ["x", "at", "gear"], ["note", "weight"], ["x", "y"],
    ]  # fmt: skip
    for model in (int, list[int], dict, Group, Untold, Ambiguous, dict[str, int]):
        with pytest.raises(TypeError, match=r"no named fields|no column"):
            typed.arrow_schema(model)


def test_the_rows_of_a_model():
    row = Row(
        flag=True,
        count=1,
        at=NOON,
        day=NOON.date(),
        hour=time(1, 2),
        lasted=timedelta(seconds=1),
        price=Decimal("1.10"),
        id=ID,
        raw=b"\0",
        gear=Gear.DRIVE,
        level=None,
        shape="b",
        pose=Pose(1.0, 2.0),
        circles=[Circle("circle", 1.0)],
        names={"a"},
        by_name={"p": Pose(1.0, 2.0), "q": None},
        extra={"note": "n"},
        distance=Metres(1.0),
    )
    table = pa.Table.from_pylist([_table._column(Row).convert(row)], schema=typed.arrow_schema(Row))
    table.validate(full=True)
    (out,) = table.to_pylist()
    assert (out["at"], out["day"], out["hour"], out["lasted"]) == (row.at, row.day, row.hour, row.lasted)
    assert (out["price"], out["id"], out["gear"], out["level"]) == ("1.10", str(ID), "d", None)
    assert out["pose"] == {"x": 1.0, "y": 2.0}
    assert out["by_name"] == [("p", {"x": 1.0, "y": 2.0}), ("q", None)]
    assert out["extra"] == {"note": "n", "weight": None}
