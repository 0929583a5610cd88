"""Random arguments: a result or an error of the caller, never an internal error or a crash."""

from __future__ import annotations

import json
import os
import random
import uuid
from dataclasses import dataclass

import psycopg
import pytest
from conftest import Connect
from psycopg import sql

from harness.install import check_invariants

CALLS = int(1500 * float(os.environ.get("PGQ_STRESS", "1")))

TEXTS = [
    "",
    " ",
    "orders",
    "audit",
    "orders.#",
    "*",
    "#",
    "a.b.c",
    ".",
    "a..b",
    "type",
    "batch",
    "nowhere",
    "Ünïcödé",
    "\U0001f4a9",
    "'; drop schema pgq; --",
    '"',
    "\\",
    "%s",
    "{",
    "x" * 300,
    "x" * 100_000,
    "\t\n",
    "\x01",
    "(",
    "[a-",
    "a{1,9999}",
    "(a*)*b",
    "$now",
    "msg",
    "null",
    "queue",
    "archive",
    "all",
    "failures",
    "release",
    "block",
    "discard",
    "dead_letter",
    "1.5",
]
DOCUMENTS = [
    "{}",
    "[]",
    "null",
    "true",
    "0",
    '""',
    '{"type": "paid"}',
    '{"type": null}',
    "[[[]]]",
    '{"type": {"$in": []}}',
    '{"type": {"$in": ["paid", 1, null]}}',
    '{"type": {"$gt": 1e300}}',
    '{"$and": []}',
    '{"$or": [{}]}',
    '{"$not": {"type": 1}}',
    '{"$nor": [{"a": 1}]}',
    '{"": 1}',
    '{"type": {"$regex": "("}}',
    '{"type": {"$regex": "^a+$"}}',
    '{"type": {"$like": "%a\\\\"}}',
    '{"payload.a.b": 1}',
    '{"payload": {"a": [1, 2]}}',
    '{"msg.id": {"$gt": 1}}',
    '{"$now": 1}',
    '{"msg.published_at": {"$lt": {"$now": "-1 s"}}}',
    '{"msg.attempt": {"$ne": 1}}',
    '{"a": -0.0}',
    '{"a": 1e-400}',
    '{"a": 99999999999999999999999999999999999999}',
    '{"type": {"$exists": true}}',
    '{"type": [{"prefix": "a"}]}',
    '{"a": {"b": {"c": {}}}}',
    '{"type": {"$like": "%"}, "payload.x": {"$elemMatch": {"a": 1}}}',
    '{"a.b.c.d": "x"}',
    json.dumps({"a": "x" * 10_000}),
    json.dumps({"$or": [{"type": "a"}] * 200}),
]
INTEGERS = [0, 1, -1, 2, 5, 10, 100, 1000, 1001, 128, 1_000_000, 2**31 - 1, -(2**31)]
LONG_INTEGERS = [*INTEGERS, 2**53, 2**62, 2**63 - 1, -(2**63), 2**49, 2**50]
SPANS = [
    "0",
    "1 s",
    "-1 s",
    "1 ms",
    "1 month",
    "-1 month 31 days",
    "1 year",
    "178000000 years",
    "-178000000 years",
    "292000 years",
    "300000 years",
    "2562047788 hours",
    "1 us",
    "1 day",
]
MOMENTS = ["now", "infinity", "-infinity", "4713-01-01 BC", "294276-12-31", "epoch", "2000-01-01"]

# XX is a defect of pgq or PostgreSQL, P0 an error without a code, 42 a wrong statement, and so on.
# A caller must not get these, except from a deliberate error with a hint.
DEFECTS = ("XX", "P0", "42", "58", "F0", "0B", "21", "23", "24", "25", "2F", "38", "39", "08", "57")
MEANT = {"P0002", "42704"}


@dataclass(frozen=True)
class Routine:
    """A function or procedure and the types of its parameters."""

    name: str
    kind: str
    parameters: tuple[tuple[str, str], ...]
    defaults: int
    variadic: bool


def routines(db: psycopg.Connection) -> list[Routine]:
    rows = db.execute(
        "select p.proname, p.prokind::text, coalesce(array_agg(u.name order by u.i)"
        " filter (where u.i is not null), '{}'), coalesce(array_agg(u.type::regtype::text"
        " order by u.i) filter (where u.i is not null), '{}'), p.pronargdefaults,"
        " p.provariadic <> 0 from pg_proc p"
        " left join lateral unnest(p.proargnames, p.proargtypes::oid[])"
        " with ordinality u (name, type, i) on u.i <= p.pronargs"
        " where p.pronamespace = 'pgq'::regnamespace and p.proname !~ '^_'"
        " and p.prorettype <> 'trigger'::regtype group by p.oid order by p.proname, p.oid"
    ).fetchall()
    return [
        Routine(name, kind, tuple(zip(names, types, strict=True)), defaults, variadic)
        for name, kind, names, types, defaults, variadic in rows
    ]


class Fuzzer:
    """Random arguments, some of them with meaning in the database."""

    def __init__(self, db: psycopg.Connection, seed: int) -> None:
        self.db = db
        self.chance = random.Random(seed)
        self.names = ["orders", "audit"]

    def prepare(self) -> None:
        """Restore what earlier calls may have changed."""
        self.db.execute("select set_config('statement_timeout', '0', false)")
        for name in ("orders", "audit"):
            self.db.execute(
                "select pgq.drop_queue(name, true) from pgq.queue where name = %s", [name]
            )
            self.db.execute(
                "select pgq.create_queue(%s, lane_keys => '{type}', max_attempts => 2)", [name]
            )
        self.db.execute(
            'select pgq.publish(\'orders\', \'{"a": {"b": 1}}\', \'{"type": "paid"}\','
            " group_key => case when i > 5 then 'g' end) from generate_series(1, 8) i"
        )
        self.db.execute("select count(*) from pgq.claim('orders', n => 2, lease => '1 day')")
        self.db.execute("select set_config('statement_timeout', '20s', false)")

    def known(self, query: str) -> int:
        row = self.db.execute(query.encode()).fetchone()
        return 0 if row is None or row[0] is None else int(row[0])

    def value(self, name: str, type: str) -> str | None:
        """Return a value of a type as text; null now and then."""
        choose = self.chance.choice
        if self.chance.random() < 0.08:
            return None
        if type.endswith("[]"):
            return self.array(name, type.removesuffix("[]"))
        if type == "bigint" and self.chance.random() < 0.6:
            table = "lease" if name == "lease_id" else "message"
            column = "lease_id" if table == "lease" else "id"
            return str(self.known(f"select {column} from pgq.{table} order by random() limit 1"))
        if (
            type == "text"
            and name in ("name", "topic", "subscriber")
            and self.chance.random() < 0.6
        ):
            return choose(self.names)
        return {
            "text": lambda: choose(TEXTS),
            "name": lambda: choose(TEXTS),
            "character varying": lambda: choose(TEXTS),
            "uuid": lambda: str(uuid.UUID(int=self.chance.getrandbits(128))),
            "json": lambda: choose(DOCUMENTS),
            "jsonb": lambda: choose(DOCUMENTS),
            "integer": lambda: str(choose(INTEGERS)),
            "bigint": lambda: str(choose(LONG_INTEGERS)),
            "boolean": lambda: choose(["true", "false"]),
            "interval": lambda: choose(SPANS),
            "timestamp with time zone": lambda: choose(MOMENTS),
        }[type]()

    def array(self, name: str, type: str) -> str:
        if self.chance.random() < 0.1:
            return self.chance.choice(["{}", "{{}}", "{NULL}", "{{NULL,NULL},{NULL,NULL}}"])
        size = self.chance.choice([0, 1, 2, 3, 5, 50])
        elements = ",".join(quoted(self.value("element", type)) for _ in range(size))
        return "{" + elements + "}"

    def call(self, routine: Routine) -> tuple[sql.Composed, list[str | None]]:
        """Return a call by name, some parameters with a default left out."""
        required = len(routine.parameters) - routine.defaults
        parts, values = [], []
        for number, (name, type) in enumerate(routine.parameters):
            if type == "pgq.caller":
                continue  # no other value than the default gets as far as the function
            last = routine.variadic and number == len(routine.parameters) - 1
            if number >= required and self.chance.random() < 0.5:
                continue
            part = sql.SQL("{} => %s::{}").format(sql.Identifier(name), sql.SQL(type))
            parts.append(sql.SQL("variadic {}").format(part) if last else part)
            values.append(self.value(name, type))
        verb = sql.SQL("call " if routine.kind == "p" else "select * from ")
        called = sql.Identifier("pgq", routine.name)
        return verb + sql.SQL("{}({})").format(called, sql.SQL(", ").join(parts)), values

    def insert(self) -> tuple[sql.Composed, list[str | None]]:
        """Return an INSERT into the log with some of its columns."""
        moment = "timestamp with time zone"
        columns = dict.fromkeys(("topic", "group_key", "dedup_key", "correlation_id"), "text")
        columns |= dict.fromkeys(("deliver_at", "expires_at", "published_at"), moment)
        columns |= {"payload": "jsonb", "headers": "jsonb", "priority": "integer"}
        chosen = [name for name in columns if self.chance.random() < 0.6]
        chosen = list(dict.fromkeys(["topic", "payload", *chosen]))
        values = [self.value(name, columns[name]) for name in chosen]
        statement = sql.SQL("insert into pgq.message ({}) values ({})").format(
            sql.SQL(", ").join(map(sql.Identifier, chosen)),
            sql.SQL(", ").join(sql.SQL("%s::" + columns[c]) for c in chosen),
        )
        return statement, values


def quoted(value: str | None) -> str:
    if value is None:
        return "NULL"
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def outcome(
    db: psycopg.Connection, statement: sql.Composed, values: list[str | None]
) -> str | None:
    """Run a statement; return the code of its error, which may be one of the caller's only."""
    try:
        db.execute(statement, values)
    except psycopg.Error as error:
        code = error.sqlstate or ""
        meant = code in MEANT and error.diag.message_hint is not None
        if statement.as_string().startswith("insert"):
            meant = meant or code.startswith("23")  # the constraints of the log
        if not code or (code.startswith(DEFECTS) and not meant):
            shown = [None if value is None else value[:200] for value in values]
            pytest.fail(f"{code} {error}\n{statement.as_string()}\n{shown}")
        return code
    return None


@pytest.mark.parametrize("seed", range(4))
def test_no_argument_leads_to_an_internal_error(db: psycopg.Connection, seed: int) -> None:
    db.execute("set client_min_messages = error")
    fuzzer = Fuzzer(db, seed)
    known = routines(db)
    assert len(known) > 40
    seen: set[str | None] = set()
    for number in range(CALLS):
        if number % 100 == 0:
            fuzzer.prepare()
            assert check_invariants(db) == []
        if fuzzer.chance.random() < 0.1:
            statement, values = fuzzer.insert()
        else:
            statement, values = fuzzer.call(fuzzer.chance.choice(known))
        seen.add(outcome(db, statement, values))
    # Some calls must fail, and some must succeed.
    assert {None, "22023", "QU001", "QU003", "QU004"} <= seen


# A secret: everything about the other queue contains this text.
SECRET = "s3cr3t"
OTHERS = """
select pgq.create_queue('s3cr3t', lane_keys => '{type}', max_attempts => 1, retention => '2 days');
select pgq.subscribe('s3cr3t', 's3cr3t.#', '{"type": {"$ne": "s3cr3t none"}}');
select pgq.subscribe('s3cr3t', 'orders');
select pgq.publish('s3cr3t.' || i, '{"a": "s3cr3t"}', '{"type": "s3cr3t"}', sender => 's3cr3t',
                   recipient => 's3cr3t', reply_to => 'orders', correlation_id => 'batch',
                   group_key => case when i > 6 then 's3cr3t' end, dedup_key => 'a.b.c' || i)
from generate_series(1, 12) i;
select pgq.bury(max(lease_id), error => 's3cr3t', details => '{"s3cr3t": 1}')
from pgq.claim('s3cr3t', n => 2);
select pgq.claim('s3cr3t', '{"type": "s3cr3t"}', n => 2, lease => '1 day');
select pgq.claim('s3cr3t', n => 1, lease => '1 day', key => 'batch');
select pgq.stream_begin('s3cr3t', 'batch', 'all');
select pgq.seen('s3cr3t', 1), pgq.seen('batch', 1);
"""
STATE = """
select s.* from pgq.message_state s join pgq.message m using (id)
where s.queue = 's3cr3t' and m.topic <> 'orders' order by id
"""


def raw(answer: psycopg.Cursor) -> str:
    """Return the rows as text from the server: Python cannot represent every timestamp."""
    found = answer.pgresult
    assert found is not None
    cells = [found.get_value(i, k) for i in range(found.ntuples) for k in range(found.nfields)]
    return str(cells)


def answered(
    db: psycopg.Connection, statement: sql.Composed, values: list[str | None]
) -> tuple[str, str]:
    """Run a statement; return its SQLSTATE and all its output."""
    try:
        return "00000", raw(db.execute(statement, values))
    except psycopg.Error as error:
        diag = error.diag
        text = f"{error} {diag.message_detail} {diag.message_hint} {diag.context}"
        return error.sqlstate or "XX", text


def test_no_argument_reveals_data_of_other_roles(db: psycopg.Connection, connect: Connect) -> None:
    role = f"pgq_fuzz_{uuid.uuid4().hex}"
    db.execute(f"create role {role} login password 'fuzz'".encode())
    guest = connect(user=role, password="fuzz")
    heard: list[str] = []
    guest.add_notice_handler(lambda diag: heard.append(str(diag.message_primary)))
    try:
        db.execute(OTHERS)
        fuzzer = Fuzzer(db, 0)
        fuzzer.names = ["orders"]
        known = routines(db)
        before = db.execute(STATE).fetchall()
        assert {row[2] for row in before} >= {"ready", "leased", "dead", "waiting"}
        seen: set[str] = set()
        for number in range(CALLS):
            if number % 100 == 0:
                fuzzer.prepare()
                for right in ("publish", "consume", "admin"):
                    db.execute("select pgq.grant_queue('orders', %s, %s)", [role, right])
            if fuzzer.chance.random() < 0.1:
                statement, values = fuzzer.insert()
            else:
                statement, values = fuzzer.call(fuzzer.chance.choice(known))
            code, text = answered(guest, statement, values)
            seen.add(code)
            assert not code.startswith("XX"), text
            assert SECRET not in text + "".join(heard), f"{statement.as_string()} {values}: {text}"
        for view in db.execute("select viewname from pg_views where schemaname = 'pgq'").fetchall():
            try:
                rows = guest.execute(sql.SQL("select * from pgq.{}").format(sql.Identifier(*view)))
            except psycopg.errors.InsufficientPrivilege:
                continue
            assert SECRET not in raw(rows), view
        assert db.execute(STATE).fetchall() == before
        assert {"00000", "42501", "QU003"} <= seen
    finally:
        guest.close()
        db.execute("select pgq.drop_queue(name, true) from pgq.queue")
        db.execute("call pgq.maintain()")
        db.execute(f"drop owned by {role}; drop role {role}".encode())
