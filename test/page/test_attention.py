"""What is said at the top of the page, and what is not worth a word."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pgq.dashboard.attention import Point, findings, span
from pgq.dashboard.data import Database
from pgq.dashboard.feed import Feed

CALM: dict[str, Any] = {
    "queue": "orders", "mode": "queue", "paused": False, "ready": 40, "scheduled": 0, "leased": 5,
    "waiting": 0, "dead": 0, "exact": True, "oldest": 2.0, "published": 10.0, "acked": 10.0,
    "failed": 0.0,
}  # fmt: skip
HELD: dict[str, Any] = {
    "holder": "worker", "client": None, "queue": "orders", "leases": 1, "size": 7, "attempt": 1,
    "claimed": 990.0, "until": 1030.0, "endless": 0, "expired": 0,
}  # fmt: skip


def point(at: float, ready: int = 40, dead: int = 0) -> Point:
    return Point(at, ready, 2.0, 10.0, 10.0, 0.0, dead)


def told(change: dict[str, Any], past: list[Point] | None = None) -> list[tuple[str, str]]:
    found = findings([CALM | change], [], {"orders": past or []}, 1000.0)
    return [(finding["level"], finding["kind"]) for finding in found]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"paused": True}, [("warn", "paused")]),
        ({"paused": True, "ready": 0}, []),
        ({"leased": 0, "acked": 0.0, "oldest": 90.0}, [("bad", "stalled")]),
        ({"leased": 0, "acked": 0.0, "oldest": 20.0}, []),
        ({"mode": "archive", "leased": 0, "acked": 0.0, "oldest": 90.0}, []),
        ({"oldest": 3600.0}, [("warn", "late")]),
        ({"failed": 2.0}, [("warn", "fails")]),
        ({"failed": 20.0}, [("bad", "fails")]),
        ({"failed": 0.1}, []),
        ({"dead": 9}, []),
    ],
)
def test_a_queue_is_named_when_somebody_should_look(
    change: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert told(change) == expected


def test_a_queue_grows_when_it_has_done_so_for_a_while() -> None:
    grown = {"ready": 400, "published": 20.0}
    assert told(grown, [point(960), point(1000, 400)]) == [("warn", "grows")]
    assert told(grown | {"oldest": 2000.0}, [point(960), point(1000, 400)]) == [("bad", "grows")]
    assert told(grown, [point(990), point(1000, 400)]) == []
    assert told({"ready": 400}, [point(960), point(1000, 400)]) == []
    # Within what an estimate may be wrong.
    estimated = {"ready": 12_000, "published": 20.0, "exact": False}
    assert told(estimated, [point(960, 10_000), point(1000)]) == []


def test_new_dead_letters_are_told_and_old_ones_are_not() -> None:
    past = [point(700, dead=3), point(1000, dead=3)]
    assert told({"dead": 3}, past) == []
    assert told({"dead": 4}, past) == [("bad", "dead")]


def test_an_estimate_is_made_steadier_and_a_count_is_not() -> None:
    feed = Feed(Database(""), 1.0)
    guesses = [5000, 90_000, 5200, 0, 5100, 5050, 30_000]
    calmed = []
    for number, guess in enumerate(guesses):
        row = CALM | {"ready": guess, "exact": False}
        feed._learn({"at": float(number), "queues": [row], "holders": []})
        calmed.append(row["ready"])
    assert calmed[-4:] == [5100, 5100, 5075, 5100]
    exact = dict(CALM)
    feed._learn({"at": 9.0, "queues": [exact], "holders": []})
    assert exact["ready"] == 40
    assert [point[1] for point in json.loads(feed.past())["past"]["orders"]][-1] == 40


def test_leases_that_ran_out_or_never_will_are_told() -> None:
    def of(change: dict[str, Any]) -> list[str]:
        found = findings([], [HELD | change], {}, 1000.0)
        return [finding["text"] for finding in found]

    assert of({}) == []
    assert of({"until": 980.0, "expired": 1}) == [
        "the lease of worker ran out 20 s ago: 7 messages go back with the next claim"
    ]
    endless = {"until": None, "endless": 1, "holder": None, "client": "10.0.0.7"}
    assert of(endless) == []
    assert of(endless | {"claimed": -9000.0}) == ["10.0.0.7 holds 7 messages without end, for 3 h"]


def test_the_worst_is_first() -> None:
    rows = [CALM | {"queue": "a", "paused": True}, CALM | {"queue": "b", "failed": 50.0}]
    assert [finding["queue"] for finding in findings(rows, [], {}, 1000.0)] == ["b", "a"]


@pytest.mark.parametrize(
    ("seconds", "said"), [(-1, "0 s"), (59, "59 s"), (300, "5 min"), (9000, "2 h"), (9e5, "10 d")]
)
def test_a_span_of_time_is_said_as_people_say_it(seconds: float, said: str) -> None:
    assert span(seconds) == said
