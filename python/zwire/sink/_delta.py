"""Delta Lake, by ``deltalake``."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from zwire._lazy import library, pa
from zwire.errors import SinkError
from zwire.sink._table import Compacted, LostRaceError, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from os import PathLike

    from zwire.sink._table import Rows


class DeltaTable(Table):
    """A table of Delta Lake. Made by :func:`zwire.sink.delta`.

    A mark is the version of an application transaction (``txn`` of the Delta protocol), with the name as its
    ``appId``.
    """

    FORMAT: ClassVar[str] = "delta"

    def __init__(
        self,
        url: str | PathLike[str],
        *,
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        address = str(url)
        super().__init__(address if "://" in address else str(Path(address).absolute()), partition_by)
        self._delta: Any = library("deltalake", "delta")
        self._options = dict(options or {}) or None
        self._table: Any = None

    def marks(self, names: Iterable[str]) -> dict[str, int]:
        with self.translating():
            table = self._fresh()
            if table is None:
                return {}
            found = {name: table.transaction_version(name) for name in names}
        return {name: number for name, number in found.items() if number is not None}

    def to_arrow(self) -> pa.Table:
        with self.translating():
            return self._there().to_pyarrow_table()

    def compact(self, target_bytes: int = 128 << 20) -> Compacted:
        with self.translating():
            done = self._there().optimize.compact(target_size=target_bytes)
        return Compacted(int(done["numFilesRemoved"]), int(done["numFilesAdded"]))

    def vacuum(self, older_than: float = 7 * 86400.0) -> int:
        with self.translating():
            table = self._there()
            hours = math.ceil(max(0.0, older_than) / 3600)
            # Files of attempts without a commit too, which no version names.
            gone = table.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True)
            table.create_checkpoint()
            table.cleanup_metadata()
        return len(gone)

    def _fresh(self) -> Any:  # noqa: ANN401
        """Return the newest version of the table; None if there is none."""
        if self._table is None:
            if "://" not in self.address and not Path(self.address, "_delta_log").is_dir():
                # Opening a folder that does not exist would create it.
                return None
            with suppress(self._delta.exceptions.TableNotFoundError):
                self._table = self._delta.DeltaTable(self.address, storage_options=self._options)
        else:
            self._table.update_incremental()
        return self._table

    def _there(self) -> Any:  # noqa: ANN401
        table = self._fresh()
        if table is None:
            raise SinkError(f"{self.address}: there is no Delta table", table=self.address)
        return table

    def _schema(self) -> pa.Schema | None:
        table = self._fresh()
        return None if table is None else pa.schema(table.schema().to_arrow())

    def _create(self, schema: pa.Schema) -> None:
        self._delta.DeltaTable.create(
            self.address,
            schema=schema,
            mode="ignore",
            partition_by=list(self.partition_by) or None,
            storage_options=self._options,
        )

    def _append(self, rows: Rows, marks: Mapping[str, int]) -> None:
        transactions = [self._delta.Transaction(name, number) for name, number in marks.items()]
        try:
            self._delta.write_deltalake(
                self._table,
                rows(),
                mode="append",
                commit_properties=self._delta.CommitProperties(app_transactions=transactions),
            )
        except self._delta.exceptions.CommitFailedError as error:
            raise LostRaceError from error

    def _translated(self, error: Exception) -> Exception | None:
        if isinstance(error, self._delta.exceptions.DeltaError | OSError | pa.ArrowException):
            return SinkError(f"{self.address}: {error}", table=self.address)
        return None
