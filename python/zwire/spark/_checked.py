"""Options of functions for Spark: each field has its default and bound, checked before the job starts."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField, StructType


def _bound(default: Any, fits: Callable[[Any], bool], text: str, kind: Any = None) -> Any:  # noqa: ANN401
    metadata = {"fits": fits, "text": text, "kind": kind or (lambda value: value)}
    return dataclasses.field(default=default, metadata=metadata)


def choice(default: Any, *allowed: object) -> Any:  # noqa: ANN401 - the type is that of the field
    """Make a field with a fixed set of values; ``None`` is allowed where it is the default."""
    known = ", ".join(map(str, allowed))
    return _bound(default, lambda value: value in allowed, f"be one of {known}, not {{!r}}")


def whole(default: int | None, least: int, most: int | None = None) -> Any:  # noqa: ANN401 - as above
    """Make a field with an integer within bounds."""
    if most is None:
        return _bound(default, lambda value: value >= least, f"be at least {least}, not {{}}")
    return _bound(default, lambda value: least <= value <= most, f"be {least} to {most}, not {{}}")


def above_zero(default: float | None, kind: type | None = float) -> Any:  # noqa: ANN401 - as above
    """Make a field with a positive number: seconds, or things per second."""
    return _bound(default, lambda value: value > 0, "be positive, not {}", kind)


def not_negative(default: float, kind: type) -> Any:  # noqa: ANN401 - as above
    """Make a field with a number that may be 0."""
    return _bound(default, lambda value: value >= 0, "not be negative, but is {}", kind)


class Checked:
    """Base of dataclasses with such fields; sent to the workers, so all fields pickle."""

    def __post_init__(self) -> None:
        """Check all fields; an error names the option."""
        for each in dataclasses.fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            value = getattr(self, each.name)
            if "fits" not in each.metadata or (value is None and each.default is None):
                continue
            if not each.metadata["fits"](value):
                raise ValueError(f"{each.name} must {each.metadata['text'].format(value)}")
            object.__setattr__(self, each.name, each.metadata["kind"](value))


def dtypes(df: DataFrame) -> list[tuple[str, str]]:
    """Return the names and types of the columns; refuse a frame of pandas, also of pandas on Spark."""
    if "pandas" in type(df).__module__.split("."):
        way = "pandas: give spark.createDataFrame(df)"
        if hasattr(df, "to_spark"):
            way = "pyspark.pandas: give df.to_spark()"
        raise TypeError(f"df must be a DataFrame of Spark, not of {way}")
    return df.dtypes


def check_kind(kinds: Mapping[str, str], name: str, *allowed: str, advice: str = "", of: str = "") -> None:
    """Refuse the lack of a column, and one of another type."""
    if name not in kinds:
        raise ValueError(f"there is no column {name!r}{advice}")
    if kinds[name] not in allowed:
        raise ValueError(f"column {name!r}{of} must be {' or '.join(allowed)}, not {kinds[name]}")


def added(df: DataFrame, prefix: str, fields: Iterable[StructField], what: str) -> StructType:
    """Return the schema of a DataFrame with more fields, whose names get a prefix; refuse existing names."""
    from pyspark.sql.types import StructField, StructType

    more = [StructField(prefix + field.name, field.dataType) for field in fields]
    for field in more:
        if field.name in df.columns:
            raise ValueError(f"there is a column {field.name!r} already: give a prefix for those of {what}")
    return StructType([*df.schema.fields, *more])
