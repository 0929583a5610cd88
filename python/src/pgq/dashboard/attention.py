"""What somebody should look at: the few sentences at the top of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Point", "findings"]

Level = Literal["bad", "warn"]
Finding = dict[str, Any]
Row = Mapping[str, Any]

# From when on an age is remarkable, in seconds.
_STALLED = 60
_LATE = 15 * 60
_ENDLESS = 3600
# How long a queue has to be watched before it can be said to grow.
_WATCHED = 30


@dataclass(frozen=True, slots=True)
class Point:
    """What a queue was like at a moment: the points of a sparkline."""

    at: float
    ready: int
    oldest: float | None
    published: float
    acked: float
    failed: float
    dead: int


def findings(
    queues: Sequence[Row],
    holders: Sequence[Row],
    past: Mapping[str, Sequence[Point]],
    now: float,
) -> list[Finding]:
    """Return what is wrong, the worst first."""
    found = [
        finding for queue in queues for finding in _of_queue(queue, past.get(queue["queue"], ()))
    ]
    found += [finding for holder in holders for finding in _of_holder(holder, now)]
    return sorted(found, key=lambda finding: finding["level"] != "bad")


def _of_queue(queue: Row, past: Sequence[Point]) -> list[Finding]:
    found = []

    def tell(level: Level, kind: str, text: str) -> None:
        found.append({"level": level, "kind": kind, "queue": queue["queue"], "text": text})

    ready, oldest = queue["ready"], queue["oldest"] or 0.0
    acked, failed, published = queue["acked"], queue["failed"], queue["published"]
    waiting = _count(ready) if queue["exact"] else f"about {_count(float(f'{ready:.2g}'))}"
    if queue["mode"] == "queue" and ready > 0:
        if queue["paused"]:
            tell("warn", "paused", f"is paused with {waiting} ready")
        elif oldest > _STALLED and queue["leased"] == 0 and acked == 0 and failed == 0:
            tell(
                "bad",
                "stalled",
                f"nobody consumes it: {waiting} ready, the oldest for {span(oldest)}",
            )
        elif _grows(queue, past):
            tell(
                "bad" if oldest > _LATE else "warn",
                "grows",
                f"grows: {_rate(published)} in, {_rate(acked)} done; {waiting} ready, "
                f"the oldest for {span(oldest)}",
            )
        elif oldest > _LATE:
            tell("warn", "late", f"is late: the oldest message waits for {span(oldest)}")
    if failed > 0 and failed >= 0.1 * (acked + failed):
        share = failed / (acked + failed)
        tell(
            "bad" if share >= 0.5 else "warn",
            "fails",
            f"{share:.0%} of the attempts fail ({_rate(failed)})",
        )
    if past and queue["dead"] > past[0].dead and queue["exact"]:
        more = queue["dead"] - past[0].dead
        ago = span(past[-1].at - past[0].at)
        letters = "letter" if more == 1 else "letters"
        tell("bad", "dead", f"{_count(more)} new dead {letters} within {ago}")
    return found


def _grows(queue: Row, past: Sequence[Point]) -> bool:
    if not past or past[-1].at - past[0].at < _WATCHED or queue["published"] <= queue["acked"]:
        return False
    # A large backlog is estimated: what is within its error is no growth.
    least = 0.1 if queue["exact"] else 0.3
    return bool(queue["ready"] - past[0].ready > max(50, least * past[0].ready))


def _of_holder(holder: Row, now: float) -> list[Finding]:
    who = holder["holder"] or holder["client"] or "an unnamed consumer"
    named = [holder["holder"], holder["client"]]
    common = {"level": "warn", "queue": holder["queue"], "who": named}
    size = _count(holder["size"])
    if holder["expired"]:
        text = (
            f"the lease of {who} ran out {span(now - holder['until'])} ago: {size} messages go "
            "back with the next claim"
        )
        return [{"kind": "expired", "text": text} | common]
    if holder["endless"] and now - holder["claimed"] > _ENDLESS:
        text = f"{who} holds {size} messages without end, for {span(now - holder['claimed'])}"
        return [{"kind": "endless", "text": text} | common]
    return []


def _count(number: float) -> str:
    return f"{number:,.0f}"


def _rate(number: float) -> str:
    return f"{number:,.0f}/s" if number >= 10 else f"{number:.1f}/s"


def span(seconds: float) -> str:
    """Return a span of time as a person says it."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size * 1.5:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
