"""Every block of python/RELAY.md is run, in order, and its output is compared."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg
import pytest

from harness import pages
from harness.paths import ROOT
from harness.redis_server import RedisServer
from harness.server import embedded_server

PAGE = ROOT / "python" / "RELAY.md"


def test_every_block_runs_and_prints_the_expected_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    with RedisServer(tmp_path, durable=False) as cache, embedded_server() as server:
        monkeypatch.setenv("REDIS_URL", cache.url)
        with psycopg.connect(server.create_database("relay"), autocommit=True) as conn:
            conn.execute("create extension pgq")
            conn.execute("select pgq.create_queue('orders')")
        now = pages.printed(pages.Reader(server, "relay", tmp_path), text)
    if os.environ.get("PGQ_TEST_ACCEPT"):
        PAGE.write_text(now, encoding="utf-8")
    else:
        assert now == text
