"""The format ``zre.log``: the records of ZRE/LOG in a spool."""

from __future__ import annotations

from zwire.spark.sources._tables import SpoolTable


class ZreLogDataSource(SpoolTable):
    """A spool of ZRE/LOG: see the guide for its options."""

    FORMAT = "zre.log"
    TABLE = "zre.log"
