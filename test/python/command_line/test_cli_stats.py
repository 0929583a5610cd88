"""The output of the command line for people: columns, dates, colours, causes, hints."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import time
from datetime import timedelta
from typing import Any

import pytest

import pgq
from harness.command import Command
from pgq.cli import _terminal, stats
from pgq.cli._command import Failure
from pgq.cli._progress import Progress
from pgq.cli._table import Table


@pytest.fixture
def orders(client: pgq.PooledClient) -> pgq.PooledClient:
    client.create_queue("orders", max_attempts=1)
    return client


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let stdout and stderr pass for a terminal of 80 columns and 12 lines."""
    monkeypatch.setattr(_terminal, "is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "12")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.fixture
def without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "rich"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rich", None)


def failed(client: pgq.PooledClient, error: str, details: Any = None) -> int:
    id = client.publish("orders", 1)
    client.claim("orders").nack(error=error, details=details)
    return id


# A row as pgq.queue_stats has it, at its widest.
WIDE: dict[str, Any] = {
    "queue": "a-queue-with-a-name-that-is-much-too-long-for-a-table",
    **dict.fromkeys(("ready", "scheduled", "leased", "waiting", "dead"), 99_999),
    "paused": True,
    "mode": "queue",
    "relay": None,
    "oldest_age": timedelta(days=99),
    **dict.fromkeys(("published_per_second", "acked_per_second"), 99_999.5),
    "failed_per_second": 999.94,
    "estimated": ["ready", "waiting"],
}
NARROW = WIDE | {
    "queue": "a-queue-with-a-name-of-29-chars",
    "scheduled": 0,
    "waiting": 0,
    "estimated": ["ready"],
}


def test_stats_fit_into_80_columns(
    terminal: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    for row in (WIDE, NARROW):
        _terminal.show(stats._table([row, row], {str(row["queue"]): row}))
        titles, _, *lines = capsys.readouterr().out.splitlines()
        assert max(map(len, [titles, *lines])) <= 80
        seldom = [word for word in titles.split() if word in stats._SELDOM]
        assert seldom == (["sched", "wait", "state"] if row is WIDE else ["state"])
        name, numbers = lines[0].split(maxsplit=1)
        assert numbers.startswith("~99999")
        assert numbers.strip().endswith("paused")
        # The name is broken: no part of it is missing.
        folded = "".join(line.split()[0] for line in lines[: len(lines) // 2])
        assert folded == row["queue"]
        assert name != row["queue"]


def test_lists_fit_into_80_columns(
    terminal: None, pgq_run: Command, orders: pgq.PooledClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    orders.subscribe("elsewhere", "orders.*", {"type": "paid"})
    orders.alter_queue("orders", lane_keys=["tenant"], lane_max_leased=10, rate="100/s")
    orders.schedule("nightly", "orders", {"a": 1}, cron="0 3 * * *", time_zone="Europe/Berlin")
    id = failed(orders, "mailbox does not exist: user 17")
    orders.publish_batch("orders", [{"text": "word " * 7}] * 2, headers={"tenant": "t"})
    orders.claim("orders")
    for command in (
        ["queues"],
        ["limits"],
        ["subscriptions"],
        ["schedules"],
        ["leases"],
        ["stats"],
        ["peek", "orders"],
        ["peek", "orders", "--state", "leased"],
        ["history", id],
        ["dlq", "list"],
        ["dlq", "list", "--by-cause"],
        ["dlq", "show", id],
    ):
        result = pgq_run(*command)
        assert result.code == 0, result.err
        lines = result.out.splitlines()
        assert lines
        assert max(map(len, lines)) <= 80, result.out


def test_a_table_that_cannot_fit_has_a_line_for_each_cell(
    terminal: None, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"column_{number}" for number in range(12)]
    values = [*range(11), "[red]\x1b[2J" + "long " * 30]
    _terminal.show(Table(names, [values, values]))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 * 12 + 1
    assert lines[1] == "\x1b[1mcolumn_1  \x1b[0m 1"
    # The terminal wraps the text, and control characters have no effect.
    assert lines[11] == "\x1b[1mcolumn_11 \x1b[0m [red] [2J" + "long " * 30


def test_tables_are_made_to_fit_for_terminals_only(capsys: pytest.CaptureFixture[str]) -> None:
    _terminal.show(stats._table([WIDE], {}))
    assert str(WIDE["queue"]) in capsys.readouterr().out


def test_without_rich_a_terminal_gets_plain_text(
    terminal: None, without_rich: None, pgq_run: Command, orders: pgq.PooledClient
) -> None:
    orders.publish("orders", 1)
    orders.pause("orders")
    for command in (["stats"], ["queues"], ["findings", "orders"], ["peek", "orders"]):
        result = pgq_run(*command).out
        assert "orders" in result
        assert "\x1b" not in result
    Progress(10, "messages").at(5, 5)
    with pytest.raises(Failure, match="rich is missing") as missing:
        Progress(10, "messages", shown=True)
    assert missing.value.hint == "pip install 'pgq-client[cli]'"


def test_numbers_and_ages_are_short() -> None:
    numbers = {0: "0", 99_999: "99999", 123_456: "123k", 1_250_000: "1.2M", 7 * 10**9: "7.0G"}
    assert {number: stats._short(number) for number in numbers} == numbers
    assert (stats._short(0.25), stats._short(1234.5)) == ("0.2", "1234")
    ages = {0.24: "0.2s", 65: "1m05s", 3600: "1h00m", 90000: "1d01h"}
    assert {age: stats._age(timedelta(seconds=age)) for age in ages} == ages


def test_arrows_show_rising_and_falling_counts() -> None:
    was = WIDE | {"ready": 10, "leased": 5, "dead": 0, "estimated": None}
    now = was | {"ready": 12, "leased": 4}
    shown = stats._readable(now, was)
    assert (shown["ready"], shown["leased"], shown["dead"]) == ("12↑", "4↓", "0 ")
    assert stats._readable(now, None)["ready"] == "12"


def test_watched_stats_are_a_live_view_on_a_terminal(
    terminal: None, pgq_run: Command, orders: pgq.PooledClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each view is written over the last one, and nothing is cleared: nothing flickers."""
    rounds = iter([1, 2, None])

    def sleep(seconds: float) -> None:
        if next(rounds) is None:
            raise KeyboardInterrupt
        orders.publish("orders", 1)

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setenv("NO_COLOR", "1")
    for number in range(9):
        orders.create_queue(f"other{number}")
    result = pgq_run("stats", "--watch")
    assert result.code == 0
    before, *views = result.out.split("\x1b[H")
    assert "\x1b[?1049h" in before  # a screen of its own, which is left in the end
    assert views[-1].count("\x1b[?1049l") == 1
    assert "\x1b[2J" not in result.out
    assert "\x1b[K" not in result.out
    assert re.findall(r"^orders +(\S+)", result.out, re.MULTILINE) == ["0", "1↑", "2↑"]
    for view in views[-3:]:
        lines = view.partition("\x1b")[0].splitlines()
        assert {len(line) for line in lines} == {80}
        assert len(lines) == 12
        assert re.match(r"\d\d:\d\d:\d\d · 2 more: name some queues", lines[0])


def test_a_real_terminal_is_left_as_it_was(dsn: str, orders: pgq.PooledClient) -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    environment = os.environ | {"PGQ_DSN": dsn, "TERM": "xterm", "COLORTERM": ""}
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        environment.pop(name, None)
    orders.pause("orders")
    with subprocess.Popen(
        [sys.executable, "-m", "pgq", "stats", "--watch", "0.1"],
        env=environment,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        result = b""
        while b"paused" not in result:
            result += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # the other side is closed
            while more := os.read(ours, 4096):
                result += more
        os.close(ours)
        assert process.wait(60) == 0
    assert b"\x1b[33mpaused" in result
    assert result.count(b"\x1b[?1049h") == result.count(b"\x1b[?1049l") == 1
    assert b"\x1b[?25h" in result  # the cursor is back


def test_colours_are_for_terminals_only(
    pgq_run: Command, orders: pgq.PooledClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.publish("orders", 1)
    orders.pause("orders")
    commands = (("findings", "orders"), ("doctor", "--only", "backlog"))
    for command in commands:
        assert "\x1b" not in pgq_run(*command).out
    monkeypatch.setattr(_terminal, "is_terminal", lambda stream: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for command in commands:
        assert "\x1b[33m" in pgq_run(*command).out
        assert "\x1b" not in pgq_run(*command, "--json").out
    assert pgq_run("doctor", "--only", "version").out.startswith("\x1b[32mok")
    monkeypatch.setenv("NO_COLOR", "1")
    for command in commands:
        assert "\x1b" not in pgq_run(*command).out


def test_times_have_a_date_and_a_zone(pgq_run: Command, orders: pgq.PooledClient) -> None:
    id = failed(orders, "no")
    moment = r"\b20\d\d-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d"
    for command in (("dlq", "list"), ("dlq", "show", id), ("history", id), ("peek", "orders")):
        orders.publish("orders", 2)
        assert re.search(moment, pgq_run(*command).out), command


def test_tracebacks_are_shown_as_text(pgq_run: Command, orders: pgq.PooledClient) -> None:
    trace = 'Traceback:\n  File "x.py"\n\x1b[2Jboom'
    id = failed(orders, "boom\x1b[2J", {"traceback": trace, "code": 7})
    shown = pgq_run("dlq", "show", id).out
    assert '\ntraceback\n  Traceback:\n    File "x.py"\n   [2Jboom\n' in shown
    assert re.search(r'^details +\{"code": 7\}$', shown, re.MULTILINE)
    assert re.search(r"^failures\n  ", shown, re.MULTILINE)
    assert "\x1b" not in shown
    (row,) = pgq_run("dlq", "show", id, "--json").rows
    assert row["details"] == {"traceback": trace, "code": 7}
    assert len(row["failures"]) == 1


def test_a_traceback_as_the_error_is_listed_by_its_exception(
    pgq_run: Command, orders: pgq.PooledClient
) -> None:
    id = failed(
        orders, 'Traceback (most recent call last):\n  File "x.py", line 3\nValueError: no box\n'
    )
    for command in (("dlq", "list"), ("history", id), ("findings",)):
        shown = pgq_run(*command).out
        assert "ValueError: no box" in shown, command
        assert "Traceback" not in shown, command
    shown = pgq_run("dlq", "show", id).out
    assert re.search("^error +ValueError: no box$", shown, re.MULTILINE)
    assert '\nerror\n  Traceback (most recent call last):\n    File "x.py", line 3\n' in shown
    (attempt,) = re.findall(r"^  (20\d\d-.*)$", shown, re.MULTILINE)
    assert re.search(r"^\S+ \d\d:\d\d:\d\d[+-]\d\d:\d\d  ", attempt)


def test_dead_letters_are_counted_by_cause(pgq_run: Command, orders: pgq.PooledClient) -> None:
    for number in (17, 4711, 5):
        last = failed(orders, f"mailbox does not exist: user{number}")
    failed(orders, "order 6f1c2b3a-0000-4000-8000-0123456789ab at 0x7ff6a3 took 1.5 s")
    failed(orders, "order 00000000-0000-4000-8000-0123456789ab at 0x1 took 12 s")
    failed(orders, "commit deadbeef01 is defaced")
    rows = pgq_run("dlq", "list", "--by-cause", "--json").rows
    assert [(row["count"], row["cause"]) for row in rows] == [
        (3, "mailbox does not exist: user<n>"),
        (2, "order <id> at <id> took <n> s"),
        (1, "commit <id> is defaced"),
    ]
    assert rows[0]["example_id"] == last
    assert rows[0]["first_at"] < rows[0]["last_at"]
    shown = pgq_run("dlq", "list", "orders", "--by-cause", "-n", 1).out.splitlines()
    assert shown[2].split()[:3] == ["3", "orders", "processing_error"]
    assert len(shown) == 3


def test_dead_letters_are_replayed_and_discarded_by_cause(
    pgq_run: Command, orders: pgq.PooledClient
) -> None:
    orders.create_queue("again")
    for error in ("bank away", "bank away", "no such customer"):
        failed(orders, error)
    bank = ("--cause", '{"error": {"$like": "bank%"}}')
    assert pgq_run("dlq", "replay", "orders", *bank, "--dry-run").out == "2\n"
    changes = ("--to", "again", "--patch", '{"tried": true}')
    assert pgq_run("dlq", "replay", "orders", *bank, "-n", 1, *changes).out == "1\n"
    assert pgq_run("dlq", "discard", "orders", *bank, "--json").rows == [{"discarded": 1}]
    (row,) = pgq_run("dlq", "list", "--json").rows
    assert row["error"] == "no such customer"
    assert [row["payload"] for row in pgq_run("peek", "again", "--json").rows] == [{"tried": True}]
    (message,) = orders.claim("again")
    message_id = message.id
    orders.bury(message.lease_id, error="again")
    assert pgq_run("dlq", "list", "again", "--json").rows[0]["message_id"] == message_id
    letter = orders.dead_letter("again", message_id)
    assert letter is not None
    assert letter["deliver_at"] is None
    expired = ("--cause", '{"reason": "expired"}')
    assert pgq_run("dlq", "replay", "orders", *expired).out == "0\n"
    buried = ("--cause", '{"reason": "processing_error"}')
    assert pgq_run("dlq", "replay", "orders", *buried, "--dry-run").out == "1\n"
    assert pgq_run("dlq", "replay", "orders", *buried, "--per-second", 100).out == "1\n"
    (row,) = pgq_run("stats", "orders", "--json").rows
    assert (row["ready"] + row["scheduled"], row["dead"]) == (1, 0)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["pek"], "pgq peek"),
        (["subcribe"], "pgq subscribe"),
        (["list"], "pgq queues"),
        (["redrive"], "pgq dlq replay"),
        (["replay"], "pgq dlq replay"),
        (["dlq", "shwo"], "pgq dlq show"),
    ],
)
def test_a_command_that_may_be_meant_is_named(
    pgq_run: Command, typed: list[str], meant: str
) -> None:
    result = pgq_run(*typed)
    assert result.code == 2
    assert result.err.startswith(f"pgq: no such command: pgq {' '.join(typed)}\n")
    assert meant in result.err.split("Did you mean ")[1]


def test_nothing_is_guessed_for_nonsense(pgq_run: Command) -> None:
    result = pgq_run("xyzzy")
    assert result.code == 2
    assert result.err.endswith("All commands: pgq --help\n")


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        (["cancel", "orders", "--ids", "3"], "Did you mean --id?"),
        (["purge", "orders", "--dryrun"], "Did you mean --dry-run?"),
        (["cancel", "orders", "--filter={}"], "without a name: pgq cancel queue [filter]"),
        (["dlq", "list", "--xyzzy"], "All options: pgq dlq list --help"),
    ],
)
def test_an_option_that_may_be_meant_is_named(
    pgq_run: Command, typed: list[str], hint: str
) -> None:
    result = pgq_run(*typed)
    assert result.code == 2
    assert result.err.startswith("pgq: no such option: pgq ")
    assert result.err.endswith(f"{hint}\n")
