"""A spool as a dataset of pyarrow, which DuckDB and other engines query."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds

from zwire.errors import NotSupported

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zwire.spool._scan import Scan


class SpoolDataset(ds.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """The rows of a spool that were selected, for engines that read datasets of pyarrow.

    Engines push columns and filters down through :meth:`scanner`: other columns are not read, and of the rows
    only the offsets and times that the filter leaves. Each scan reads the spool again.
    """

    def __init__(self, scan: Scan) -> None:
        # The constructor of the base refuses all calls, and its methods need a dataset of C++.
        self._scan = scan

    def __reduce__(self) -> Any:  # noqa: ANN401
        raise TypeError("a dataset of a spool does not pickle: pickle the spool")

    def __repr__(self) -> str:
        return f"<SpoolDataset of {self._scan.view.path!r}>"

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._scan.schema

    @property
    def partition_expression(self) -> ds.Expression:
        """The condition that all rows meet: none."""
        return ds.scalar(True)

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: ds.Expression | None = None,
        **_options: object,
    ) -> ds.Scanner:
        """Return a scanner of some columns of the rows that pass a filter; options have no effect."""
        if isinstance(columns, dict):
            raise NotSupported("a dataset of a spool has no computed columns: give a list of names")
        wanted = self._scan.schema.names if columns is None else list(columns)
        schema = self._scan.table.select(wanted).arrow() if wanted else pa.schema([])
        batches = self._batches(wanted, filter)
        # The filter is applied already: the scanner only passes the batches on, few of them ahead.
        reader = pa.RecordBatchReader.from_batches(schema, batches)
        return ds.Scanner.from_batches(reader, batch_readahead=1, fragment_readahead=1)

    def _batches(self, wanted: list[str], filter: ds.Expression | None) -> Iterator[pa.RecordBatch]:
        read = wanted if filter is None else [*wanted, *_named(filter, self.schema.names, wanted)]
        for batch in self._scan.batches(
            read or ["offset"],
            ranges=self._scan.left_by(filter),
            keep=None if filter is None else lambda batch: batch.filter(filter),
        ):
            yield batch.select(wanted)

    def get_fragments(self, filter: ds.Expression | None = None) -> Iterator[ds.Fragment]:  # noqa: ARG002
        """Refuse: the rows of a spool are no files of a dataset."""
        raise NotSupported("a dataset of a spool has no fragments: use scanner, to_table or to_batches")

    def filter(self, expression: ds.Expression) -> ds.Dataset:  # noqa: ARG002
        """Refuse: give the filter to the call that reads."""
        raise NotSupported("a dataset of a spool takes filters in scanner, to_table and to_batches")

    def replace_schema(self, schema: pa.Schema) -> ds.Dataset:  # noqa: ARG002
        """Refuse: the schema is that of the spool."""
        raise NotSupported("the schema of a dataset of a spool is that of the spool")


def _named(filter: ds.Expression, names: Sequence[str], besides: Sequence[str]) -> list[str]:
    """Return the columns that a filter may refer to: their names are words of its text."""
    words = set(re.findall(r"\w+", str(filter)))
    return [name for name in names if name in words and name not in besides]
