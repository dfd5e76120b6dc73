"""Objects of a table of Parquet: in a folder, or in a store."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from uuid import uuid4

from zwire._lazy import library
from zwire.errors import SinkError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager


class Object(NamedTuple):
    """A listed object: its name below the root, and its age in seconds."""

    name: str
    age: float


class Store(Protocol):
    """Named objects below a root."""

    def create(self, name: str, data: bytes) -> bool:
        """Store an object, unless the name is taken; return whether it was stored."""

    def read(self, name: str) -> bytes | None:
        """Return an object; None if there is none."""

    def listed(self, prefix: str) -> list[Object]:
        """Return all objects below a prefix."""

    def remove(self, name: str) -> None:
        """Delete an object, if it exists."""

    def writing(self, name: str) -> AbstractContextManager[Any]:
        """Return a file that is an object once the block has ended well."""

    def url(self, name: str) -> str:
        """Return the path or address of an object."""


class Folder:
    """Objects as files; a new name is on the disk before the call returns."""

    def __init__(self, root: str) -> None:
        self._root = Path(root).absolute()

    def url(self, name: str) -> str:
        return str(self._root / name)

    def create(self, name: str, data: bytes) -> bool:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{uuid4().hex}")
        try:
            with draft.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            # A link fails where a rename would replace.
            os.link(draft, path)
        except FileExistsError:
            return False
        finally:
            draft.unlink(missing_ok=True)
        _sync(path.parent)
        return True

    def read(self, name: str) -> bytes | None:
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None

    def listed(self, prefix: str) -> list[Object]:
        now, found = time.time(), []
        for folder, _, files in os.walk(self._root / prefix):
            for file in files:
                path = Path(folder, file)
                with contextlib.suppress(FileNotFoundError):
                    found.append(Object(str(path.relative_to(self._root)), now - path.stat().st_mtime))
        return found

    def remove(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[Any]:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        _sync(path.parent)


def _sync(folder: Path) -> None:
    if sys.platform == "win32":
        # Windows opens no folders; NTFS journals their entries.
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Bucket:
    """Objects of S3, Google Cloud Storage or Azure, by ``obstore``."""

    def __init__(self, address: str, options: Mapping[str, str] | None) -> None:
        self._obstore: Any = library("obstore", "parquet")
        from obstore.store import from_url

        self._address = address.rstrip("/")
        config: Any = dict(options or {})
        plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http:")
        client: Any = {"allow_http": True} if plain else None
        self._store: Any = from_url(self._address, config=config or None, client_options=client)

    def url(self, name: str) -> str:
        return f"{self._address}/{name}"

    def create(self, name: str, data: bytes) -> bool:
        try:
            with self._failing(name):
                self._obstore.put(self._store, name, data, mode="create")
        except self._obstore.exceptions.AlreadyExistsError:
            # The answer to an attempt that the library has repeated may have been lost: then it is ours.
            return self.read(name) == data
        return True

    def read(self, name: str) -> bytes | None:
        try:
            with self._failing(name):
                return bytes(self._obstore.get(self._store, name).bytes())
        except FileNotFoundError:
            return None

    def listed(self, prefix: str) -> list[Object]:
        now = time.time()
        with self._failing(prefix):
            return [
                Object(meta["path"], now - meta["last_modified"].timestamp())
                for chunk in self._obstore.list(self._store, prefix=prefix or None)
                for meta in chunk
            ]

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._failing(name):
            self._obstore.delete(self._store, name)

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[Any]:
        # An upload that is not closed has no object.
        with self._failing(name):
            file = self._obstore.open_writer(self._store, name)
            yield file
            file.close()

    @contextlib.contextmanager
    def _failing(self, name: str) -> Iterator[None]:
        errors = self._obstore.exceptions
        try:
            yield
        except (errors.AlreadyExistsError, errors.NotFoundError):
            raise
        except errors.BaseError as error:
            raise SinkError(f"{self.url(name)}: {error}", table=self._address) from error


def opened(address: str, options: Mapping[str, str] | None) -> Store:
    """Return the store of an address, or the folder of a path."""
    if address.startswith("file://"):
        return Folder(address.removeprefix("file://"))
    return Bucket(address, options) if "://" in address else Folder(address)
