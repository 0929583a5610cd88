"""The options of the data source, parsed and checked."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql.types import DataType, StructType

# Spark passes option names in lower case. Names of Kafka's source are aliases of ours.
ALIASES = {
    "subscribe": "topic",
    "maxoffsetspertrigger": "maxmessagespertrigger",
    "minpartitions": "numpartitions",
}
# Options of Kafka's source that a queue does not have, with the alternative.
KAFKA = {
    "subscribepattern": "a reader has one queue; pgq.subscribe('queue', 'pattern') fills one from"
    " all topics of a pattern",
    "assign": "a queue has no partitions; name it by the option 'topic'",
    "groupidprefix": "name the stream by the option 'consumer'; consumers of one queue compete, and"
    " each 'subscription' sees all messages",
    "kafka.group.id": "name the stream by the option 'consumer'; consumers of one queue compete,"
    " and each 'subscription' sees all messages",
    "kafka.bootstrap.servers": "the queues are in PostgreSQL; say where by the option 'dsn'",
    "startingoffsetsbytimestamp": "use 'startingTimestamp'; a queue has no partitions",
    "endingoffsetsbytimestamp": "use 'endingTimestamp'; a queue has no partitions",
    "minoffsetspertrigger": "a batch takes what is ready; a longer trigger makes it larger",
    "maxtriggerdelay": "a batch takes what is ready; a longer trigger makes it larger",
    "maxrecordsperpartition": "use 'numPartitions' or 'maxMessagesPerTrigger'",
}
BATCH_READ = {
    "dsn",
    "topic",
    "filter",
    "mode",
    "key",
    "n",
    "lease",
    "numpartitions",
    "includeheaders",
    "includeall",
    "replica",
    "leaseid",
    "slot",
    "path",
    "timeout",
    "archive",
    "failondataloss",
    "startingoffsets",
    "endingoffsets",
    "startingtimestamp",
    "endingtimestamp",
    "payloadschema",
    "payloadformat",
    "headersformat",
    "groupruns",
}
STREAM_READ = {
    "dsn",
    "topic",
    "filter",
    "consumer",
    "maxmessagespertrigger",
    "lease",
    "timeout",
    "numpartitions",
    "includeheaders",
    "includeall",
    "failondataloss",
    "startingoffsets",
    "path",
    "newcheckpoint",
    "subscription",
    "mode",
    "archive",
    "startingtimestamp",
    "payloadschema",
    "payloadformat",
    "headersformat",
    "groupruns",
}
LETTER_READ = {"dsn", "topic", "numpartitions", "replica", "path"}
WRITE = {
    "dsn",
    "topic",
    "writer",
    "epoch",
    "newcheckpoint",
    "table",
    "tablemode",
    "tablekeys",
    "update",
    "publish",
    "path",
    "checkpointlocation",
    "queryname",
}

# Options of Spark, and internal options of this package.
INTERNAL = {"path", "checkpointlocation", "queryname", "leaseid", "slot"}

# Options that Spark passes when a table is created; a queue ignores them.
TABLE = {"provider", "owner", "comment", "location", "external", "is_managed_location", "collation"}

# The default lease duration and batch size of all claims. The leases of a stream have no end,
# because its checkpoint relies on them.
LEASE = timedelta(hours=1)
N = 100_000

UNNAMED = (
    "pgq claims need the option 'key', the name of the claim: Spark reads more than once, and only"
    " a named claim is the same every time"
)
NUMBERS = (
    ("n", 1, 1_000_000),
    ("maxmessagespertrigger", 1, 1_000_000),
    ("numpartitions", 0, 10_000),
)
UNITS = {"ms": 0.001, "s": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600}
UNITS |= {"d": 86400, "day": 86400}


class OptionError(ValueError):
    """An invalid option; the message names it and its valid values."""


class Options:
    """The options of the user, checked as far as that is possible without a server."""

    def __init__(
        self,
        given: Mapping[str, str],
        allowed: Iterable[str],
        what: str,
        dsn: str = "",
        cores: int = 0,
    ) -> None:
        self.cores = cores
        self._given: dict[str, str] = {}
        allowed = set(allowed)
        for name, value in given.items():
            low = ALIASES.get(name.lower(), name.lower())
            if low not in allowed and (low in TABLE or low.startswith("option.")):
                continue
            if low not in allowed and (low in KAFKA or low.startswith("kafka.")):
                meant = KAFKA.get(low, "settings of Kafka's client mean nothing here")
                raise OptionError(f"the option {name!r} is one of Kafka's: {meant}")
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

    def offset(self, name: str, default: str) -> int | str:
        """Return the id of a message, or earliest or latest."""
        value = self._given.get(name, default).strip().lower()
        if value in ("earliest", "latest"):
            return value
        if not value.isdigit():
            raise OptionError(
                f"the option {name!r} is earliest, latest or the id of a message, not {value!r}:"
                " a queue has no partitions, and its offsets are ids"
            )
        return int(value)

    def moment(self, name: str) -> datetime | None:
        """Return a time, given in ISO 8601 or, as in Kafka's source, in milliseconds since 1970."""
        value = self._given.get(name)
        if value is None:
            return None
        try:
            if value.strip().isdigit():
                return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=int(value))
            found = datetime.fromisoformat(value.strip())
        except (ValueError, OverflowError):
            raise OptionError(
                f"the option {name!r} is a time such as 2030-01-02T03:04:05+00:00, or milliseconds"
                f" since 1970, not {value!r}"
            ) from None
        return found if found.tzinfo else found.replace(tzinfo=UTC)

    def check(self) -> None:
        """Refuse values that no reader or writer accepts, before a plan is made."""
        path = self._given.get("path")
        if path and not self._given.get("topic"):
            raise OptionError(
                f"pgq has no path, and was given {path!r}: name the queue by the option 'topic'"
            )
        named = self._given.get("key") or self._given.get("leaseid")
        if self.choice("mode", "peek", "claim", "log", "all") == "claim" and not named:
            raise OptionError(UNNAMED)
        self.choice("headersformat", "json", "map")
        self.choice("payloadformat", "json", "variant")
        flags = ("includeheaders", "includeall", "failondataloss", "newcheckpoint", "groupruns")
        for name in flags:
            self.flag(name, True)
        for name, low, high in NUMBERS:
            self.number(name, low, low, high)
        for name in ("lease", "timeout"):
            self.span(name)
        for name in ("startingoffsets", "endingoffsets"):
            self.offset(name, "earliest")
        for name in ("startingtimestamp", "endingtimestamp"):
            self.moment(name)
        self.filter()

    def filter(self) -> str | None:
        """Return the filter document as JSON text; the server checks whether it is valid."""
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


class _Registered:
    """The dsn of `register` for each session, for functions that run in the driver."""

    def __init__(self) -> None:
        self._by_session: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._last = ""

    def remember(self, session: Any, dsn: str) -> None:
        self._by_session[session] = self._last = dsn

    def of(self, session: Any) -> str:
        return self._by_session.get(session, self._last)


registered = _Registered()


def dsn_for(session: Any, given: str | None) -> str:
    """Return the dsn: the given one, else that of `register`, else ``PGQ_DSN``."""
    return given or registered.of(session) or os.environ.get("PGQ_DSN", "")


def parse_span(name: str, value: str) -> timedelta:
    """Return the duration of a text such as ``30 s`` or ``5 minutes``."""
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
    """Refuse a schema with other columns or types than the source's."""
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
    """Return the columns to write and their types; refuse columns that cannot be published."""
    for field in schema:
        if field.name not in known:
            raise OptionError(
                f"pgq cannot write the column {field.name!r}; there are {', '.join(known)}."
                " Choose what to publish, such as df.select('value', 'headers')"
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
