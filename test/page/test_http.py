"""Requests to the page's server without a browser: access rules and refused requests."""

from __future__ import annotations

import http.client
import json
import socket
from contextlib import suppress
from typing import Any, LiteralString
from urllib.parse import quote
from urllib.request import urlopen

import psycopg
import pytest

from harness.page import BEARER, TOKEN, Serve, ask, run
from pgq.cli import _sql as cli_sql
from pgq.dashboard import Dashboard, _sql
from pgq.dashboard.data import Session
from pgq.dashboard.feed import MOST_WATCHERS

Conn = psycopg.Connection[Any]


def die(db: Conn, queue: str, n: int = 1) -> list[int]:
    """Make dead letters; return their messages."""
    db.execute("select pgq.create_queue(%s)", [queue])
    ids = []
    for number in range(n):
        db.execute("select pgq.publish(%s, to_jsonb(%s::int))", [queue, number])
        row = db.execute("select id, lease_id from pgq.claim(%s)", [queue]).fetchone()
        assert row is not None
        db.execute("select pgq.bury(%s, error => 'no')", [row[1]])
        ids.append(row[0])
    return ids


def dead(db: Conn) -> int:
    row = db.execute("select count(*) from pgq.dead_letter").fetchone()
    assert row is not None
    return int(row[0])


def first_news(page: Dashboard) -> Any:
    """Return the first event that a browser gets."""
    with urlopen(f"{page.url}api/events", timeout=20) as stream:
        while not (line := stream.readline()).startswith(b'data: {"at"'):
            assert line
    return json.loads(line.removeprefix(b"data: "))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/page.js", "text/javascript; charset=utf-8"),
        ("/page.css", "text/css; charset=utf-8"),
        ("/icon.svg", "image/svg+xml"),
        ("/api/about", "application/json"),
        ("/no/such/page", "application/json"),
    ],
)
def test_every_answer_has_the_headers_that_keep_a_page_safe(
    served: Dashboard, path: str, kind: str
) -> None:
    headers = ask(served, "GET", path).headers
    policy = headers["Content-Security-Policy"].split("; ")
    assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} <= set(policy)
    assert not any("unsafe" in part or "http" in part or "*" in part for part in policy)
    assert "require-trusted-types-for 'script'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Content-Type"] == kind
    assert "Access-Control-Allow-Origin" not in headers
    assert headers["Server"] == "pgq"
    cached = headers["Cache-Control"]
    assert cached == ("no-cache" if kind.startswith(("text", "image")) else "no-store")


def test_a_file_that_the_browser_has_is_not_sent_again(served: Dashboard) -> None:
    tag = ask(served, "GET", "/page.js").headers["ETag"]
    again = ask(served, "GET", "/page.js", headers={"If-None-Match": tag})
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize("path", ["/../data.py", "/static/page.js", "//etc/passwd", "/%2e%2e/x"])
def test_nothing_but_the_files_of_the_page_can_be_had(served: Dashboard, path: str) -> None:
    assert ask(served, "GET", path).status == 404


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:{port}", 200),
        ("localhost:{port}", 200),
        ("localhost:9000", 200),  # a tunnel
        ("[::1]:{port}", 200),
        ("queues.example.com", 200),
        ("evil.example.com:{port}", 421),
        ("127.0.0.1.evil.example.com", 421),
        ("169.254.169.254", 421),
        ("", 421),
        (None, 400),
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/about"])
def test_a_foreign_name_that_leads_here_is_refused(
    served: Dashboard, host: str | None, status: int, path: str
) -> None:
    given = None if host is None else host.format(port=served.port)
    assert ask(served, "GET", path, headers={"Host": given}).status == status


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example.com"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_another_page_can_neither_look_nor_act(
    serve: Serve, db: Conn, headers: dict[str, str | None]
) -> None:
    (id,) = die(db, "orders")
    page = serve(writes=True)
    assert ask(page, "GET", "/api/letters", headers=headers).status == 403
    body = {"queue": "orders", "ids": [str(id)]}
    assert ask(page, "POST", "/api/act/discard", body, headers | BEARER).status == 403
    assert dead(db) == 1


def test_what_a_form_can_send_is_refused(serve: Serve, db: Conn) -> None:
    (id,) = die(db, "orders")
    page = serve(writes=True)
    body = json.dumps({"queue": "orders", "ids": [str(id)]}).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None):
        answer = ask(page, "POST", "/api/act/discard", body, BEARER | {"Content-Type": kind})
        assert answer.status == 415
    assert dead(db) == 1


@pytest.mark.parametrize("what", ["replay", "discard"])
def test_acting_needs_writes_and_the_token(serve: Serve, db: Conn, what: str) -> None:
    (id,) = die(db, "orders")
    body = {"queue": "orders", "ids": [str(id)]}
    readonly = ask(serve(), "POST", f"/api/act/{what}", body, BEARER)
    assert readonly.status == 403
    assert "--allow-writes" in readonly.json["error"]["hint"]

    page = serve(writes=True)
    for given in (None, "Bearer", "Bearer wrong", f"Basic {TOKEN}", "Bearer \xe4", TOKEN):
        answer = ask(page, "POST", f"/api/act/{what}", body, {"Authorization": given})
        assert answer.status == 401, given
    cookie = ask(page, "POST", "/api/session", {}, BEARER).headers["Set-Cookie"].split(";")[0]
    assert ask(page, "POST", f"/api/act/{what}", body, {"Cookie": cookie}).status == 401
    assert dead(db) == 1

    done = ask(page, "POST", f"/api/act/{what}", body, BEARER)
    assert (done.status, done.json) == (200, {"count": 1, "notices": []})
    assert dead(db) == 0
    row = db.execute("select ready from pgq.queue_stats").fetchone()
    assert row == (1 if what == "replay" else 0,)


def test_all_dead_letters_move_only_on_explicit_request(serve: Serve, db: Conn) -> None:
    die(db, "orders", 3)
    page = serve(writes=True)
    bodies: list[dict[str, Any]] = [{}, {"ids": []}, {"ids": None}, {"all": "yes"}]
    for body in (*bodies, {"ids": "1"}, {"ids": ["x"]}):
        answer = ask(page, "POST", "/api/act/discard", {"queue": "orders"} | body, BEARER)
        assert answer.status == 400, body
    assert dead(db) == 3
    every = {"queue": "orders", "all": True}
    for dry_run, left in ((True, 3), (False, 0)):
        answer = ask(page, "POST", "/api/act/discard", every | {"dry_run": dry_run}, BEARER)
        assert (answer.json["count"], dead(db)) == (3, left)


def test_dead_letters_are_replayed_with_the_options_of_pgq_replay(serve: Serve, db: Conn) -> None:
    die(db, "orders", 3)
    db.execute("select pgq.create_queue('slow')")
    page = serve(writes=True)
    body: dict[str, Any] = {"queue": "orders", "all": True, "to": "slow"}
    body |= {"per_second": "2", "patch": '{"a": 1.00000000000000000001}'}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"per_second": "0"}, "per_second must be a whole number from 1 to 2147483647, not '0'"),
        ({"per_second": "many"}, "per_second must be a whole number"),
        ({"per_second": 2**31}, "per_second must be a whole number"),
        ({"per_second": True}, "per_second must be a whole number"),
        ({"per_second": "9" * 5000}, "per_second must be a whole number"),
        ({"patch": "{a: 1}"}, 'patch must be JSON: {"currency": "EUR"}'),
        ({"patch": "NaN"}, "patch must be JSON"),
        ({"to": "fast"}, 'queue "fast" does not exist'),
    ]
    for wrong, sentence in cases:
        for dry_run in (True, False):
            answer = ask(
                page, "POST", "/api/act/replay", body | wrong | {"dry_run": dry_run}, BEARER
            )
            assert 400 <= answer.status < 500, wrong
            assert answer.json["error"]["message"].startswith(sentence)
    assert dead(db) == 3
    counted = ask(page, "POST", "/api/act/replay", body | {"dry_run": True}, BEARER)
    assert (counted.json["count"], dead(db)) == (3, 3)
    assert ask(page, "POST", "/api/act/replay", body, BEARER).json["count"] == 3
    assert dead(db) == 0
    found = db.execute(
        "select s, m.payload::text from unnest('{ready,scheduled}'::text[]) s,"
        " pgq.messages('slow', s) m order by 1, m.id"
    ).fetchall()
    # Two at once, one a second later; a number of the patch keeps its digits.
    states, payloads = zip(*found, strict=True)
    assert states == ("ready", "ready", "scheduled")
    assert set(payloads) == {body["patch"]}


def test_messages_are_rescheduled_to_a_time_and_some_of_them_moved(serve: Serve, db: Conn) -> None:
    for name in ("orders", "slow"):
        db.execute("select pgq.create_queue(%s)", [name])
    db.execute("select pgq.publish_batch('orders', '{1,2,3}')")
    page = serve(writes=True)
    at = {"queue": "orders", "all": True, "at": "2100-01-31T06:00+01:00"}
    move = {"queue": "orders", "all": True, "to": "slow", "n": "2"}
    for verb, body, sentence in [
        ("reschedule", at | {"at": "tomorrow"}, "at must be a time with a time zone"),
        ("reschedule", at | {"at": "2100-01-31T06:00"}, "at must be a time with a time zone"),
        ("reschedule", at | {"delay": "1 h"}, "the new time must be either at or delay"),
        ("move", move | {"n": "-1"}, "n must be a whole number from 1 to 2147483647, not '-1'"),
    ]:
        for dry_run in (True, False):
            answer = ask(page, "POST", f"/api/act/{verb}", body | {"dry_run": dry_run}, BEARER)
            assert 400 <= answer.status < 500, body
            assert answer.json["error"]["message"].startswith(sentence)
    ready = "select queue, ready from pgq.queue_stats order by 1"
    assert db.execute(ready).fetchall() == [("orders", 3), ("slow", 0)]
    for dry_run, left in (
        (True, [("orders", 3), ("slow", 0)]),
        (False, [("orders", 1), ("slow", 2)]),
    ):
        answer = ask(page, "POST", "/api/act/move", move | {"dry_run": dry_run}, BEARER)
        assert answer.json["count"] == 2
        assert db.execute(ready).fetchall() == left
    assert ask(page, "POST", "/api/act/reschedule", at, BEARER).json["count"] == 1
    due = db.execute(
        "select lease_until = '2100-01-31 05:00+00' from pgq.messages('orders', 'scheduled')"
    ).fetchall()
    assert due == [(True,)]


def test_a_private_page_shows_nothing_without_the_token(serve: Serve, db: Conn) -> None:
    die(db, "orders")
    page = serve(private=True)
    assert ask(page, "GET", "/").status == 200
    about = ask(page, "GET", "/api/about").json
    assert (about["private"], about["reader"]) == (True, False)
    assert "database" not in about
    for path in ("/api/letters", "/api/events", "/api/queue?name=orders", "/api/message?id=1"):
        answer = ask(page, "GET", path)
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert ask(page, "POST", "/api/filter", {"queue": "orders", "filter": "{}"}).status == 401
    assert ask(page, "POST", "/api/session", {}, {"Authorization": "Bearer no"}).status == 401

    cookie = ask(page, "POST", "/api/session", {}, BEARER).headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; ")[1:])
    assert TOKEN not in cookie
    mine: dict[str, str | None] = {"Cookie": cookie.split(";")[0]}
    assert ask(page, "GET", "/api/letters", headers=mine).status == 200
    assert ask(page, "GET", "/api/letters", headers=BEARER).status == 200
    for other in ("pgq_1=wrong", "pgq_1=\xe4", "pgq_1", "=", ";;"):
        assert ask(page, "GET", "/api/letters", headers={"Cookie": other}).status == 401


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"x" * 200_000, {}, 413),
        (b"{}", {"Content-Length": "999999999999999"}, 413),
        (b"{}", {"Content-Length": None}, 411),
        (b"{}", {"Content-Length": "-1"}, 400),
        (b"{}", {"Content-Length": "\xb2"}, 400),
        (b"2\r\n{}\r\n0\r\n\r\n", {"Content-Length": None, "Transfer-Encoding": "chunked"}, 411),
        (b"not json", {}, 400),
        (b"[1]", {}, 400),
        (b"[" * 100_000, {}, 400),
        (b"{}", {}, 400),
        (b'{"queue": 1, "filter": "{}"}', {}, 400),
        (b'{"queue": "a\\u0000b", "filter": "{}"}', {}, 400),
        (b'{"queue": "\\ud800", "filter": "{}"}', {}, 400),
    ],
)
def test_a_bad_request_is_refused_before_the_database_hears_of_it(
    served: Dashboard, body: bytes, headers: dict[str, str | None], status: int
) -> None:
    try:
        answer = ask(served, "POST", "/api/filter", body, headers)
    except (BrokenPipeError, ConnectionResetError):
        assert status == 413 or headers  # it has hung up on us, which is right
    else:
        assert answer.status == status
        assert answer.body
    assert ask(served, "GET", "/api/about").status == 200


@pytest.mark.parametrize("id", ["", "0", "-1", "1.5", "9223372036854775808", "x", "1%00", "\u0661"])
def test_a_message_is_named_by_a_number(served: Dashboard, id: str) -> None:
    path = f"/api/message?id={quote(id, safe='%')}"
    assert ask(served, "GET", path).status == 400


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH"])
def test_other_methods_are_not_there(served: Dashboard, method: str) -> None:
    answer = ask(served, method, "/api/letters")
    assert answer.status == 405
    assert answer.headers["Content-Security-Policy"]


def test_what_is_no_http_is_answered_and_forgotten(served: Dashboard) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as line:
        line.sendall(b"<script>alert(1)</script>\r\n\r\n")
        answer = line.recv(4096)
    assert answer
    assert b"script" not in answer
    assert ask(served, "GET", "/api/about").status == 200


def test_what_comes_with_a_question_does_not_become_another_one(served: Dashboard) -> None:
    inner = b"GET /api/letters HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as line:
        length = str(len(inner)).encode()
        head = (
            b"GET /api/about HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: "
        )
        head += length
        line.sendall(head + b"\r\n\r\n" + inner)
        answer = b""
        with suppress(ConnectionResetError):
            while part := line.recv(65536):
                answer += part
    assert answer.count(b"HTTP/1.1 200 OK") == 1


def test_a_moment_that_never_comes_is_none(serve: Serve, db: Conn) -> None:
    db.execute("select pgq.create_queue('orders')")
    db.execute(
        "insert into pgq.message (topic, payload, expires_at) values ('orders', '1', 'infinity')"
    )
    answer = ask(serve(), "GET", "/api/message?id=1")
    assert answer.json["message"]["expires"] is None
    assert b"Infinity" not in answer.body


def test_an_error_of_the_database_is_shown(serve: Serve, db: Conn) -> None:
    page = serve()
    missing = ask(page, "GET", "/api/queue?name=nowhere")
    assert missing.status == 404
    assert missing.json["error"]["sqlstate"] == "QU001"
    db.execute("select pgq.create_queue('orders')")
    wrong = ask(page, "POST", "/api/filter", {"queue": "orders", "filter": '{"a": {"$x": 1}}'})
    assert wrong.status == 422
    assert wrong.json["error"]["sqlstate"] == "QU004"
    assert wrong.json["error"]["detail"] == "At $.a.$x."
    no_json = ask(page, "POST", "/api/filter", {"queue": "orders", "filter": '{"a": }'})
    assert no_json.status == 422
    assert "JSON data, line 1" in no_json.json["error"]["context"]


def test_the_pages_of_all_browsers_cost_one_poller(serve: Serve, db: Conn) -> None:
    page = serve()
    streams = []
    for _ in range(6):
        stream = http.client.HTTPConnection("127.0.0.1", page.port, timeout=20)
        stream.request("GET", "/api/events")
        answer = stream.getresponse()
        assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        lines = [answer.readline() for _ in range(6)]
        assert lines[2] == b"event: past\n"
        assert json.loads(lines[5].removeprefix(b"data: "))["outage"] is None
        streams.append((stream, answer))
    row = db.execute(
        "select count(*) from pg_stat_activity"
        " where application_name = 'pgq dashboard' and datname = current_database()"
    ).fetchone()
    # The connection of the poller, and the one that answered about the server.
    assert row is not None
    assert row[0] <= 2
    for stream, answer in streams:
        answer.close()
        stream.close()


def test_too_many_open_pages_are_refused(serve: Serve) -> None:
    page = serve()
    page.app.feed._watchers = MOST_WATCHERS
    assert ask(page, "GET", "/api/events").status == 503


def test_a_page_of_dead_letters_follows_the_other(serve: Serve, db: Conn) -> None:
    ids = die(db, "orders", 60) + die(db, "mails", 45)
    page = serve()
    seen: list[str] = []
    path = "/api/letters"
    while True:
        found = ask(page, "GET", path).json
        seen += [row["id"] for row in found["letters"]]
        if not found["more"]:
            break
        last = found["letters"][-1]
        before = last["before"].replace("+", "%2B").replace(" ", "%20")
        path = f"/api/letters?before={before}&number={last['number']}"
    assert seen == [str(id) for id in reversed(ids)]
    assert ask(page, "GET", "/api/letters?before=x&number=1").status == 422


def rows_read(db: Conn, query: LiteralString, values: dict[str, Any]) -> int:
    """How many rows of dead letters a statement reads."""
    counters = (
        "select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables"
        " where relid = 'pgq.letter'::regclass"
    )
    with db.transaction(), psycopg.ClientCursor(db) as cursor:
        before = cursor.execute(counters).fetchone()
        assert cursor.execute(query, values).fetchall()
        after = cursor.execute(counters).fetchone()
    assert before is not None
    assert after is not None
    return int(after[0]) - int(before[0])


@pytest.mark.parametrize("analyzed", [True, False])
@pytest.mark.parametrize("at_once", [True, False])
def test_dead_letters_are_listed_at_the_same_cost_however_many_there_are(
    db: Conn, analyzed: bool, at_once: bool
) -> None:
    values: dict[str, Any] = {"n": 50, "chars": 400, "queue": None, "before": None, "number": None}
    values |= {"filter": None, "cause": None, "text": None}
    later = values | {"before": "2030-01-01 00:00+00", "number": 600}
    db.execute("select pgq.create_queue('orders')")
    read = []
    # A table of a few pages may be read whole.
    for first, last in ((1, 5000), (5001, 20000)):
        # All of one transaction end at the same time.
        db.execute(
            "insert into pgq.letter (queue_id, message_id, reason, attempts, failures, failed_at,"
            " topic, priority, headers, payload, published_at)"
            " select q.queue_id, n, 'timeout', 1, '[]', timestamptz '2030-01-01 00:00+00'"
            " + case when %(at_once)s then 0 else n - 500 end * interval '1 s',"
            " 'orders', 0, '{}', '1', now()"
            " from pgq.queue q, generate_series(%(first)s::int, %(last)s) n",
            {"at_once": at_once, "first": first, "last": last},
        )
        if analyzed:
            db.execute("analyze pgq.letter")
        read.append(
            [
                rows_read(db, _sql.LETTERS, values),
                rows_read(db, _sql.LETTERS, later),
                rows_read(db, _sql.LETTERS, values | {"filter": '{"msg.topic": "orders"}'}),
                rows_read(db, _sql.CAUSES, values),
                rows_read(db, cli_sql.DEAD_LETTERS, values),
            ]
        )
    # Each row is read twice: its id, then the row.
    assert read == [[100] * 5, [100] * 5]


def test_what_the_page_reads_with_cannot_write(dsn: str) -> None:
    async def check() -> None:
        async with await psycopg.AsyncConnection.connect(dsn) as conn:
            session = Session(conn)
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                await session.rows("create table written (x int)")
            for writes, timeout in ((False, "10s"), (True, "1min")):
                found = await session.row("show statement_timeout", writes=writes)
                assert found == {"statement_timeout": timeout}

    run(check())


def test_a_role_sees_what_it_may_consume_and_no_more(serve: Serve, db: Conn, dsn: str) -> None:
    die(db, "orders")
    die(db, "secret")
    role = f"pgq_page_{db.info.backend_pid}"
    db.execute(f"create role {role}".encode())
    db.execute("select pgq.grant_queue('orders', %s, 'consume')", [role])
    try:
        page = serve(psycopg.conninfo.make_conninfo(dsn, options=f"-c role={role}"), writes=True)
        news = first_news(page)
        assert [row["queue"] for row in news["queues"]] == ["orders"]
        assert "permission denied" in news["holders_refused"]
        assert [row["queue"] for row in ask(page, "GET", "/api/letters").json["letters"]] == [
            "orders"
        ]
        assert ask(page, "GET", "/api/letter?queue=secret&id=2").status == 404
        message = ask(page, "GET", "/api/message?id=1").json
        assert message["message"] is None
        assert [row["event"] for row in message["history"]] == ["publish", "claim", "bury", "dead"]
        assert ask(page, "GET", "/api/queue?name=secret").status == 403
        tried = ask(page, "POST", "/api/filter", {"queue": "orders", "filter": "{}"})
        assert tried.json["of"] == "next"
        refused = ask(page, "POST", "/api/act/discard", {"queue": "orders", "all": True}, BEARER)
        assert (refused.status, refused.json["error"]["sqlstate"]) == (403, "42501")
        page.close()
    finally:
        db.execute(f"drop owned by {role}".encode())
        db.execute("call pgq.maintain()")
        db.execute(f"drop role {role}".encode())
