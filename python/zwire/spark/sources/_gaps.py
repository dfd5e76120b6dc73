"""The format ``zwire.gaps``: losses noted by the writers of spools."""

from __future__ import annotations

from zwire.spark.sources._tables import SpoolTable


class GapsDataSource(SpoolTable):
    """The logs of gaps of spools: see the guide for its options."""

    FORMAT = "zwire.gaps"
    TABLE = "gaps"
