"""The modules of pyspark, imported when one of their names is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire._lazy import Lazy

__all__ = ["f", "types"]

if TYPE_CHECKING:
    from pyspark.sql import functions as f
    from pyspark.sql import types
else:
    f, types = Lazy("pyspark.sql.functions"), Lazy("pyspark.sql.types")
