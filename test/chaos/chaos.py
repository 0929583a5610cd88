"""Work under load while everything fails that can fail, and an account of it at the end.

Workers publish, consume and read batches through a proxy, beside a hostile role with rights to its
own queue. Faults strike one after the other: crashes, cuts, rotations, tokens that start again,
thousands of messages that expire at once. At the end every message that was published is
acknowledged, a dead letter or still held, once in each queue that receives it, and what a worker
was told to be committed is there.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import psycopg
from psycopg.conninfo import make_conninfo

from chaos.worker import SLOW
from harness.install import check_invariants, install_plain
from harness.paths import ROOT, TEST
from harness.proxy import Proxy
from harness.report import Report
from harness.server import SETTINGS
from pgq import embedded

ROLES = [("publish", 3), ("consume", 4), ("read", 2), ("hostile", 1)]
TIMEOUT = 90.0
# The names of workers' sessions
WORKERS = "^(publish|consume|read|hostile)-"

TABLES = """
create table sent (uid bigint primary key, topic text, kind int, group_key text);
create table done (seq bigint generated always as identity, queue text, uid bigint);
create table batch (reader int, number int, primary key (reader, number));
select pgq.create_queue('work', lane_keys => '{kind}', lease => '4 s', max_attempts => 50,
                        backoff => '100 ms', max_backoff => '1 s', retention => '1 s');
select pgq.create_queue('audit', lease => '4 s', max_attempts => 50, backoff => '100 ms',
                        max_backoff => '1 s', retention => '1 s');
select pgq.subscribe('audit', 'work', '{"kind": {"$lte": 1}}');
-- Its messages expire: consumers are mostly away.
select pgq.create_queue('news', lease => '4 s', max_attempts => 50, backoff => '100 ms',
                        max_backoff => '1 s', retention => '1 s');
-- A role that may do what it likes with this one, and does.
create role mallory login password 'mallory';
select pgq.create_queue('mine', retention => '1 s');
select pgq.grant_queue('mine', 'mallory', 'admin');
"""

# Where each message is, for each queue, and where it has to be.
ACCOUNT = """
create temp table fate as
    select queue, uid, 'done' as place from done
    union all
    select q.name, (d.payload ->> 'uid')::bigint, 'dead'
    from pgq.dead_letter d join pgq.queue q using (queue_id) where q.name <> 'mine'
    union all
    select s.queue, (m.payload ->> 'uid')::bigint, 'held'
    from pgq.message_state s join pgq.message m using (id)
    where s.state <> 'dead' and s.queue <> 'mine';
create temp table expected as
    select topic as queue, uid from sent
    union all
    select 'audit', uid from sent where topic = 'work' and kind <= 1;
create temp table noted (what text, uid bigint);
"""

# Each of these returns no row if all is well.
LAWS = {
    "nothing that was published is missing": "select * from expected except"
    " select queue, uid from fate",
    "nothing is there that was not published": "select queue, uid from fate except"
    " select * from expected",
    "nothing is in two places or was acknowledged twice": "select queue, uid, array_agg(place)"
    " from fate group by 1, 2 having count(*) > 1",
    "confirmed publications are in the log": "select uid from noted where what = 'sent'"
    " except select uid from sent",
    "confirmed acknowledgements stay": "select what, uid from noted"
    " where what like 'done %' except select 'done ' || queue, uid from done",
    "no innocent message is a dead letter": "select q.name, d.reason, d.payload"
    " from pgq.dead_letter d join pgq.queue q using (queue_id) where q.name <> 'mine'"
    " and not (d.reason = 'rejected' and (d.payload ->> 'uid')::bigint % 997 = 0"
    " or d.reason = 'expired' and q.name = 'news')",
    "groups were delivered in order": "select * from (select queue, group_key, uid,"
    " lag(uid) over (partition by queue, group_key order by seq) as before"
    " from done join sent using (uid) where group_key is not null) o where before > uid",
}


def wait_for(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not done():
        assert time.monotonic() < deadline, f"in vain: {what}"
        time.sleep(0.05)


class Chaos:
    """A server, its workers, and what has happened to them.

    :param dsn: how workers reach the server. :param scratch: a directory for the files of workers.
    """

    def __init__(self, server: embedded.Server, dsn: str, scratch: Path, seed: int) -> None:
        self.server = server
        self.dsn = dsn
        self.scratch = scratch
        self.chance = random.Random(seed)
        self.lives: Counter[tuple[str, int]] = Counter()
        self.workers: dict[tuple[str, int], subprocess.Popen[bytes]] = {}
        self.defects: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers.values():
            worker.kill()
            worker.wait()

    # Workers

    def start_worker(self, role: str, number: int) -> None:
        life = self.lives[role, number]
        self.lives[role, number] += 1
        name = f"{role}-{number}-{life}"
        dsn = make_conninfo(self.dsn, application_name=name, connect_timeout=10)
        if role == "hostile":
            dsn = make_conninfo(dsn, user="mallory", password="mallory")
        with (self.scratch / f"{name}.err").open("wb") as errors:
            self.workers[role, number] = subprocess.Popen(
                [
                    sys.executable,
                    str(TEST / "chaos" / "worker.py"),
                    role,
                    str(number),
                    str(life),
                    dsn,
                    str(self.scratch / f"{name}.ledger"),
                ],
                stdin=subprocess.DEVNULL,
                stderr=errors,
            )

    def start_workers(self, *roles: str) -> None:
        for role, count in ROLES:
            if role in roles:
                for number in range(count):
                    self.start_worker(role, number)

    def end_workers(self, how: signal.Signals) -> None:
        for worker in self.workers.values():
            worker.send_signal(how)
        for (role, number), worker in self.workers.items():
            code = worker.wait(60)
            # A worker that is stopped before it handles signals ends by the signal.
            if how is signal.SIGTERM and code not in (0, -signal.SIGTERM):
                self.defects.append(self.last_words(role, number))
        self.workers.clear()

    def watch_workers(self) -> None:
        for (role, number), worker in list(self.workers.items()):
            if worker.poll() is not None:
                self.defects.append(self.last_words(role, number))
                self.start_worker(role, number)

    def last_words(self, role: str, number: int) -> str:
        name = f"{role}-{number}-{self.lives[role, number] - 1}"
        errors = (self.scratch / f"{name}.err").read_text()
        # The end of a traceback, without the statements that PostgreSQL quotes in its context.
        text = re.sub(r"(SQL (statement|expression) \").*?\"$", r"\1...", errors, flags=re.M | re.S)
        return f"{name} ended by itself:\n{text[-2000:]}"

    # The server

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection]:
        """Yield a connection that bypasses the proxy, as soon as one is possible."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                conn = psycopg.connect(self.server.dsn(), autocommit=True)
                break
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        with conn:
            yield conn

    def value(self, query: str) -> Any:
        """Return the value of a query; repeat it if the server crashes meanwhile."""
        while True:
            try:
                with self.connection() as conn:
                    row = conn.execute(query.encode()).fetchone()
            except psycopg.OperationalError:
                continue
            assert row is not None
            return row[0]

    def sent(self) -> int:
        """How many messages were published."""
        return int(self.value("select count(*) from sent"))

    def tried(self) -> int:
        """How many messages were published or rolled back; this number is cheap to read."""
        return int(self.value("select last_value from pgq.message_id"))

    def wait_for_work(self, messages: int) -> None:
        """Wait until about that many more messages were published."""
        target = self.tried() + messages
        wait_for(lambda: self.tried() >= target, "work")

    def wait_for_sessions_to_end(self) -> None:
        """Wait until no worker has a session, which may commit after its worker is killed."""
        query = f"select count(*) from pg_stat_activity where application_name ~ '{WORKERS}'"
        wait_for(lambda: not self.value(query), "the end of all sessions of workers")

    # The account

    def check(self, when: str) -> None:
        with self.connection() as conn:
            self.defects += [f"{when}: {line}" for line in check_invariants(conn)]

    def ledgers(self) -> Iterator[tuple[str, list[str]]]:
        for file in sorted(self.scratch.glob("*.ledger")):
            yield from self.entries(file)

    def entries(self, ledger: Path) -> Iterator[tuple[str, list[str]]]:
        # A worker that was killed may not have finished its last line.
        for line in ledger.read_text().split("\n")[:-1]:
            words = line.split(" ")
            count = 2 if words[0] == "done" else 1
            yield " ".join(words[:count]), words[count:]

    def account(self, report: Report, when: str) -> None:
        """Compare the stored state with what was sent and with what the server has confirmed."""
        self.wait_for_sessions_to_end()
        with self.connection() as conn:
            conn.execute(ACCOUNT)
            with conn.cursor().copy("copy noted from stdin") as copy:
                for what, values in self.ledgers():
                    if what != "error":
                        for uid in filter(None, values):
                            copy.write_row((what, int(uid)))
            for law, query in LAWS.items():
                wrong = conn.execute(query.encode()).fetchmany(5)
                report.check(f"{when}: {law}", "\n".join(map(str, wrong)))
            places = conn.execute(
                "select queue, place, count(*) from fate group by 1, 2 order by 1, 2"
            )
            for queue, place, count in places.fetchall():
                print(f"{queue:>10} {place:<6} {count:>10}")
            report.check(f"{when}: pgq.check()", "\n".join(check_invariants(conn)))

    def conclude(self, report: Report) -> None:
        """Compare everything, before and after the remaining messages are delivered."""
        self.account(report, "after the last crash")
        self.drain()
        self.account(report, "at the end")
        left = self.left()
        report.check("everything was delivered", f"{left} messages are left" if left else "")
        report.check("workers only ended when told to", "\n".join(self.defects))
        report.check("a slow client gets on", self.slow_client())

    def slow_client(self) -> str:
        """Return what is wrong with the consumer that gives up after 400 ms, if anything."""
        what = Counter(
            values[0] if words == "error" else "done"
            for file in self.scratch.glob(f"consume-{SLOW}-*.ledger")
            for words, values in self.entries(file)
        )
        late = what["57014"]
        return "" if what["done"] > late else f"{what['done']} batches, {late} claims given up"

    def drain(self) -> None:
        """Let new workers deliver the remaining messages."""
        self.start_workers("consume", "read")
        least = left = self.left()
        deadline = time.monotonic() + TIMEOUT
        while left and time.monotonic() < deadline and not self.defects:
            self.watch_workers()
            time.sleep(0.3)
            left = self.left()
            if left < least:
                least, deadline = left, time.monotonic() + TIMEOUT
        self.end_workers(signal.SIGTERM)

    def left(self) -> int:
        """How many messages are still to be delivered."""
        query = "select count(*) from pgq.message_state where state <> 'dead' and queue <> 'mine'"
        return int(self.value(query))


class Faults(Chaos):
    """Everything that can fail, one after the other."""

    def __init__(self, server: embedded.Server, proxy: Proxy, scratch: Path, seed: int) -> None:
        super().__init__(
            server, make_conninfo(server.dsn(tcp=True), port=proxy.port), scratch, seed
        )
        self.proxy = proxy
        self.before: dict[int, str] = {}
        self.faults: Counter[str] = Counter()
        self.crashes = 0

    def victim(self, conn: psycopg.Connection) -> int | None:
        """Return the process of a worker's session, preferably of an active one."""
        row = conn.execute(
            f"select pid from pg_stat_activity where application_name ~ '{WORKERS}'"
            " order by state = 'idle', random() limit 1"
        ).fetchone()
        return None if row is None else row[0]

    # Faults: each returns whether it has struck

    def terminate_backend(self) -> bool:
        with self.connection() as conn:
            pid = self.victim(conn)
            conn.execute("select pg_terminate_backend(%s)", [pid])
        return pid is not None

    def cancel_statement(self) -> bool:
        with self.connection() as conn:
            pid = self.victim(conn)
            conn.execute("select pg_cancel_backend(%s)", [pid])
        return pid is not None

    def kill_backend(self) -> bool:
        """Kill a session with -9, upon which PostgreSQL ends all others and recovers."""
        with self.connection() as conn:
            pid = self.victim(conn)
        if pid is None:
            return False
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        self.crashes += 1
        return True

    def restart_immediately(self) -> bool:
        self.server.stop("immediate")
        self.come_back()
        return True

    def kill_postmaster(self) -> bool:
        self.before = self.activity()
        self.server.kill()
        self.come_back()
        return True

    def activity(self) -> dict[int, str]:
        """What each session is doing, and for how long."""
        with self.connection() as conn:
            rows = conn.execute(
                "select pid, format('%s %s %s for %s: %s', backend_type, state, wait_event,"
                " clock_timestamp() - coalesce(query_start, backend_start), left(query, 300))"
                " from pg_stat_activity"
            ).fetchall()
        return dict(rows)

    def survivors(self) -> str:
        """The processes of the server that have outlived their postmaster."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (process / "cwd").readlink() == self.server.data:
                    title = (process / "cmdline").read_text().strip("\0 ")
                    state = (process / "stat").read_text().rsplit(")", 1)[1].split()[0]
                    place = (process / "wchan").read_text()
                    past = self.before.get(int(process.name))
                    found.append(f"{process.name} {state} {place} {title}; before: {past}")
        return "\n".join(found)

    def come_back(self) -> None:
        """Start the server after a crash; sometimes check its state before workers connect."""
        self.crashes += 1
        look = self.crashes % 10 == 0
        if look:
            self.proxy.close()
        try:
            self.server.start()
        except embedded.EmbeddedError as error:
            raise RuntimeError(f"still there:\n{self.survivors()}\n{error}") from error
        if look:
            self.check("after a crash")
            self.proxy.open = True

    def kill_worker(self) -> bool:
        role, number = self.chance.choice(list(self.workers))
        worker = self.workers[role, number]
        worker.kill()
        worker.wait()
        self.start_worker(role, number)
        return True

    def cut_connections(self) -> bool:
        links = self.proxy.some(self.chance, 3)
        for link in links:
            link.cut()
        return bool(links)

    def freeze_connections(self) -> bool:
        """Freeze some connections for longer or shorter than a lease; some stay frozen."""
        links = self.proxy.some(self.chance, 2)
        for link in links:
            link.flowing.clear()
            end = self.chance.choice([link.flowing.set, link.flowing.set, link.cut])
            timer = threading.Timer(self.chance.choice([0.3, 2, 6]), end)
            timer.daemon = True
            timer.start()
        return bool(links)

    def fill_lock_queue(self) -> bool:
        """Hold messages and locks in a transaction while another session waits for the table."""
        with self.connection() as conn, self.connection() as other, conn.transaction():
            conn.execute("select count(*) from pgq.message")
            conn.execute("select count(*) from pgq.claim('work', n => 300)")
            other.execute("set lock_timeout = '1s'")
            try:
                other.execute("begin; lock table pgq.message in access exclusive mode; rollback")
            except psycopg.errors.LockNotAvailable:
                return True
        return False

    def turn_era(self) -> bool:
        """Rotate the log, even if other sessions hold it up."""
        with self.connection() as conn:
            query = "select pg_sequence_last_value('pgq.era_number')"
            before = conn.execute(query).fetchone()
            for _ in range(40):
                conn.execute("call pgq.maintain()")
                if conn.execute(query).fetchone() != before:
                    return True
                time.sleep(0.05)
        return False

    def wrap_tokens(self) -> bool:
        """Let the next leases get the numbers of leases that are alive, or the last ones.

        A sequence that starts again meets numbers of leases that were made long before, never those
        of claims that are under way. So this waits for the end of these.
        """
        with self.connection() as conn:
            conn.execute("set lock_timeout = '2 s'")
            try:
                with conn.transaction():
                    conn.execute("lock table pgq.lease in share mode")
                    self.claim_same_token(conn)
                    row = conn.execute(
                        "select setval(case when number > 6291456 then 'pgq.checked_lease_id'"
                        " else 'pgq.lease_id' end::regclass, greatest(number, 2) - 1)"
                        " from (select lease_id & 8388607 as number from pgq.lease"
                        " where until < 'infinity' and claimed_at < now() - interval '1 s'"
                        " order by random() limit 1) l"
                    ).fetchone()
                    conn.execute("select setval('pgq.lease_id', 6291450) where random() < 0.3")
                    conn.execute(
                        "select setval('pgq.checked_lease_id', 8388600) where random() < 0.3"
                    )
            except psycopg.errors.LockNotAvailable:
                return False
        return row is not None

    def claim_same_token(self, conn: psycopg.Connection) -> None:
        """Claim with the number of a lease that is alive, and ending in the same second."""
        row = conn.execute(
            "select lease_id, left_of_it, setval('pgq.lease_id', number - 1) from ("
            " select lease_id, until - pgq.now() as left_of_it, lease_id & 8388607 as number"
            " from pgq.lease where until between pgq.now() + interval '300 ms' and pgq.now()"
            " + interval '1 min' and lease_id & 8388607 between 2 and 6291455"
            " order by random() limit 1) l"
        ).fetchone()
        if row is None:
            return
        with suppress(psycopg.errors.UniqueViolation), conn.transaction():
            conn.execute("select pgq.publish('mine', '1')")
            claimed = conn.execute(
                "select lease_id from pgq.claim('mine', lease => %s)", [row[1]]
            ).fetchone()
            if claimed is not None and claimed[0] == row[0]:
                self.defects.append(f"a claim got the token of a lease that is alive: {row[0]}")
            raise psycopg.Rollback

    def expire_backlog(self) -> bool:
        """Publish thousands of messages that expire before they are claimed."""
        first = -random.randrange(1, 1 << 60)
        with self.connection() as conn, conn.transaction():
            conn.execute(
                "insert into sent select u, 'news' from generate_series(%s, %s) u",
                [first, first + 2999],
            )
            conn.execute(
                "insert into pgq.message (topic, payload, expires_at) select 'news',"
                " jsonb_build_object('uid', u), pgq.now() + interval '100 ms'"
                " from generate_series(%s, %s) u",
                [first, first + 2999],
            )
        return True

    def replay_upgrade(self) -> bool:
        with self.connection() as conn:
            install_plain(conn)
        return True

    def strike(self, fault: Callable[[], bool]) -> None:
        """Let a fault strike; it may fail if another fault has cut its connection."""
        name = fault.__name__.replace("_", " ")
        try:
            if fault():
                self.faults[name] += 1
        except psycopg.OperationalError as error:
            if error.sqlstate not in (None, "57P01", "57P02", "57P03"):
                raise

    def run(self, crashes: int, messages: int) -> None:
        """Strike until there were that many crashes and messages, and every fault at least once."""
        gentle: list[Callable[[], bool]] = [
            self.terminate_backend,
            self.cancel_statement,
            self.kill_worker,
            self.cut_connections,
            self.freeze_connections,
            self.fill_lock_queue,
            self.turn_era,
            self.wrap_tokens,
            self.expire_backlog,
            self.replay_upgrade,
        ]
        hard: list[Callable[[], bool]] = [
            self.kill_backend,
            self.restart_immediately,
            self.kill_postmaster,
        ]
        started = time.monotonic()
        deadline = started + TIMEOUT + 10 * crashes + messages / 200
        self.start_workers("publish", "consume", "read", "hostile")
        turn = 0
        while True:
            time.sleep(self.chance.random())
            # In turns, so that every fault strikes; which others it meets is left to chance.
            self.strike(gentle[turn % len(gentle)])
            # As many crashes as messages ask for, each of them in the middle of work.
            while self.crashes * messages <= crashes * self.tried() and not self.defects:
                self.wait_for_work(200)
                self.strike(hard[self.crashes % len(hard)])
                self.watch_workers()
            self.watch_workers()
            turn += 1
            if turn % 40 == 0:
                self.tell(started)
            enough = self.crashes >= crashes and turn > len(gentle) and self.tried() >= messages
            if self.defects or (enough and self.sent() >= messages):
                break
            if time.monotonic() > deadline:
                self.defects.append(f"{self.crashes} crashes and {self.sent()} messages at the end")
                break
        self.tell(started)

    def tell(self, started: float) -> None:
        print(
            f"{time.monotonic() - started:6.0f} s {self.crashes:4} crashes"
            f" {self.sent():8} messages",
            flush=True,
        )


def run(report: Report, *, crashes: int, messages: int, seed: int = 0) -> None:
    """Run with at least that many server crashes and messages."""
    seed = seed or random.randrange(1, 1_000_000)
    print(f"seed {seed}")
    with (
        TemporaryDirectory() as scratch,
        embedded.start(extension_dir=ROOT, settings=SETTINGS) as server,
        Proxy(server.port) as proxy,
    ):
        with psycopg.connect(server.dsn(), autocommit=True) as conn:
            row = conn.execute("show fsync").fetchone()
            assert row == ("on",)
            install_plain(conn)
            conn.execute(TABLES)
        chaos = Faults(server, proxy, Path(scratch), seed)
        with chaos:
            chaos.run(crashes, messages)
            chaos.end_workers(signal.SIGKILL)
            chaos.kill_postmaster()
            chaos.conclude(report)
        print_table(chaos)


def print_table(chaos: Faults) -> None:
    errors: Counter[str] = Counter()
    for what, values in chaos.ledgers():
        if what == "error":
            errors[values[0]] += 1
    print(f"\n{'fault':<34} {'count':>8}")
    for name, count in sorted(chaos.faults.items()):
        print(f"{name:<34} {count:>8}")
    print(f"{'server crashes':<34} {chaos.crashes:>8}")
    print(f"{'eras':<34} {chaos.value('select last_value from pgq.era_number'):>8}")
    print(f"{'messages':<34} {chaos.value('select count(*) from sent'):>8}")
    print(f"{'acknowledgements':<34} {chaos.value('select count(*) from done'):>8}")
    print(f"{'named batches':<34} {chaos.value('select count(*) from batch'):>8}")
    print(f"\n{'what workers saw':<34} {'count':>8}")
    for code, count in sorted(errors.items()):
        print(f"{'lost connection' if code == 'None' else code:<34} {count:>8}")
