"""Options of data sources: text from Spark, checked and typed here, in one place.

A source lists its options and reads each by its documented name::

    KNOWN = (*named("selectors|selector timeout"), *SESSION)
    options = Options("zwire", self.options, KNOWN)
    timeout = options.seconds("timeout", 10.0)

Spark lower-cases names, so case is ignored. A name that is not in the list is an error that suggests a
similar one. No secret is kept here: those of a session can only be referred to (``env:NAME``,
``file:/path``), see :mod:`zwire.spark._settings`.
"""

from __future__ import annotations

import difflib
import json
import re
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias, TypeVar, overload

from zwire.errors import ConfigError
from zwire.spark._settings import check_referred, refuse_inline, settings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pyspark.sql.types import StructType

    from zwire.spark.schema import RowSchema
    from zwire.zenoh import Config

    C = TypeVar("C", bound=str)
    D = TypeVar("D", bound=float | None)

_ZENOH = "zenoh."
"""Prefix of options that are keys of the session's configuration."""

_BY_SPARK = frozenset({"checkpointlocation", "queryname"})
"""Options of Spark itself, passed on with the options of a source."""

_NAME = "the whole name of the consumer is given as consumer, or as groupId"

_ABSENT = {
    "kafka.": ("keyFilter", "it is for brokers of Kafka: give the folder or the address of a spool as spool"),
    "subscribepattern": ("keyFilter", "give key expressions, which may have wildcards, as keyFilter"),
    "assign": ("keyFilter", "all shards are read: choose rows by keyFilter, or by where('shard = 0')"),
    "includeheaders": ("keyFilter", "metadata of a publisher are in the column attachment"),
    "groupidprefix": ("consumer", _NAME),
    "kafka.group.id": ("consumer", _NAME),
}
"""Options of Kafka's source that sources of ours do not have: one that such a source has, and the way out."""

_SECONDS = {"": 1.0, "s": 1.0, "ms": 1e-3, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

_BYTES = {"": 1, "b": 1} | {f"{unit}{b}": 1 << 10 * at for at, unit in enumerate("kmg", 1) for b in ("", "b")}

_MOST = (1 << 63) - 1

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


Option: TypeAlias = tuple[str, ...]
"""An option of a source: its documented name, and other names for it."""


def named(text: str) -> tuple[Option, ...]:
    """Return the options in a text, separated by spaces, each with its other names behind ``|``."""
    return tuple(tuple(names.split("|")) for names in text.split())


SESSION = named("endpoints|endpoint config")
"""Options of every source that opens sessions; keys below ``zenoh.`` are allowed as well."""


class Options:
    """The options given to a source.

    Args:
        source: Name of the format, for messages.
        given: Names and values as Spark gives them.
        known: Options of the source. If ``SESSION`` is among them, ``zenoh.*`` is allowed as well.
        elsewhere: Options that the source has in other uses, refused here as those ``of`` that use.

    Without pyarrow it raises an ImportError: a worker of Spark would only be reported as crashed.
    """

    def __init__(
        self,
        source: str,
        given: Mapping[str, str],
        known: Iterable[Option],
        *,
        elsewhere: Iterable[Option] = (),
        of: str = "",
    ) -> None:
        if find_spec("pyarrow") is None:
            problem = "pyarrow is not installed where Spark runs Python: pip install 'zwire[spark]'"
            raise ImportError(f"{source}: {problem}", name="pyarrow")
        self.source = source
        self._names: dict[str, str] = {}
        self._values: dict[str, str] = {}
        self._called: dict[str, str] = {}
        self._spelt: dict[str, str] = {}
        self._zenoh: dict[str, str] = {}
        self._elsewhere = {name.lower() for option in elsewhere for name in option}
        self._of = of
        for option in known:
            self._names |= {name.lower(): option[0] for name in option}
            self._spelt |= {name.lower(): name for name in option}
        for key in given:
            name, value = key.lower(), given[key]
            if name in self._names:
                known_as = self._names[name]
                if known_as in self._values:
                    problem = f"{source}: option {known_as!r} is given under two names"
                    raise ConfigError(problem, path=known_as)
                self._values[known_as] = value
                self._called[known_as] = name
            elif name.startswith(_ZENOH) and "config" in self._names:
                self._zenoh[name.removeprefix(_ZENOH).replace(".", "/")] = value
            elif name not in _BY_SPARK:
                raise self._unknown(key)

    def _unknown(self, name: str) -> ConfigError:
        if name.lower() in self._elsewhere:
            return ConfigError(f"{self.source}: option {name!r} is for {self._of}", path=name)
        kafka = "kafka." if name.lower().startswith("kafka.") else ""
        needed, way_out = _ABSENT.get(name.lower(), _ABSENT.get(kafka, (None, "")))
        if needed in self._names.values():
            return ConfigError(f"{self.source}: unknown option {name!r}: {way_out}", path=name)
        near = difflib.get_close_matches(name.lower(), self._names, n=1)
        # The other bound is the opposite of what was meant.
        if near and {name.lower()[:3], near[0][:3]} == {"min", "max"}:
            near = []
        nearest = self._names[near[0]] if near else None
        hint = f", did you mean {nearest!r}?" if nearest else f"; there are {', '.join(self.names)}"
        return ConfigError(f"{self.source}: unknown option {name!r}{hint}", path=name, nearest=nearest)

    @property
    def names(self) -> list[str]:
        """Documented names of the options."""
        return sorted(set(self._names.values()))

    def __repr__(self) -> str:
        # Values may be secret.
        return f"<Options of {self.source}: {', '.join(sorted([*self._values, *self._zenoh]))}>"

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def called(self, name: str) -> str | None:
        """Return the name under which an option was given, in small letters."""
        return self._called.get(name)

    def error(self, name: str, reason: str) -> ConfigError:
        """Make the error for an option, by the name under which it was given."""
        called = self._called.get(name, name)
        # The argument of `load` is no option that a user has written.
        shown = name if called == "path" else self._spelt.get(called, name)
        return ConfigError(f"{self.source}: option {shown!r} {reason}", path=name)

    @overload
    def text(self, name: str, default: str) -> str: ...
    @overload
    def text(self, name: str, default: None = None) -> str | None: ...
    def text(self, name: str, default: str | None = None) -> str | None:
        """Return an option as text."""
        if name not in self._names.values():
            raise KeyError(f"{name!r} is not among the options of {self.source}")
        return self._values.get(name, default)

    def choice(self, name: str, allowed: Collection[C], default: C) -> C:
        """Return an option with a fixed set of values; case is ignored."""
        found = self.text(name, default).lower()
        for value in allowed:
            if value == found:
                return value
        raise self.error(name, f"must be one of {', '.join(allowed)}, not {found!r}")

    def flag(self, name: str, *, default: bool) -> bool:
        """Return an option as a boolean."""
        found = self.text(name)
        if found is None:
            return default
        if found.lower() not in _TRUE + _FALSE:
            raise self.error(name, f"must be true or false, not {found!r}")
        return found.lower() in _TRUE

    def no_pushdown(self, instead: str) -> None:
        """Refuse ``pushdown=true``: a source cannot tell when Spark would make it wrong.

        Spark 4.1 to 4.3 keeps the plan made with the filters of a query with the DataFrame of ``load()``, and
        runs it for the next query of that DataFrame as well, whatever its filters are.
        """
        if self.flag("pushdown", default=False):
            why = "Spark would apply the filters of a query to later ones of the same DataFrame, too"
            raise self.error("pushdown", f"is refused: {why}. Give {instead} for it")

    def integer(self, name: str, default: D = None, *, least: int = 0, most: int = _MOST) -> int | D:  # type: ignore[assignment]  # where D is None
        """Return an option as an integer from ``least`` to ``most``."""
        found = self.text(name)
        if found is None:
            return default
        if not re.fullmatch(r"\s*[+-]?\d{1,19}\s*", found):
            raise self.error(name, f"must be a whole number, not {found!r}")
        return self._bounded(name, int(found), least, most)

    def size(self, name: str, default: D = None) -> int | D:  # type: ignore[assignment]  # where D is None
        """Return an option in bytes: a number, or one with a unit, such as ``64m`` (2^20)."""
        found = self.text(name)
        if found is None:
            return default
        value = self._with_unit(name, found, _BYTES, "a size such as 64m")
        return self._bounded(name, int(value), 1, _MOST)

    def seconds(self, name: str, default: D = None) -> float | D:  # type: ignore[assignment]  # where D is None
        """Return a positive time: seconds, or a number with a unit, such as ``500ms`` or ``2m``."""
        found = self.text(name)
        if found is None:
            return default
        value = self._with_unit(name, found, _SECONDS, "a time such as 10, 500ms or 2m")
        if value <= 0:
            raise self.error(name, f"must be above zero, not {found!r}")
        return value

    def _with_unit(self, name: str, text: str, units: Mapping[str, float], what: str) -> float:
        match = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([a-z]*)\s*", text.lower())
        if match is None or match[2] not in units:
            raise self.error(name, f"must be {what}, not {text!r}")
        return float(match[1]) * units[match[2]]

    def _bounded(self, name: str, value: int, least: int, most: int) -> int:
        if not least <= value <= most:
            bounds = f"at least {least}" if value < least else f"at most {most}"
            raise self.error(name, f"must be {bounds}, not {value}")
        return value

    def instant(self, name: str) -> int | None:
        """Return microseconds since 1970, of milliseconds as in Kafka, or of RFC 3339.

        A time without a zone is refused: Spark tells a source no ``spark.sql.session.timeZone``.
        """
        found = self.text(name)
        return None if found is None else self.moment(name, found)

    def moment(self, name: str, found: str) -> int:
        """Return microseconds since 1970 of a text in an option: the value as :meth:`instant` reads it."""
        if re.fullmatch(r"\s*\d{1,15}\s*", found):
            return int(found) * 1000
        try:
            time = datetime.fromisoformat(found.strip())
        except ValueError:
            what = "milliseconds since 1970 or a time such as 2026-01-31T12:00:00Z"
            raise self.error(name, f"must be {what}, not {found!r}") from None
        if time.tzinfo is None:
            zoned = f"give {time.isoformat()}Z or an offset such as +02:00"
            raise self.error(name, f"has no zone: {zoned}. Sources do not know that of the Spark session")
        return (time - _EPOCH) // timedelta(microseconds=1)

    def listed(self, name: str, separator: str = ",") -> list[str]:
        """Return a list of texts: a JSON list, or a text with separators; empty if the option is missing."""
        found = self.text(name)
        if found is None or not found.strip():
            return []
        if found.lstrip().startswith("["):
            try:
                items = json.loads(found)
            except ValueError as error:
                raise self.error(name, f"is no JSON list: {error}") from None
            if not all(isinstance(item, str) for item in items):
                raise self.error(name, "must be a list of texts")
            return list(items)
        return [item.strip() for item in found.split(separator) if item.strip()]

    def keyexprs(self, name: str) -> list[str]:
        """Return a list of key expressions."""
        found = self.listed(name)
        self.check_keyexprs(name, found)
        return found

    def check_keyexprs(self, name: str, given: Iterable[str]) -> None:
        """Refuse a value with a part that is no key expression."""
        from zwire.zenoh import KeyExpr

        for text in given:
            try:
                KeyExpr(text)
            except ValueError as error:
                raise self.error(name, f"has {text!r}: {error}") from None

    def columns(self, rows: RowSchema, *, default: Iterable[str] | None = None) -> RowSchema:
        """Return the schema for the option ``columns``: names separated by commas, or ``all``."""
        names = self.listed("columns")
        if not names:
            return rows if default is None else rows.select(default)
        if names == ["all"]:
            return rows
        try:
            return rows.select(names)
        except ValueError as error:
            raise self.error("columns", f"is wrong: {error}") from None

    def chosen(self, rows: RowSchema, schema: StructType) -> RowSchema:
        """Return the columns that Spark asks for: those of the option ``columns`` or of a schema."""
        for name in schema.fieldNames():
            if name in rows.renamed:
                problem = f"{self.source}: column {name!r} is called {rows.renamed[name]!r} now"
                raise ConfigError(problem, path="columns")
        try:
            found = rows.select(schema.fieldNames())
        except ValueError as error:
            raise ConfigError(f"{self.source}: {error}", path="columns") from None
        for asked, ours in zip(schema, found.spark(), strict=True):
            if asked.dataType != ours.dataType:
                kinds = f"{ours.dataType.simpleString()}, not {asked.dataType.simpleString()}"
                raise ConfigError(f"{self.source}: column {asked.name!r} is {kinds}", path=asked.name)
            if not asked.nullable:
                raise ConfigError(f"{self.source}: column {asked.name!r} can be null", path=asked.name)
        return found

    def secret(self, name: str) -> str | None:
        """Return the reference to a secret; a literal secret is refused."""
        found = self.text(name)
        return None if found is None else check_referred(f"{self.source}: {name}", found)

    def no_session(self, need: str) -> None:
        """Refuse options of a session where none is opened because ``need`` is missing."""
        given = [name for name in ("endpoints", "config") if name in self._values]
        for name in (*given, *(_ZENOH + path for path in self._zenoh)):
            raise self.error(name, f"is for {need}; there are none")

    def session(self) -> str:
        """Return the configuration of the session as canonical JSON, for ``zwire.spark.session``.

        ``config`` is JSON5, ``endpoints`` are those to connect to, ``zenoh.*`` are single keys; the later
        ones win. Secrets are given by reference.
        """
        from zwire.zenoh import Config

        made = Config.from_json5(self.text("config", "{}"))
        if endpoints := self.listed("endpoints"):
            made.insert_json5("connect/endpoints", json.dumps(endpoints))
        for path, value in self._zenoh.items():
            self._insert(made, path, value)
        text = settings(made)
        refuse_inline(text)
        return text

    def _insert(self, config: Config, path: str, value: str) -> None:
        try:
            config.insert_json5(path, value)
        except ConfigError as first:
            # Most texts are no JSON5. If the text is no valid value either, the first error is better, unless
            # the key is wrong.
            try:
                config.insert_json5(path, json.dumps(value))
            except ConfigError as second:
                error = second if second.path else first
                problem = f"{self.source}: option {_ZENOH + path!r}: {error}"
                raise ConfigError(problem, path=error.path, nearest=error.nearest) from None


def is_set(given: Mapping[str, str], *names: str) -> bool:
    """Whether one of some options is given; for decisions before the others can be checked."""
    return any(name.lower() in given for name in names)
