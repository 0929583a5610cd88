"""Queues in memory behave like those of the database, within one process."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest

import pgq
from pgq import Message


def wait_for(condition: Callable[[], object], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


@pytest.fixture(params=["memory", "database"])
def both(request: pytest.FixtureRequest) -> pgq.PooledClient:
    """A client in memory, and one of a database, for the same calls."""
    if request.param == "memory":
        return pgq.MemoryClient()
    client: pgq.PooledClient = request.getfixturevalue("client")
    return client


def test_an_archive_takes_everything_and_delivers_nothing(both: pgq.PooledClient) -> None:
    both.create_queue("log", mode="archive")
    both.publish("log", 1)
    with pytest.raises(pgq.Refused):
        both.claim("log")
    with pytest.raises(pgq.Refused):
        pgq.Consumer(both, "log", print).start()


def test_a_wrong_pattern_is_refused_by_subscribe(both: pgq.PooledClient) -> None:
    for pattern in ("ord*", "a..b", ""):
        with pytest.raises(pgq.Refused):
            both.subscribe("ear", pattern)
    both.create_queue("orders")
    both.publish("orders", 1)


def test_a_claim_takes_at_least_one(both: pgq.PooledClient) -> None:
    both.create_queue("orders")
    with pytest.raises(pgq.Refused):
        both.claim("orders", n=0)


def test_a_message_is_delivered_at_a_time(both: pgq.PooledClient) -> None:
    both.create_queue("orders")
    now = datetime.now(UTC)
    both.publish("orders", "later", deliver_at=now + timedelta(hours=1))
    both.publish("orders", "now", deliver_at=(now - timedelta(hours=1)).isoformat())
    assert [message.payload for message in both.claim("orders", n=9)] == ["now"]


def test_subscriptions_are_listed_changed_and_ended(both: pgq.PooledClient) -> None:
    assert both.subscribe("ear", "a.*", {"k": 1})
    assert both.subscribe("ear", "b")
    both.alter_subscription("ear", "a.*", {"k": 2})
    found = [(row["pattern"], row["filter"]) for row in both.subscriptions("ear")]
    assert found == [("a.*", {"k": 2}), ("b", None)]
    assert both.queue_names() == ["ear"]
    both.publish("a.x", 1, headers={"k": 1})
    both.publish("a.x", 2, headers={"k": 2})
    assert [message.payload for message in both.claim("ear", 5)] == [2]
    assert both.unsubscribe_all("ear") == 2
    assert both.unsubscribe_all("ear") == 0
    assert both.subscriptions() == []


def test_a_handler_remembers_seen_messages(both: pgq.PooledClient) -> None:
    assert [both.seen("h", 1), both.seen("h", 1), both.seen("g", 1)] == [False, True, False]


def test_a_question_is_answered(both: pgq.PooledClient) -> None:
    both.create_queue("sum")

    def answer(message: Message) -> None:
        both.reply(message, sum(message.payload), sender="me")

    with pgq.Consumer(both, "sum", answer):
        reply = both.request("sum", [1, 2], timeout=10)
    assert (reply.payload, reply.sender) == (3, "me")


class Ear:
    subscriber_id = "ear"

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def on_message(self, message: Message) -> None:
        self.heard.append(message.payload)


@pytest.mark.parametrize("durable", [True, False])
def test_subscribers_hear(both: pgq.PooledClient, durable: bool) -> None:
    ear = Ear()
    with pgq.SubscriptionManager(both, durable=durable) as manager:
        assert manager.subscribe("news.*", ear)
        both.publish("news.sport", 1)
        wait_for(lambda: ear.heard == [1])
    assert both.queue_names() == (["ear"] if durable else [])


@pytest.mark.parametrize("dedup", ["keep", "replace", "postpone"])
def test_dedup_keys_follow_the_option_of_the_queue(
    both: pgq.PooledClient, dedup: Literal["keep", "replace", "postpone"]
) -> None:
    """The same calls on both; the database's results are the reference."""

    def story(client: pgq.PooledClient) -> list[Any]:
        client.create_queue("jobs", dedup=dedup, backoff=0)

        def taken(n: int = 9) -> list[Any]:
            with client.claim("jobs", n=n) as batch:
                return [message.payload for message in batch]

        results: list[Any] = []
        first = client.publish("jobs", "a1", dedup_key="a")
        client.publish("jobs", "b1", dedup_key="b")
        again = client.publish("jobs", "a2", dedup_key="a")
        results += [again == first, taken()]
        client.publish("jobs", "a3", dedup_key="a")  # a message that was delivered stays
        results.append(taken())
        # a delay, then none: only a queue that replaces has the message now
        client.publish("jobs", "c1", dedup_key="c", delay=3600)
        client.publish("jobs", "c2", dedup_key="c")
        results.append(taken())
        client.reschedule("jobs", filter={}, delay=0)
        results.append(taken())
        # none, then a delay: a queue that keeps has the message now
        client.publish("jobs", "d1", dedup_key="d")
        client.publish("jobs", "d2", dedup_key="d", delay=3600)
        results += [taken(), client.reschedule("jobs", filter={}, delay=0), taken()]
        # a message that failed is not replaced, nor is one that is leased
        client.publish("jobs", "e1", dedup_key="e")
        client.claim("jobs").nack(error="no", delay=0)
        client.publish("jobs", "e2", dedup_key="e")
        results.append(taken())
        # of one call
        ids = client.publish_batch(
            "jobs", ["f1", "g1", "f2", "x"], dedup_keys=["f", "g", "f", None]
        )
        results += [[sorted(set(ids)).index(id) for id in ids], taken()]
        client.publish_batch("jobs", ["h1", "h2"], dedup_keys=["h", "h"])
        client.publish_batch("jobs", ["h3", "h4"], dedup_keys=["h", "h"])
        results.append(taken())
        # what is cancelled has no key
        client.publish("jobs", "i1", dedup_key="i")
        results.append(client.cancel("jobs", dedup_key="i"))
        client.publish("jobs", "i2", dedup_key="i")
        results.append(taken())
        # a key belongs to a topic
        client.subscribe("jobs", "more.*")
        client.publish("more.x", "j1", dedup_key="j")
        client.publish("more.y", "j2", dedup_key="j")
        results.append(taken())
        # each queue by its own policy
        client.create_queue("first", dedup="keep")
        client.subscribe("first", "jobs", {"kind": "a"})
        client.publish("jobs", "k1", dedup_key="k", headers={"kind": "b"})
        client.publish("jobs", "k2", dedup_key="k", headers={"kind": "a"})
        results += [taken(), [message.payload for message in client.claim("first", n=9)]]
        # a window of zero keeps nothing away
        client.create_queue("open", dedup=dedup, dedup_window=0)
        client.publish("open", 1, dedup_key="k")
        client.publish("open", 2, dedup_key="k")
        results.append([message.payload for message in client.claim("open", n=9)])
        return results

    expected = {
        "keep": [
            True,
            ["a1", "b1"],
            [],
            [],
            ["c1"],
            ["d1"],
            0,
            [],
            ["e1"],
            [0, 1, 0, 2],
            ["f1", "g1", "x"],
            ["h1"],
            1,
            ["i2"],
            ["j1", "j2"],
            ["k1"],
            [],
            [1, 2],
        ],
        "replace": [
            False,
            ["b1", "a2"],
            ["a3"],
            ["c2"],
            [],
            [],
            1,
            ["d2"],
            ["e1", "e2"],
            [1, 0, 1, 2],
            ["g1", "f2", "x"],
            ["h4"],
            1,
            ["i2"],
            ["j1", "j2"],
            ["k2"],
            [],
            [1, 2],
        ],
        "postpone": [
            True,
            ["a1", "b1"],
            ["a3"],
            [],
            ["c1"],
            [],
            1,
            ["d1"],
            ["e1", "e2"],
            [0, 1, 0, 2],
            ["f1", "g1", "x"],
            ["h1"],
            1,
            ["i2"],
            ["j1", "j2"],
            ["k1"],
            [],
            [1, 2],
        ],
    }
    assert story(both) == expected[dedup]


def test_an_unknown_dedup_is_refused(both: pgq.PooledClient) -> None:
    with pytest.raises(pgq.Refused, match='unknown dedup "newest"'):
        both.create_queue("jobs", dedup="newest")  # type: ignore[arg-type]


def test_a_dedup_key_counts_for_its_window() -> None:
    now = [pgq.MemoryClient()._clock()]
    client = pgq.MemoryClient(clock=lambda: now[0])
    client.create_queue("jobs", dedup="replace", dedup_window=60)
    client.create_queue("kept", dedup_window=60)
    for seconds, left in ((59, 1), (61, 2)):
        for topic in ("jobs", "kept"):
            client.publish(topic, 1, dedup_key=str(seconds))
        now[0] += timedelta(seconds=seconds)
        for topic in ("jobs", "kept"):
            client.publish(topic, 2, dedup_key=str(seconds))
            assert client.claim(topic, n=9).ack() == left


def test_a_history_lists_the_events(both: pgq.PooledClient) -> None:
    both.create_queue("orders", backoff=0)
    id = both.publish("orders", 1)
    both.claim("orders").nack(error="no")
    both.claim("orders").release()
    both.claim("orders").ack()
    told = [(row["event"], row["attempt"]) for row in both.history(id)]
    assert told == [
        ("publish", None),
        ("claim", 1),
        ("nack", 1),
        ("claim", 2),
        ("release", 2),
        ("claim", 2),
        ("ack", 2),
    ]
