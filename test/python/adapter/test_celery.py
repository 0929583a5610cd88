"""Celery on pgq: a real worker, killed and started again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from harness.paths import ROOT

celery = pytest.importorskip("celery")
kombu = pytest.importorskip("kombu")

import pgq.celery  # noqa: E402, F401
from pgq.celery.transport import Channel, topic_of  # noqa: E402

pytestmark = pytest.mark.unpooled("workers have connections of their own")

# The page's own block, and more tasks.
[PAGE] = re.findall(
    r"^```python\n(.*?)^```", (ROOT / "python" / "CELERY.md").read_text(), re.MULTILINE | re.DOTALL
)
# A test that waits for longer has failed, however slow the machine is.
TIMEOUT = 300.0
TASKS = f"""{PAGE}
import time

app.conf.update(
    broker_transport_options={{
        "visibility_timeout": float(os.environ.get("LEASE", "60")), "polling_interval": 0.5
    }},
    worker_prefetch_multiplier=2,
    broker_connection_retry_on_startup=True,
)


@app.task
def total(numbers):
    return sum(numbers)


@app.task
def note(n, directory, seconds=0.0):
    with open(os.path.join(directory, str(n) + ".started"), "a") as file:
        file.write("x")
    time.sleep(seconds)
    with open(os.path.join(directory, str(n) + ".done"), "a") as file:
        file.write("x")
    return n


@app.task(acks_late=False)
def early(directory):
    return note(0, directory, 5.0)


@app.task(bind=True, max_retries=3)
def flaky(self):
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    return self.request.retries
"""


def url(dsn: str) -> str:
    words = conninfo_to_dict(dsn)
    host = str(words["host"]).replace("/", "%2F")
    secret = f":{words['password']}" if words.get("password") else ""
    return f"pgq://{words['user']}{secret}@{host}:{words['port']}/{words['dbname']}"


def eventually(what: Callable[[], Any], seconds: float = TIMEOUT) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
    return found


@pytest.fixture
def app(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The application of a sender; the worker has the same tasks."""
    monkeypatch.setenv("BROKER", url(dsn))
    (tmp_path / "shop.py").write_text(TASKS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    import shop  # type: ignore[import-not-found]

    yield shop
    shop.app.close()


@contextmanager
def worker(directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "celery", "-A", "shop", "worker", "-c", "2", "-E"]
    with (directory / "worker.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, "-n", "w1@test"], cwd=directory, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(60)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()


def test_tasks_results_chords_retries_and_remote_control(app: Any, tmp_path: Path) -> None:
    with worker(tmp_path):
        results = [app.add.delay(n, 1) for n in range(5)]
        assert [result.get(timeout=TIMEOUT) for result in results] == [1, 2, 3, 4, 5]
        chord = celery.chord([app.add.s(n, n) for n in range(4)])(app.total.s())
        assert chord.get(timeout=TIMEOUT) == 12
        assert (app.add.s(1, 2) | app.add.s(3)).delay().get(timeout=TIMEOUT) == 6
        assert app.flaky.delay().get(timeout=TIMEOUT) == 2
        with pytest.raises(TypeError):
            app.add.delay(1, "x").get(timeout=TIMEOUT)
        late = app.add.apply_async((1, 1), countdown=1)
        assert late.get(timeout=TIMEOUT) == 2
        done: list[str] = []
        with app.app.connection_for_read() as conn:
            receiver = app.app.events.Receiver(
                conn, handlers={"task-succeeded": lambda event: done.append(event["result"])}
            )
            with receiver.consumer_context() as (own, _, _):
                app.add.delay(20, 22)
                while not done:
                    own.drain_events(timeout=TIMEOUT)
        assert done == ["42"]
        assert eventually(lambda: app.app.control.ping(timeout=1)) == [{"w1@test": {"ok": "pong"}}]
        inspect = app.app.control.inspect
        assert "shop.add" in str(eventually(lambda: inspect(timeout=2).registered()))


def test_every_task_runs_though_the_worker_is_killed(
    app: Any, tmp_path: Path, db: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEASE", "2")  # its end is waited for
    for n in range(8):
        app.note.delay(n, str(tmp_path), 0.3)
    with worker(tmp_path) as process:
        eventually(lambda: list(tmp_path.glob("*.done")))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert len(list(tmp_path.glob("*.done"))) < 8
    with worker(tmp_path):
        eventually(lambda: len(list(tmp_path.glob("*.done"))) == 8)
        held = "select ready + scheduled + leased from pgq.queue_stats where queue = 'celery'"
        eventually(lambda: db.execute(held).fetchone() == (0,))


STATES = """
select coalesce(string_agg(s.state, ' ' order by s.id), '') from pgq.message_state s
join pgq.message m on m.id = s.id where m.headers ? 'task'
"""


def test_what_waits_for_a_worker_has_its_priority_and_time_and_is_purged(
    app: Any, db: psycopg.Connection
) -> None:
    app.add.apply_async((1, 1), priority=9)
    app.add.apply_async((1, 1), countdown=3600)
    app.add.apply_async((1, 1), eta=datetime.now(UTC) + timedelta(days=1), priority=3)
    found = db.execute("select headers->>'task', priority from pgq.message order by id").fetchall()
    assert found == [("shop.add", 9), ("shop.add", 0), ("shop.add", 3)]
    # A task that is not due is not given to a worker, so it fills no prefetch window.
    assert db.execute(STATES).fetchone() == ("ready delayed delayed",)
    assert app.app.control.purge() == 3
    assert db.execute(STATES).fetchone() == ("",)


def test_acks_revoked_tasks_and_lost_connections(
    app: Any, tmp_path: Path, db: psycopg.Connection
) -> None:
    def state() -> str:
        return str(db.execute(STATES).fetchall()[0][0])

    with worker(tmp_path):
        control = app.app.control
        early = app.early.delay(str(tmp_path))
        eventually((tmp_path / "0.started").exists)
        assert state() == ""  # acknowledged before it runs
        assert early.get(timeout=TIMEOUT) == 0
        late = app.note.delay(1, str(tmp_path), 5.0)
        eventually((tmp_path / "1.started").exists)
        assert state() == "leased"  # until it has run
        revoked = app.add.apply_async((1, 1), countdown=2)
        control.revoke(revoked.id)
        eventually(lambda: revoked.id in str(control.inspect(timeout=2).revoked()))
        assert late.get(timeout=TIMEOUT) == 1
        with pytest.raises(celery.exceptions.TaskRevokedError):
            revoked.get(timeout=TIMEOUT)
        eventually(lambda: state() == "")
        end_connections(db)
        eventually(lambda: control.ping(timeout=2))
        again = eventually(lambda: sent(app.add, 2, 3))
        assert again.get(timeout=TIMEOUT) == 5
        control.shutdown()


def end_connections(db: psycopg.Connection) -> None:
    """End all connections of others, as a restart of the server does."""
    db.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where pid <> pg_backend_pid() and datname = current_database()"
    )


def test_a_connection_that_cannot_drop_its_queues_leaves_no_threads(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise psycopg.OperationalError("the server is gone")

    monkeypatch.setattr(Channel, "_delete", fail)
    before = set(threading.enumerate())
    conn = kombu.Connection(url(dsn))
    conn.Consumer(kombu.Queue("replies", auto_delete=True)).consume()
    conn.release()
    eventually(lambda: set(threading.enumerate()) <= before)


def sent(task: Any, *args: Any) -> Any:
    """Send a task; None if the connection is lost."""
    try:
        return task.delay(*args)
    except (kombu.exceptions.OperationalError, psycopg.OperationalError):
        return None


def test_priorities_purge_and_size(dsn: str) -> None:
    with kombu.Connection(url(dsn)) as conn:
        queue = conn.SimpleQueue("work")
        for priority in (0, 9, 5):
            queue.put({"priority": priority}, priority=priority)
        assert queue.qsize() == 3
        message = queue.get(timeout=TIMEOUT)
        assert message.payload == {"priority": 9}
        message.ack()
        message = queue.get(timeout=TIMEOUT)
        assert message.payload == {"priority": 5}
        message.requeue()
        message = queue.get(timeout=TIMEOUT)
        assert message.payload == {"priority": 5}
        message.reject()
        assert queue.clear() == 1
        with pytest.raises(queue.Empty):
            queue.get(timeout=0.1)
        queue.put(b"\x00bytes", serializer=None, content_type="application/data",
                  content_encoding="binary")  # fmt: skip
        assert bytes(queue.get(timeout=TIMEOUT).body) == b"\x00bytes"
        queue.close()
    with psycopg.connect(dsn) as db:
        assert db.execute("select reason from pgq.dead_letter").fetchall() == [("rejected",)]


def test_topic_and_fanout_exchanges_reach_queues_of_other_connections(dsn: str) -> None:
    topic = kombu.Exchange("logs", type="topic")
    fanout = kombu.Exchange("news.all", type="fanout")
    heard: list[Any] = []
    with kombu.Connection(url(dsn)) as one, kombu.Connection(url(dsn)) as other:
        queues = [
            kombu.Queue("errors", topic, routing_key="*.error"),
            kombu.Queue("api", topic, routing_key="api.#"),
            kombu.Queue("left", fanout),
            kombu.Queue("right", fanout),
        ]
        with one.Consumer(queues, callbacks=[lambda body, message: heard.append(
            (message.delivery_info["routing_key"], body, message.ack()))]):  # fmt: skip
            with other.Producer() as producer:
                producer.publish("a", exchange=topic, routing_key="api.error", declare=[topic])
                producer.publish("b", exchange=topic, routing_key="api.call.info")
                producer.publish("c", exchange=topic, routing_key="nobody.cares")
                producer.publish("d", exchange=fanout, declare=[fanout])
            while len(heard) < 5:
                one.drain_events(timeout=TIMEOUT)
    assert sorted(body for _, body, _ in heard) == ["a", "a", "b", "d", "d"]


def test_an_idle_connection_is_woken(dsn: str, db: psycopg.Connection) -> None:
    heard: list[Any] = []
    options = {"polling_interval": 2 * TIMEOUT}
    with kombu.Connection(url(dsn), transport_options=options) as conn:
        consumer = conn.Consumer(kombu.Queue("idle.work"), callbacks=[lambda *o: heard.append(o)])
        with consumer, ThreadPoolExecutor(1) as pool:
            drained = pool.submit(conn.drain_events, timeout=TIMEOUT)
            client = conn.default_channel.connection.pgq_client
            channel = eventually(lambda: db.execute("select channel from pgq.queue").fetchone())[0]
            eventually(lambda: client.listener.hears(channel))
            eventually(lambda: db.execute("select from pgq.waiter").fetchone() is not None)
            with kombu.Connection(url(dsn)) as other, other.Producer() as producer:
                producer.publish("a", routing_key="idle.work")
            drained.result()
    assert [body for body, _ in heard] == ["a"]


@pytest.mark.parametrize(
    ("kind", "key", "topic"),
    [
        ("direct", "a.b c", "kombu.ex%2Echange.a%2Eb%20c"),
        ("topic", "a.*.#", "kombu.ex%2Echange.a.*.#"),
        ("fanout", "ignored", "kombu.ex%2Echange"),
        ("direct", "", "kombu.ex%2Echange.%"),
    ],
)
def test_a_routing_key_is_a_topic(kind: str, key: str, topic: str) -> None:
    assert topic_of("ex.change", kind, key) == topic
