"""Relays through outages of their destinations, killed again and again.

The long version, ``make test-relay``, has more messages and more kills.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

import pgq
from harness.object_storage import CREDENTIALS, ObjectStorage, messages
from harness.redis_server import RedisServer
from harness.webhook import Hook, until

MESSAGES = int(os.environ.get("PGQ_RELAY_MESSAGES", "900"))
KILLS = int(os.environ.get("PGQ_RELAY_KILLS", "3"))
TIMEOUT = 60 + MESSAGES / 50
BATCH = 40
GROUPS = 30


class Relays:
    """The relays of some queues, each a process of the command line."""

    def __init__(self, environment: dict[str, str], to: dict[str, str]) -> None:
        self._environment = os.environ | environment
        self._to = to
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, queue: str) -> None:
        self._processes[queue] = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "pgq",
                "relay",
                "--queue",
                queue,
                "--to",
                self._to[queue],
                "--batch",
                str(BATCH),
                "--every",
                "100ms",
                "--failures",
                "3",
                "--reset",
                "500ms",
                "--timeout",
                "5s",
            ],
            env=self._environment,
            stderr=subprocess.DEVNULL,
        )

    def kill(self, queue: str) -> None:
        process = self._processes.pop(queue)
        assert process.poll() is None, f"the relay of {queue} has ended by itself"
        process.kill()
        process.wait()

    def stop(self) -> None:
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            assert process.wait(30) == 0

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()


@contextmanager
def relays(environment: dict[str, str], to: dict[str, str]) -> Iterator[Relays]:
    started = Relays(environment, to)
    try:
        yield started
    finally:
        started.close()


def publish(client: pgq.PooledClient, first: int, last: int) -> None:
    """Publish a part: every other message belongs to a group."""
    client.publish_many(
        pgq.Draft(
            topic=f"orders.{'new' if number % 3 else 'paid'}",
            payload=number,
            group_key=f"g{number // 2 % GROUPS}" if number % 2 else None,
        )
        for number in range(first, last)
    )


def judge(name: str, copies: list[dict[str, Any]], *, most_duplicates: int) -> int:
    """Check that every message arrived and groups are in order; return the number of duplicates."""
    count = Counter(copy["payload"] for copy in copies)
    assert set(count) == set(range(MESSAGES)), f"{name} lacks messages"
    duplicates = len(copies) - MESSAGES
    assert duplicates <= most_duplicates, f"{name} has {duplicates} duplicates"
    assert len({copy["id"] for copy in copies}) == MESSAGES
    groups: dict[str, list[int]] = {}
    for copy in copies:
        if copy["group_key"] is not None:
            groups.setdefault(copy["group_key"], []).append(copy["payload"])
    assert len(groups) == GROUPS
    for numbers in groups.values():
        assert numbers == sorted(numbers), f"{name} has a group out of order"
    return duplicates


def lease_of(name: str) -> int:
    return int(name.rpartition("-")[2].partition(".")[0])


def test_after_outages_and_kills_every_destination_has_every_message(
    client: pgq.PooledClient, dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for queue in ("live", "archive", "hooks"):
        client.subscribe(queue, "orders.#")
        client.alter_queue(queue, max_attempts=1)  # nothing is to be counted against a message

    def state() -> dict[str, Any]:
        return {row["queue"]: row["relay"] for row in client.queue_stats()}

    hook = Hook()
    with RedisServer(tmp_path) as cache, ObjectStorage() as storage:
        storage.make_bucket("archive")
        environment = {"PGQ_DSN": dsn, "PGQ_WEBHOOK_SECRET": "geheim"} | CREDENTIALS
        environment["AWS_ENDPOINT_URL"] = storage.endpoint
        to = {"live": cache.url, "archive": "s3://archive/orders", "hooks": hook.url}
        with relays(environment, to) as processes:
            for queue in to:
                processes.start(queue)
            # Published in steps, so that there is something to forward before and in an outage.
            steps = [MESSAGES * step // (2 * KILLS) for step in range(2 * KILLS + 1)]
            for kill in range(KILLS):
                before, within, after = steps[2 * kill : 2 * kill + 3]
                seen = hook.calls
                publish(client, before, within)
                until(lambda seen=seen: hook.calls > seen + 5, "delivery")  # type: ignore[misc]
                # Not at the same moment of a batch each time.
                time.sleep(0.03 * (kill % 7))
                for queue in to:
                    processes.kill(queue)
                    processes.start(queue)
                outage = kill % 3 == 0
                if outage:
                    cache.kill()
                    storage.refusing = 503
                publish(client, within, after)
                if outage:
                    until(lambda: state()["live"] == "open", "the circuit of Redis")
                    until(lambda: state()["archive"] == "open", "the circuit of storage")
                    # The others go on meanwhile.
                    assert state()["hooks"] != "open"
                    cache.start()
                    storage.refusing = None
            deadline = time.monotonic() + TIMEOUT
            lag = ("ready", "scheduled", "leased", "waiting")
            while any(dict(row)[name] for row in client.queue_stats() for name in lag):
                assert time.monotonic() < deadline, client.queue_stats()
                time.sleep(0.1)
            assert set(state().values()) == {"closed"}
            assert [row["dead"] for row in client.queue_stats()] == [0, 0, 0]
            processes.stop()
        with redis.Redis.from_url(cache.url, decode_responses=True) as store:
            entries: Any = store.xrange("live")
            live = [json.loads(fields["message"]) for _, fields in entries]
        files = storage.files("archive")
        archive = [
            copy for name in sorted(files, key=lease_of) for copy in messages(name, files[name])
        ]
        hooked = [json.loads(body) for _, body in hook.accepted]
    hook.close()
    duplicates = [
        judge("Redis", live, most_duplicates=0),
        judge("object storage", archive, most_duplicates=0),
        judge("the webhook", hooked, most_duplicates=KILLS * BATCH),
    ]
    with capsys.disabled():
        print(
            f"\n{MESSAGES} messages, {KILLS} kills of 3 relays; duplicates in Redis, in objects "
            f"({len(files)}), at the webhook: {duplicates}; {storage.refused} writes refused"
        )
    assert client.relays() == []
