"""The actions of the page: each verb is a function of pgq, called with values of the request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString

from pgq.dashboard._request import clean, count, number, numbers, refuse, text
from pgq.filters import Condition, F

__all__ = ["VERBS", "Verb"]

#: The maximum number of dead letters that one action replays or discards.
ACT_AT_MOST: Final = 10_000


@dataclass(frozen=True)
class Verb:
    """A statement and the names of its parameters.

    A verb that selects messages needs ids, a filter, a cause, or ``"all": true``. It can count
    without acting (dry run).
    """

    statement: LiteralString
    needs: tuple[str, ...] = ("queue",)
    #: Parameters that may be missing or empty: they are null then.
    takes: tuple[str, ...] = ()
    selects: bool = False
    #: Whether the statement has a parameter for ids; otherwise ids become a filter.
    by_ids: bool = False

    def values(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of the statement, or refuse the request."""
        values: dict[str, Any] = {name: _needed(body, name) for name in self.needs}
        if self.selects:
            values |= self._selection(body)
            values["dry_run"] = body.get("dry_run") is True
            values["n"] = ACT_AT_MOST
        return values | {name: _optional(body, name) for name in self.takes}

    def _selection(self, body: Mapping[str, Any]) -> dict[str, Any]:
        ids, wanted, cause = numbers(body, "ids"), _object(body, "filter"), _object(body, "cause")
        if ids is None and not wanted and not cause and body.get("all") is not True:
            refuse("name messages by ids, a filter or a cause, or say that all are meant")
        if ids is not None and not self.by_ids:
            named = F.msg.id.in_(ids)
            wanted = (Condition(wanted) & named if wanted else named).document
        return {
            "ids": ids,
            "filter": json.dumps(wanted) if wanted else None,
            "cause": json.dumps(cause) if cause else None,
        }


def _needed(body: Mapping[str, Any], name: str) -> Any:
    if name == "lease":
        return number(body.get(name), "a lease")
    if name in ("cron", "every"):
        return text(body, name).strip() or None
    return text(body, name)


def _optional(body: Mapping[str, Any], name: str) -> Any:
    if name in ("n", "per_second"):
        return count(body, name)
    given = body.get(name)
    if given is None or not (value := clean(str(given), name).strip()):
        return None
    try:
        if name == "at":
            # Without a time zone, server and user may mean different times.
            if datetime.fromisoformat(value).tzinfo is None:
                raise ValueError
        elif name == "patch":
            json.loads(value, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        refuse(_WRONG[name])
    return value


def _no_constant(name: str) -> None:
    raise ValueError(name)


_WRONG: Final[Mapping[str, str]] = {
    "at": "at must be a time with a time zone: 2030-01-31T06:00+01:00",
    "patch": 'patch must be JSON: {"currency": "EUR"}',
}


def _object(body: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    given = body.get(name)
    if given is not None and not isinstance(given, dict):
        refuse(f"{name} is no JSON object")
    return given


VERBS: Final[Mapping[str, Verb]] = {
    "pause": Verb("select pgq.pause(%(queue)s) as done"),
    "resume": Verb("select pgq.resume(%(queue)s) as done"),
    "release": Verb("select pgq.release(%(lease)s) as done", ("lease",)),
    "cancel": Verb(
        "select pgq.cancel(%(queue)s, %(ids)s, %(filter)s::jsonb, dry_run => %(dry_run)s) as done",
        selects=True,
        by_ids=True,
    ),
    "purge": Verb(
        "select pgq.purge(%(queue)s, %(filter)s::jsonb, %(dry_run)s) as done", selects=True
    ),
    "move": Verb(
        "select pgq.move(%(queue)s, %(to)s, %(filter)s::jsonb, %(n)s, %(dry_run)s) as done",
        ("queue", "to"),
        ("n",),
        selects=True,
    ),
    "reschedule": Verb(
        "select pgq.reschedule(%(queue)s, %(ids)s, %(filter)s::jsonb,"
        " %(at)s::timestamptz, %(delay)s::interval, %(dry_run)s) as done",
        takes=("at", "delay"),
        selects=True,
        by_ids=True,
    ),
    "replay": Verb(
        "select pgq.replay(%(queue)s, %(filter)s::jsonb, %(n)s, %(dry_run)s, %(cause)s::jsonb,"
        " %(to)s, %(per_second)s, %(patch)s::jsonb) as done",
        takes=("to", "per_second", "patch"),
        selects=True,
    ),
    "discard": Verb(
        "select pgq.discard(%(queue)s, %(filter)s::jsonb, %(n)s, %(dry_run)s, %(cause)s::jsonb)"
        " as done",
        selects=True,
    ),
    "schedule": Verb(
        "select pgq.schedule(%(name)s, %(topic)s, %(payload)s::jsonb, %(cron)s,"
        " %(every)s::interval, %(time_zone)s, %(missed)s) is not null as done",
        ("name", "topic", "payload", "cron", "every", "time_zone", "missed"),
    ),
    "pause_schedule": Verb("select pgq.pause_schedule(%(name)s) as done", ("name",)),
    "resume_schedule": Verb("select pgq.resume_schedule(%(name)s) as done", ("name",)),
    "unschedule": Verb("select pgq.unschedule(%(name)s) as done", ("name",)),
}
