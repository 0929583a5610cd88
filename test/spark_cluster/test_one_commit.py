"""One commit: 100,000 messages, 20 kills of everything, the checkpoint deleted 5 times."""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path

import psycopg
import pytest

from harness.spark import Fill, run_child, stats
from pgq import embedded

MESSAGES = int(os.environ.get("PGQ_COMMIT_MESSAGES", "100000"))
# Each round ends with a kill of the driver, after which the checkpoint is deleted. Batches are
# counted by the checkpoint from 0 on where the driver counts, and by the queue from 1 on where the
# source does.
ROUNDS = (
    ("worker:read {1}", "executor:read {2}", "server:staged 2", "staged 3"),
    ("server:begun 0", "worker:read {2}", "executor:read {3}", "committed 3"),
    ("executor:read {1}", "server:committed 1", "worker:read {3}", "begun 3"),
    ("server:staged 0", "server:staged 1", "executor:read {3}", "planned {4}"),
    ("worker:read {1}", "server:begun 1", "worker:read {3}", "read {4}"),
)


def restart_when_asked(server: embedded.Server, place: Path, over: threading.Event) -> None:
    """Kill the server with -9 when the child asks for it, and start it again."""
    while not over.wait(0.05):
        if (place / "kill-server").exists():
            server.kill()
            server.start()
            (place / "kill-server").unlink()


def test_sums_are_the_truth_whatever_is_killed(
    server: embedded.Server,
    db: psycopg.Connection,
    dsn: str,
    fill: Fill,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(n=MESSAGES)
    fill("next", 0)
    db.execute("create table public.total (key bigint primary key, total bigint not null)")
    monkeypatch.setenv("PGQ_KILL_BATCH", str(max(1, MESSAGES // 25)))
    over = threading.Event()
    watcher = threading.Thread(target=restart_when_asked, args=(server, tmp_path, over))
    watcher.start()
    try:
        for kills in ROUNDS:
            with psycopg.connect(dsn) as conn:
                row = conn.execute("select coalesce(max(batch), 0) from pgq.stream").fetchone()
            assert row is not None
            ids = [str(row[0] + number) for number in range(10)]
            output = run_child(dsn, tmp_path, "sums", ",".join(kills).format(*ids))
            done = {mark.name for mark in tmp_path.glob("killed *")}
            print("killed:", *sorted(done), "and the driver")
            assert "finished" not in output.splitlines(), output[-4000:]
            assert len(done) == len(kills) - 1, output[-4000:]
            for mark in tmp_path.glob("killed *"):
                mark.unlink()
            shutil.rmtree(tmp_path / "checkpoint-sums")
            time.sleep(3)  # the name of a consumer that was killed
        output = run_child(dsn, tmp_path, "sums", "none")
        assert "finished" in output.splitlines(), output[-4000:]
    finally:
        over.set()
        watcher.join()
    with psycopg.connect(dsn, autocommit=True) as conn:
        found = conn.execute("select key, total from total order by key").fetchall()
        truth = [
            (key, sum(n for n in range(1, MESSAGES + 1) if n % 10 == key)) for key in range(10)
        ]
        assert found == truth
        thousands = conn.execute(
            "select (payload ->> 'n')::int from pgq.message where topic = 'next' order by 1"
        ).fetchall()
        assert thousands == [(n,) for n in range(1000, MESSAGES + 1, 1000)]
        assert stats(conn) == (0, 0, 0)
        assert stats(conn, "next") == (MESSAGES // 1000, 0, 0)
