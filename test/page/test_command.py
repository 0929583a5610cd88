"""The command that serves the page."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.request import urlopen

import pytest

from harness.command import Command


@contextmanager
def started(dsn: str, *arguments: str, **environment: str) -> Iterator[tuple[Any, str]]:
    """Run the command; give the process, and the first line that it prints."""
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "pgq", "dashboard", "--port", "0", *arguments],
        env=os.environ | {"PGQ_DSN": dsn} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_prints_the_address_and_serves_until_it_is_asked_to_end(
    dsn: str, number: signal.Signals
) -> None:
    with started(dsn) as (process, line):
        assert line.startswith("http://127.0.0.1:")
        assert "token" not in line
        with urlopen(f"{line}api/about") as answer:
            assert json.load(answer)["writes"] is False
        with urlopen(f"{line}api/events") as stream:
            assert stream.readline() == b"retry: 1000\n"
            process.send_signal(number)
            assert process.wait(20) == 0
        assert "it is read-only" in process.stderr.read()


def test_it_prints_the_token_when_one_is_needed(dsn: str) -> None:
    with started(dsn, "--allow-writes") as (_, line):
        assert len(line.split("/#token=")[1]) == 32
    given = {"PGQ_DASHBOARD_TOKEN": "a-token-of-my-own"}
    with started(dsn, "--host", "0.0.0.0", "--json", **given) as (_, line):
        result = json.loads(line)
        assert result["token"] == "a-token-of-my-own"
        port = result["url"].split(":")[2].strip("/")
        with urlopen(f"http://127.0.0.1:{port}/api/about") as answer:
            assert json.load(answer)["private"] is True


def test_it_says_why_it_cannot_start(pgq_run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = pgq_run("dashboard", "--port", taken.getsockname()[1])
        assert result.code == 1
        assert "cannot listen on 127.0.0.1" in result.err
        assert "--port 0" in result.err
    result = pgq_run("dashboard", "--dsn", "host=127.0.0.1 port=1 dbname=x")
    assert result.code == 4
    monkeypatch.setitem(sys.modules, "pgq.dashboard", None)
    result = pgq_run("dashboard")
    assert (result.code, "pip install 'pgq-client[dashboard]'" in result.err) == (1, True)
    monkeypatch.undo()
    monkeypatch.setenv("PGQ_DASHBOARD_TOKEN", "short")
    result = pgq_run("dashboard")
    assert (result.code, "less than 16 characters" in result.err) == (2, True)
