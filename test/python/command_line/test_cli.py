"""The command line: one test or more for each command, on a real server."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

import pgq
from harness.command import Command
from harness.server import Server
from pgq import __version__, cli
from pgq.cli import _command, _sql, install
from pgq.cli._table import Table

MEANT = {"type": "refund"}


@pytest.fixture
def orders(client: pgq.PooledClient) -> pgq.PooledClient:
    client.create_queue("orders", lane_keys=["type"], max_attempts=1)
    return client


def value(db: psycopg.Connection, query: str) -> Any:
    row = db.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def states(db: psycopg.Connection) -> dict[str, int]:
    rows = db.execute("select state, count(*) from pgq.message_state group by 1").fetchall()
    return dict(rows)


def dead_letter(client: pgq.PooledClient, payload: Any, kind: str = "refund") -> int:
    id = client.publish("orders", payload, headers={"type": kind})
    client.claim("orders", {"type": kind}).nack(error="bank\nnot reachable")
    return id


# Help, usage, exit codes


def parsers(
    parser: argparse.ArgumentParser, name: str = "pgq"
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    groups = [
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    ]
    if not groups:
        yield name, parser
    for group in groups:
        for word, inner in group.choices.items():
            yield from parsers(inner, f"{name} {word}")


COMMANDS = dict(parsers(cli.parser()))


def test_all_commands_are_there() -> None:
    wanted = (
        "demo install publish claim ack nack consume queues stats history maintain doctor bench "
        "spark"
    )
    groups = ("dlq list", "dlq show", "dlq replay", "dlq discard", "filter test", "filter explain")
    assert {f"pgq {name}" for name in (*wanted.split(), *groups)} <= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples_that_can_be_typed(name: str) -> None:
    text = COMMANDS[name].format_help()
    examples = text.split("examples:\n")[1].strip().splitlines()
    typed = 0
    for example in examples:
        for part in example.split(" | "):
            words = shlex.split(re.split(r" [<>]+ ", part.strip())[0])
            if words[0] == "pgq":
                cli.parser().parse_args(words[1:])  # exits if it is wrong
                typed += " ".join(words).startswith(name)
    assert typed >= 1


@pytest.mark.parametrize("name", COMMANDS)
def test_every_argument_has_help(name: str) -> None:
    for action in COMMANDS[name]._actions:
        told = action.help or action.choices or action.metavar
        assert told, f"{action.dest} has no help"
        if action.option_strings and action.type is _command.duration:
            assert action.metavar == "DURATION", action.dest


def test_wrong_usage_ends_with_2(pgq_run: Command) -> None:
    assert pgq_run("publish").code == 2
    assert pgq_run("no-such-command").code == 2
    assert pgq_run("claim", "orders", "not json").code == 2
    assert pgq_run("claim", "orders", "[]").code == 2
    assert pgq_run("claim", "orders", "-n", "0").code == 2
    assert pgq_run("extend", "1", "soon").code == 2
    assert pgq_run("queues", "--dsn", "nonsense").code == 2


def test_a_refusal_ends_with_1_and_says_the_cure(pgq_run: Command) -> None:
    result = pgq_run("claim", "nowhere")
    assert result.code == 1
    assert result.out == ""
    assert "nowhere" in result.err
    assert "pgq create QUEUE" in result.err


def test_a_database_that_is_away_ends_with_4(pgq_run: Command) -> None:
    result = pgq_run("queues", "--dsn", "host=127.0.0.1 port=1 connect_timeout=2")
    assert (result.code, result.out) == (4, "")


def test_a_database_without_pgq_is_recognized(server: Server, pgq_run: Command) -> None:
    result = pgq_run("queues", "--dsn", server.dsn("template1"))
    assert result.code == 1
    assert "pgq install" in result.err


def test_the_variables_of_libpq_name_the_database(
    dsn: str, pgq_run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGQ_DSN")
    names = {"dbname": "PGDATABASE", "host": "PGHOST", "port": "PGPORT", "user": "PGUSER"}
    for name, setting in conninfo_to_dict(dsn).items():
        monkeypatch.setenv(names.get(name, f"PG{name.upper()}"), str(setting))
    monkeypatch.setenv("PGAPPNAME", "shop")
    assert pgq_run("create", "orders").code == 0
    assert pgq_run("publish", "orders", "1").code == 0
    assert pgq_run("claim", "orders", "--json").code == 0
    with psycopg.connect(dsn) as conn:
        assert value(conn, "select holder from pgq.lease") == "shop"


def test_options_may_stand_before_the_command(
    dsn: str, pgq_run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGQ_DSN")
    monkeypatch.setenv("PGHOST", "/nowhere")
    assert pgq_run("--dsn", dsn, "--json", "create", "orders").rows == [{"created": True}]
    assert pgq_run("create", "orders", "--dsn", dsn, "--json").rows == [{"created": False}]


def test_durations_have_units() -> None:
    spans = {"90": 90, "1.5h": 5400, "1h30m": 5400, "500ms": 0.5, "2 d": 172800, "1min": 60}
    for text, seconds in spans.items():
        assert _command.duration(text) == timedelta(seconds=seconds)
    for text in ("", "s", "5 weeks", "-5s"):
        with pytest.raises(argparse.ArgumentTypeError):
            _command.duration(text)


def test_a_table_is_aligned_and_harmless() -> None:
    rows = [(1, "a"), (200, None), (3, "b\x1b[2J")]
    assert str(Table(["n", "word"], rows, indent=1)).splitlines() == [
        "   n  word",
        " ---  -----",
        "   1  a",
        " 200",
        "   3  b [2J",
    ]


# Installing


@pytest.fixture
def empty(server: Server) -> Iterator[str]:
    name = f"pgq_cli_{os.getpid()}"
    yield server.create_database(name)
    server.drop_database(name)


def test_install_creates_the_extension_once(empty: str, pgq_run: Command) -> None:
    with psycopg.connect(empty) as conn:
        files = install._value(conn, _sql.AVAILABLE, __version__)
    how = "extension" if files else "plain"
    for action in ("created", "unchanged"):
        result = pgq_run("install", "--dsn", empty, "--json")
        assert result.rows == [{"version": __version__, "how": how, "action": action}]
    assert pgq_run("create", "orders", "--dsn", empty).code == 0


def test_install_does_without_files_on_the_server(empty: str, pgq_run: Command) -> None:
    for action in ("created", "unchanged"):
        result = pgq_run("install", "--plain", "--dsn", empty, "--json")
        assert result.rows == [{"version": __version__, "how": "plain", "action": action}]
    assert pgq_run("create", "orders", "--dsn", empty).code == 0
    with psycopg.connect(empty) as conn:
        assert value(conn, "select count(*) from pg_extension where extname = 'pgq'") == 0


def test_install_upgrades_an_older_plain_installation(
    empty: str, pgq_run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pgq_run("install", "--plain", "--dsn", empty).code == 0
    with psycopg.connect(empty, autocommit=True) as conn:
        conn.execute(
            "create or replace function pgq.pause(queue text,"
            " caller pgq.caller default current_user) returns boolean"
            " language sql return null::boolean"
        )
    # The script treats the current version as an old one, as it does with every listed version.
    script = install._script()
    monkeypatch.setattr(install, "_script", lambda: script)
    monkeypatch.setattr(install, "__version__", __version__ + ".1")
    result = pgq_run("install", "--dsn", empty, "--json")
    assert [row["action"] for row in result.rows] == ["upgraded"]
    assert pgq_run("create", "orders", "--dsn", empty).code == 0
    assert pgq_run("pause", "orders", "--dsn", empty, "--json").rows == [{"paused": True}]


def test_install_refuses_a_database_that_is_newer(
    empty: str, pgq_run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pgq_run("install", "--plain", "--dsn", empty).code == 0
    monkeypatch.setattr(install, "__version__", "0.0.9")
    result = pgq_run("install", "--dsn", empty)
    assert result.code == 1
    assert f"pip install pgq-client=={__version__}" in result.err


def test_an_extension_whose_new_files_are_missing_is_not_upgraded(
    pgq_run: Command, db: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not install._value(db, _sql.EXTENSION):
        pytest.skip("pgq is installed without files here")
    monkeypatch.setattr(install, "__version__", "99.0.0")
    result = pgq_run("install")
    assert result.code == 1
    assert "no files of pgq 99.0.0" in result.err


def test_the_demo_runs(pgq_run: Command) -> None:
    result = pgq_run("demo")
    assert result.code == 0
    assert "pgq.replay('orders')" in result.out


# Queues


def test_queues_are_created_listed_paused_and_dropped(
    pgq_run: Command, db: psycopg.Connection
) -> None:
    options = ("--lane-keys", "type,country", "--lease", "5m", "--max-attempts", "10")
    assert pgq_run("create", "orders", *options).code == 0
    assert "already" in pgq_run("create", "orders", *options).err
    assert pgq_run("create", "orders", "--lease", "1m").code == 1
    db.execute("select pgq.subscribe('orders', 'shop.#')")
    row = pgq_run("queues", "--json").rows[0]
    assert row["lane_keys"] == ["type", "country"]
    assert (row["queue"], row["lease"], row["max_attempts"]) == ("orders", 300.0, 10)
    assert row["patterns"] == ["shop.#"]
    shown = pgq_run("queues").out
    assert shown.splitlines()[0].split()[:2] == ["queue", "mode"]
    assert "shop.#" in shown

    assert pgq_run("pause", "orders").code == 0
    assert pgq_run("stats").out.rstrip().endswith("paused")
    assert "already" in pgq_run("pause", "orders").err
    assert pgq_run("resume", "orders", "--json").rows == [{"resumed": True}]
    pgq_run("publish", "orders", "1")
    assert pgq_run("drop", "orders").code == 1
    assert pgq_run("drop", "orders", "--force").code == 0
    assert pgq_run("queues").out == ""


def test_maintain_does_the_upkeep(
    pgq_run: Command, orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    orders.publish("orders", 1)
    orders.claim("orders", lease=timedelta(milliseconds=1))
    time.sleep(0.05)
    assert states(db) == {"leased": 1}
    assert pgq_run("maintain").code == 0
    assert states(db) == {"dead": 1}


# Publishing


def test_publish_takes_all_that_a_message_has(pgq_run: Command, orders: pgq.PooledClient) -> None:
    result = pgq_run(
        "publish",
        "orders",
        '{"amount": 75}',
        "--headers",
        '{"type": "refund"}',
        "--priority",
        5,
        "--expires-in",
        "1h",
        "--sender",
        "shop",
        "--recipient",
        "bank",
        "--reply-to",
        "answers",
        "--correlation-id",
        "c1",
        "--group-key",
        "g",
        "--json",
    )
    (message,) = orders.claim("orders")
    assert result.rows == [{"id": message.id}]
    assert message.payload == {"amount": 75}
    assert message.headers == {"type": "refund"}
    assert (message.priority, message.sender, message.recipient) == (5, "shop", "bank")
    assert (message.reply_to, message.correlation_id, message.group_key) == ("answers", "c1", "g")
    assert message.expires_at is not None


def test_publish_delays_and_reports_duplicates(
    pgq_run: Command, orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    first = pgq_run("publish", "orders", "1", "--dedup-key", "k", "--delay", "1h").out
    assert pgq_run("publish", "orders", "1", "--dedup-key", "k").out == first
    assert states(db) == {"delayed": 1}


def test_publish_can_name_the_time_of_delivery(
    pgq_run: Command,
    pgq_process: Command,
    orders: pgq.PooledClient,
    db: psycopg.Connection,
) -> None:
    assert pgq_run("publish", "orders", "1", "--deliver-at", "2040-01-02T03:04:05Z").code == 0
    line = json.dumps({"payload": 2, "deliver_at": "2040-01-02T04:04:05+01:00"})
    assert pgq_process("publish", "orders", "--messages", stdin=line).code == 0
    both = pgq_process("publish", "orders", "--messages", "--delay", "1h", stdin=line)
    assert both.code == 0  # the option overrides the line
    rows = db.execute("select deliver_at from pgq.message order by id").fetchall()
    assert [row[0].year for row in rows[:2]] == [2040, 2040]
    assert rows[0] == rows[1]
    assert rows[2][0].year < 2040
    assert pgq_run("publish", "orders", "1", "--deliver-at", "tomorrow").code == 2


def test_what_is_not_json_is_refused_unless_it_is_text(
    pgq_run: Command, orders: pgq.PooledClient
) -> None:
    result = pgq_run("publish", "orders", "plain words")
    assert result.code == 2
    assert "--text" in result.err
    assert pgq_run("publish", "orders", "plain words", "--text").code == 0
    assert orders.claim("orders")[0].payload == "plain words"


def test_publish_reads_lines(pgq_process: Command, orders: pgq.PooledClient) -> None:
    lines = "".join(f'{{"number": {number}}}\n' for number in range(2500))
    result = pgq_process("publish", "orders", "--batch", 1000, stdin=lines + "\n7")
    assert result.code == 0, result.err
    messages = list(orders.claim("orders", n=5000))
    assert [message.payload for message in messages] == [
        *({"number": number} for number in range(2500)),
        7,
    ]
    assert [int(id) for id in result.out.split()] == [message.id for message in messages]
    assert result.err == "2501 published\n"


def test_publish_shows_a_bar_on_stderr(dsn: str, orders: pgq.PooledClient, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("1\n" * 3000)
    with file.open() as stdin:
        done = subprocess.run(
            [sys.executable, "-m", "pgq", "publish", "orders", "--progress"],
            env=os.environ | {"PGQ_DSN": dsn},
            stdin=stdin,
            capture_output=True,
            text=True,
            check=True,
        )
    assert re.search(r"100% 3,000 messages .*\n3000 published\n$", done.stderr)
    assert "%" not in done.stdout


def test_publish_names_the_wrong_line_and_counts_the_lines_before(
    pgq_process: Command, orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    result = pgq_process("publish", "orders", "--batch", 2, stdin="1\n2\n3\nthree\n")
    assert result.code == 2
    assert result.out.split() == ["1", "2"]
    assert "2 published" in result.err
    assert "line 4 is not JSON" in result.err
    assert states(db) == {"ready": 2}


def test_publish_does_not_keep_a_line_waiting(dsn: str, orders: pgq.PooledClient) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "pgq", "publish", "orders"],
        env=os.environ | {"PGQ_DSN": dsn},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write('"first"\n')
        process.stdin.flush()
        id = int(process.stdout.readline())  # while stdin is still open
        assert orders.claim("orders")[0].id == id
        process.stdin.close()
        assert process.wait(20) == 0


def test_an_interrupted_command_ends_with_130(dsn: str, orders: pgq.PooledClient) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "pgq", "publish", "orders"],
        env=os.environ | {"PGQ_DSN": dsn},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write("1\n")
        process.stdin.flush()
        assert process.stdout.readline() == "1\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert process.stderr.read() == "1 published\n"
        process.stdin.close()


def test_messages_come_from_lines_with_all_their_fields(
    pgq_process: Command, orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    orders.create_queue("mails")
    drafts = [
        {"topic": "orders", "payload": 1, "headers": {"type": "paid"}, "priority": 3},
        {"topic": "orders", "payload": 2, "lease_id": 5, "headers": None},
        {"topic": "mails", "payload": None, "delay": "1h"},
    ]
    result = pgq_process("publish", "--messages", stdin="\n".join(map(json.dumps, drafts)))
    assert result.code == 0, result.err
    taken = orders.claim("orders", n=5)
    assert [(m.payload, m.headers, m.priority) for m in taken] == [
        (1, {"type": "paid"}, 3),
        (2, {}, 0),
    ]
    assert states(db) == {"leased": 2, "delayed": 1}
    for wrong in ('{"topic": "orders"}', '{"payload": 1}', '{"payload": 1, "delay": "x"}', "5"):
        assert pgq_process("publish", "--messages", stdin=wrong).code == 2


# Claiming


def test_claim_prints_the_claimed_messages(pgq_run: Command, orders: pgq.PooledClient) -> None:
    ids = orders.publish_batch(
        "orders", [1, 2, 3], headers=[{"type": "paid"}, {"type": "refund"}, {"type": "refund"}]
    )
    result = pgq_run("claim", "orders", json.dumps(MEANT), "-n", 10, "--lease", "1h", "--json")
    assert [row["id"] for row in result.rows] == ids[1:]
    assert set(result.rows[0]) == set(pgq.Message.__slots__)
    lease = result.rows[0]["lease_id"]
    assert pgq_run("ack", lease, ids[1]).out == "1\n"
    assert pgq_run("ack", lease, "--json").rows == [{"acknowledged": 1}]
    assert pgq_run("ack", lease).code == 1
    shown = pgq_run("claim", "orders", "--key", "mine").out
    assert shown.splitlines()[0].split()[:2] == ["lease_id", "id"]
    again = pgq_run("claim", "orders", "--key", "mine").out  # the lease is renewed
    assert again.splitlines()[2].split()[:2] == shown.splitlines()[2].split()[:2]


def test_a_claim_of_nothing_ends_with_3(pgq_run: Command, orders: pgq.PooledClient) -> None:
    result = pgq_run("claim", "orders")
    assert (result.code, result.out) == (3, "")


def test_a_lease_is_given_back_in_every_way(
    pgq_run: Command, client: pgq.PooledClient, db: psycopg.Connection
) -> None:
    client.create_queue("orders")
    client.publish_batch("orders", [1, 2, 3, 4])
    batch = client.claim("orders", n=4)
    lease = batch.lease_id
    until = pgq_run("extend", lease, "2h", "--json").rows[0]["lease_until"]
    assert batch.lease_until is not None
    assert until > batch.lease_until.isoformat()
    options = ("--delay", "1h", "--error", "later", "--details", '{"code": 5}')
    assert pgq_run("nack", lease, batch[0].id, *options).out == "1\n"
    assert pgq_run("bury", lease, batch[1].id, "--error", "never").out == "1\n"
    assert pgq_run("release", lease, batch[2].id).out == "1\n"
    assert states(db) == {"retrying": 1, "dead": 1, "ready": 1, "leased": 1}
    assert value(db, "select error from pgq.dead_letter") == "never"
    failure = value(db, "select failures->-1 from pgq.scheduled")
    assert failure["error"] == "later"


# Consuming


def test_consume_runs_a_command_for_each_message(
    pgq_process: Command, client: pgq.PooledClient, db: psycopg.Connection
) -> None:
    client.create_queue("orders", backoff=timedelta(minutes=5))
    for payload, kind in ((0, "good"), (1, "bad"), (65, "hopeless")):
        client.publish("orders", payload, headers={"type": kind})
    command = 'read -r code; echo "$PGQ_ID $PGQ_TOPIC $PGQ_HEADERS"; echo sorry >&2; exit "$code"'
    result = pgq_process("consume", "orders", "--exec", command, "--drain")
    assert result.code == 0, result.err
    assert result.out.splitlines() == [
        '1 orders {"type": "good"}',
        '2 orders {"type": "bad"}',
        '3 orders {"type": "hopeless"}',
    ]
    assert "1 handled, 2 failed" in result.err
    assert states(db) == {"retrying": 1, "dead": 1}
    assert value(db, "select error from pgq.dead_letter") == "exit code 65: sorry"
    assert value(db, "select failures->-1->>'error' from pgq.scheduled") == "exit code 1: sorry"


def test_consume_kills_a_command_that_takes_too_long(
    orders: pgq.PooledClient, pgq_process: Command, db: psycopg.Connection, tmp_path: Path
) -> None:
    orders.alter_queue("orders", max_attempts=1)
    orders.publish("orders", 1)
    mark = tmp_path / "survived"
    command = f"sleep 60; touch {mark}"
    result = pgq_process("consume", "orders", "--exec", command, "--drain", "--timeout", "300ms")
    assert "0 handled, 1 failed" in result.err
    ((error,),) = db.execute("select error from pgq.dead_letter").fetchall()
    assert error == "the command took longer than 0.3 s"
    assert not mark.exists()


def test_consume_runs_commands_side_by_side(
    pgq_process: Command, orders: pgq.PooledClient, tmp_path: Path
) -> None:
    orders.publish_batch("orders", [1, 2, 3])
    # Each command waits until all three run.
    command = f"cd {tmp_path}; touch $PGQ_ID; while [ $(ls | wc -l) -lt 3 ]; do sleep 0.05; done"
    result = pgq_process("consume", "orders", "--exec", command, "--drain", "--concurrency", 3)
    assert "3 handled, 0 failed" in result.err


def test_consume_prints_and_acknowledges(
    pgq_process: Command, orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    orders.publish_batch("orders", [1, "two"], headers=[{"type": "paid"}, {"type": "refund"}])
    result = pgq_process("consume", "orders", json.dumps(MEANT), "--json", "--drain")
    assert [row["payload"] for row in result.rows] == ["two"]
    assert states(db) == {"ready": 1}
    result = pgq_process("consume", "orders", "--drain")
    assert result.out == '1\t"orders"\t1\t{"type": "paid"}\t1\n'
    assert states(db) == {}


def consuming(dsn: str, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pgq", "consume", "orders", *options],
        env=os.environ | {"PGQ_DSN": dsn},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_consume_lets_a_command_finish(
    dsn: str, orders: pgq.PooledClient, db: psycopg.Connection, number: signal.Signals
) -> None:
    orders.publish_batch("orders", [1, 2])
    with consuming(dsn, "--exec", "echo begun; sleep 1; echo done") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(number)
        assert process.stdout.readline() == "done\n"
        assert process.wait(20) == 0
    assert states(db) == {"ready": 1}


def test_consume_releases_messages_when_its_reader_ends(
    dsn: str, orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    orders.publish("orders", 1)
    with consuming(dsn) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()  # as head does
        orders.publish_batch("orders", [2, 3])
        assert process.wait(20) == 1
    assert states(db) == {"ready": 2}
    assert value(db, "select max(attempt) from pgq.message_state") == 0


def test_consume_ends_on_a_signal(dsn: str, orders: pgq.PooledClient) -> None:
    orders.publish("orders", 1)
    with consuming(dsn) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.terminate()
        assert process.wait(20) == 0
        assert "1 printed" in process.stderr.read()


# Looking


def test_stats_show_the_queues(pgq_run: Command, orders: pgq.PooledClient) -> None:
    orders.publish_batch("orders", [1, 2, 3])
    orders.claim("orders")
    row = pgq_run("stats", "orders", "--json").rows[0]
    assert (row["queue"], row["ready"], row["leased"], row["dead"]) == ("orders", 2, 1, 0)
    head, rule, line = pgq_run("stats").out.splitlines()
    assert head.split()[:5] == ["queue", "ready", "leased", "dead", "oldest"]
    assert set(rule) == {"-", " "}
    assert line.split()[:4] == ["orders", "2", "1", "0"]
    result = pgq_run("stats", "nowhere")
    assert result.code == 1
    assert "nowhere" in result.err


def test_stats_can_be_watched(dsn: str, orders: pgq.PooledClient) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "pgq", "stats", "--watch", "0.1", "--json"],
        env=os.environ | {"PGQ_DSN": dsn},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["ready"] == 0
        orders.publish("orders", 1)
        rows = (json.loads(line) for line in process.stdout)
        assert next(row for row in rows if row["ready"] == 1)["at"]
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_history_lists_the_events(pgq_run: Command, orders: pgq.PooledClient) -> None:
    id = dead_letter(orders, 75)
    assert [row["event"] for row in pgq_run("history", id, "--json").rows][:3] == [
        "publish",
        "claim",
        "nack",
    ]
    assert "nack" in pgq_run("history", id).out
    assert pgq_run("history", 4711).code == 3


# Dead letters


def test_dead_letters_are_listed_and_shown(pgq_run: Command, orders: pgq.PooledClient) -> None:
    first = dead_letter(orders, {"amount": 75})
    second = dead_letter(orders, {"amount": 80}, "paid")
    assert [row["message_id"] for row in pgq_run("dlq", "list", "--json").rows] == [first, second]
    assert pgq_run("dlq", "list", "orders", "-n", 1, "--json").rows[0]["message_id"] == first
    rows = pgq_run("dlq", "list", "orders", '{"payload.amount": {"$gt": 75}}', "--json").rows
    assert [row["message_id"] for row in rows] == [second]
    listed = pgq_run("dlq", "list", "orders", json.dumps(MEANT)).out.splitlines()
    assert len(listed) == 3
    assert "bank not reachable" in listed[2]

    shown = pgq_run("dlq", "show", first).out
    assert re.search(r'^payload +\{"amount": 75\}$', shown, re.MULTILINE)
    assert re.search(r"^reason +processing_error$", shown, re.MULTILINE)
    assert pgq_run("dlq", "show", first, "--json").rows[0]["payload"] == {"amount": 75}
    assert pgq_run("dlq", "show", first, "--queue", "elsewhere").code == 1


def test_a_queue_that_does_not_exist_is_not_an_empty_list(
    pgq_run: Command, orders: pgq.PooledClient
) -> None:
    for command in ("dlq list", "leases", "rights", "subscriptions", "findings"):
        result = pgq_run(*command.split(), "ordres")
        assert (result.code, result.out) == (1, ""), command
        assert result.err == (
            'pgq: queue "ordres" does not exist\n     Did you mean "orders"?\n'
        ), command
        assert pgq_run(*command.split(), "orders").code == 0, command


def test_a_list_without_rows_says_so(pgq_run: Command) -> None:
    for command in ("queues", "relays", "limits", "schedules", "leases", "subscriptions"):
        result = pgq_run(command)
        assert (result.code, result.out, result.err) == (0, "", f"no {command}\n"), command
    assert pgq_run("stats").err == "no queues\n"


def test_an_option_is_not_abbreviated(pgq_run: Command, orders: pgq.PooledClient) -> None:
    orders.publish("orders", 1)
    result = pgq_run("drop", "orders", "--forc")
    assert (result.code, result.out) == (2, "")
    assert "Did you mean --force?" in result.err
    assert [row["queue"] for row in pgq_run("queues", "--json").rows] == ["orders"]


def test_hints_name_commands_and_options(pgq_run: Command, orders: pgq.PooledClient) -> None:
    orders.publish("orders", 1)
    for command, hint in (
        (("peek", "nowhere"), "Create it with pgq create QUEUE or pgq subscribe QUEUE PATTERN."),
        (("drop", "orders"), "or use --force."),
        (("create", "orders", "--max-attempts", 9), "Change it with pgq alter,"),
        (("pause", "--schedule", "never"), "pgq schedules lists them."),
        (("peek", "orders", "type=paid"), """write a filter such as '{"type": "paid"}'"""),
    ):
        result = pgq_run(*command)
        assert result.code in (1, 2)
        assert hint in result.err, command


def test_durations_are_shown_as_they_are_written(
    pgq_run: Command, orders: pgq.PooledClient
) -> None:
    orders.create_queue("slow", lease="90m", backoff="50ms", retention="36h")
    shown = pgq_run("queues").out.splitlines()
    assert {"30s", "1s", "1d"} < set(shown[2].split())
    assert {"1h30m", "0.05s", "1d12h"} < set(shown[3].split())


def test_dead_letters_are_replayed(
    pgq_run: Command, orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    first, second, third = (dead_letter(orders, n, kind) for n, kind in enumerate("aab"))
    assert pgq_run("dlq", "replay", "orders", '{"type": "a"}', "--dry-run").out == "2\n"
    assert states(db) == {"dead": 3}
    assert pgq_run("dlq", "replay", "orders", '{"type": "b"}', "--id", second).out == "0\n"
    assert pgq_run("dlq", "replay", "orders", "--id", second, "--json").rows == [{"replayed": 1}]
    assert pgq_run("dlq", "replay", "orders", "-n", 1).out == "1\n"
    rows = db.execute("select id, state from pgq.message_state order by 1").fetchall()
    assert rows == [(first, "ready"), (second, "ready"), (third, "dead")]


def test_dead_letters_are_discarded_but_never_by_oversight(
    pgq_run: Command, orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    first, second, _ = (dead_letter(orders, n, kind) for n, kind in enumerate("aab"))
    assert pgq_run("dlq", "discard", "orders").code == 2
    assert states(db) == {"dead": 3}
    assert pgq_run("dlq", "discard", "orders", "--id", first, "--id", second).out == "2\n"
    assert pgq_run("dlq", "discard", "orders", '{"type": "c"}').out == "0\n"
    assert pgq_run("dlq", "discard", "orders", "--all", "--dry-run").out == "1\n"
    assert pgq_run("dlq", "discard", "orders", "--all").out == "1\n"
    assert states(db) == {}


# Filters


def test_a_filter_is_tested(pgq_run: Command) -> None:
    filter = '{"type": "paid", "payload.amount": {"$gt": 100}}'
    good = ("--headers", '{"type": "paid"}', "--payload", '{"amount": 120}')
    result = pgq_run("filter", "test", filter, *good)
    assert (result.code, result.out) == (0, "matches\n")
    result = pgq_run("filter", "test", filter, "--headers", '{"type": "paid"}')
    assert (result.code, result.out) == (3, "does not match\n")
    assert pgq_run("filter", "test", filter, *good, "--json").rows == [{"matches": True}]
    result = pgq_run("filter", "test", '{"type": {"$nonsense": 1}}')
    assert result.code == 1
    assert "invalid filter" in result.err


def test_a_filter_is_explained(pgq_run: Command, orders: pgq.PooledClient) -> None:
    orders.publish("orders", 1, headers=MEANT)
    told = pgq_run("filter", "explain", "orders", json.dumps(MEANT), "--json").rows[0]
    assert told == orders.explain_filter("orders", MEANT)
    shown = pgq_run("filter", "explain", "orders", json.dumps(MEANT)).out
    assert len(shown.splitlines()) >= len(told)


# Measuring


def test_bench_measures_and_leaves_nothing(pgq_run: Command, db: psycopg.Connection) -> None:
    def databases() -> list[str]:
        rows = db.execute("select datname from pg_database where datname ~ '^pgq_bench'")
        return [row[0] for row in rows]

    result = pgq_run("bench", "--messages", 200, "--batch", 50, "--json")
    assert result.code == 0
    counts = [row["messages"] for row in result.rows]
    assert counts == [10, 10, 200, 20, 180]
    assert all(row["per_second"] > 0 for row in result.rows)
    assert databases() == []
    assert value(db, "select count(*) from pgq.message") == 0


def test_sql_prints_a_script_that_can_be_run_again(
    empty: str, pgq_run: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    script = pgq_run("sql", "install").out
    with psycopg.connect(empty, autocommit=True) as conn:
        with pytest.raises(psycopg.errors.UndefinedObject, match="not installed"):
            conn.execute(pgq_run("sql", "upgrade").out)
        for _ in range(2):
            conn.execute(script)
        conn.execute("select pgq.create_queue('orders')")
        conn.execute(
            "create or replace function pgq.version() returns text language sql return '0.0.1'"
        )
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="cannot be upgraded"):
            conn.execute(script)
