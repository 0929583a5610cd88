"""The options of the data source, read once, with one clear error for what is wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from pyspark.sql.types import DataType, StructType

# Spark hands option names over in lower case. What Kafka's source calls by another name is here
# under both.
ALIASES = {"subscribe": "topic", "maxoffsetspertrigger": "maxmessagespertrigger"}
BATCH_READ = {
    *("dsn", "topic", "filter", "mode", "key", "n", "lease", "numpartitions", "includeheaders"),
    *("includeall", "replica", "leaseid", "slot", "path"),
}
STREAM_READ = {
    *("dsn", "topic", "filter", "consumer", "maxmessagespertrigger", "lease", "timeout"),
    *("numpartitions", "includeheaders", "includeall", "failondataloss", "startingoffsets", "path"),
}
LETTER_READ = {"dsn", "topic", "numpartitions", "replica", "path"}
WRITE = {"dsn", "topic", "writer", "epoch", "path", "checkpointlocation"}

# Spark's own, and those by which parts of this package talk to each other.
INTERNAL = {"path", "checkpointlocation", "leaseid", "slot"}

UNITS = {"ms": 0.001, "s": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600}
UNITS |= {"d": 86400, "day": 86400}


class OptionError(ValueError):
    """An option that cannot be; the message says which, and what it may be."""


class Options:
    """What the user has said, checked as far as that goes without a server."""

    def __init__(
        self, given: Mapping[str, str], allowed: Iterable[str], what: str, dsn: str = ""
    ) -> None:
        self._given: dict[str, str] = {}
        allowed = set(allowed)
        for name, value in given.items():
            low = ALIASES.get(name.lower(), name.lower())
            if low not in allowed:
                known = ", ".join(sorted(allowed - INTERNAL))
                raise OptionError(f"pgq knows no option {name!r} for {what}; there are {known}")
            self._given[low] = value
        self.dsn = self.text("dsn") or dsn or os.environ.get("PGQ_DSN", "")

    def text(self, name: str, default: str | None = None) -> str | None:
        return self._given.get(name, default)

    def required(self, name: str, hint: str) -> str:
        value = self._given.get(name, "")
        if not value.strip():
            raise OptionError(f"pgq needs the option {name!r}: {hint}")
        return value

    def choice(self, name: str, *values: str) -> str:
        value = self._given.get(name, values[0]).lower()
        if value not in values:
            raise OptionError(f"the option {name!r} is {' or '.join(values)}, not {value!r}")
        return value

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, *(["true", "false"] if default else ["false", "true"])) == "true"

    def number(self, name: str, default: int, low: int, high: int) -> int:
        value = self._given.get(name, str(default))
        try:
            number = int(value)
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            raise OptionError(
                f"the option {name!r} is a number from {low} to {high}, not {value!r}"
            )
        return number

    def span(self, name: str, default: timedelta | None = None) -> timedelta | None:
        value = self._given.get(name)
        return default if value is None else parse_span(name, value)

    def filter(self) -> str | None:
        """The filter document as JSON text; whether it is a filter the server says."""
        value = self._given.get("filter", "").strip()
        if not value:
            return None
        try:
            document = json.loads(value)
        except ValueError as error:
            raise OptionError(f"the option 'filter' is not JSON: {error}") from None
        if not isinstance(document, dict):
            raise OptionError("the option 'filter' is a JSON object, a filter document")
        return value


def parse_span(name: str, value: str) -> timedelta:
    """Read a span of time such as ``30 s`` or ``5 minutes``."""
    number, _, unit = value.strip().partition(" ")
    unit = unit.strip().lower()
    factor = UNITS.get(unit, UNITS.get(unit.rstrip("s"), 0.0))
    try:
        seconds = float(number) * factor
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise OptionError(
            f"the option {name!r} is a time such as '30 s' or '5 minutes', not {value!r}"
        )
    return timedelta(seconds=seconds)


def check_schema(wanted: StructType, given: StructType) -> None:
    """Refuse a schema that is not the source's own: columns are chosen by options and select."""
    ours = {field.name: field.dataType for field in wanted}
    for field in given:
        if field.name not in ours:
            raise OptionError(f"pgq has no column {field.name!r}; there are {', '.join(ours)}")
        if field.dataType != ours[field.name]:
            kind = ours[field.name].simpleString()
            raise OptionError(f"the column {field.name!r} is {kind}: cast it after reading")


def check_columns(
    schema: StructType, known: Mapping[str, DataType], topic: str | None
) -> list[tuple[str, Any]]:
    """Return the columns to write and their types; refuse what cannot be published."""
    for field in schema:
        if field.name not in known:
            raise OptionError(
                f"pgq cannot write the column {field.name!r}; there are {', '.join(known)}"
            )
        if field.dataType != known[field.name]:
            kind, found = known[field.name].simpleString(), field.dataType.simpleString()
            cure = f"use to_json({field.name})" if kind == "string" else f"cast it to {kind}"
            raise OptionError(f"the column {field.name!r} is to be {kind}, not {found}: {cure}")
    names = schema.fieldNames()
    if "value" not in names:
        raise OptionError("pgq writes the column 'value', the payload as JSON text")
    if "topic" not in names and not topic:
        raise OptionError("pgq needs the option 'topic' or a column 'topic'")
    return [(field.name, field.dataType) for field in schema]
