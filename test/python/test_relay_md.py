"""Every block of python/RELAY.md is run, in order, and prints what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from test_python_readme import shell
from test_readme import BLOCK

from harness.paths import ROOT
from harness.redis_server import RedisServer
from harness.server import embedded_server


def test_every_block_runs_and_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "python" / "RELAY.md").read_text(encoding="utf-8")
    blocks = [match.groups() for match in BLOCK.finditer(text)]
    ran = []
    with RedisServer(tmp_path, durable=False) as cache, embedded_server() as server:
        monkeypatch.setenv("REDIS_URL", cache.url)
        with psycopg.connect(server.dsn(), autocommit=True) as conn:
            conn.execute("create extension pgq")
            conn.execute("select pgq.create_queue('orders')")
        for (language, code), (following, said) in zip(
            blocks, [*blocks[1:], ("", "")], strict=True
        ):
            if language == "text":
                continue
            ran.append(language)
            if language == "sh":
                printed = shell(server, code, tmp_path)
            else:
                done = subprocess.run(
                    [sys.executable, "-W", "error", "-c", code],
                    cwd=tmp_path,
                    env=server.environment(),
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert done.returncode == 0, done.stderr
                printed = done.stdout
            assert printed.strip() == (said.strip() if following == "text" else "")
    assert ran == ["sh", "python", "python"]
