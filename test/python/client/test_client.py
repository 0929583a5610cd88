"""The client on threads: the functions of pgq, on a lent connection or on its own."""

from __future__ import annotations

import dataclasses
import inspect
import json
import pickle
import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString

import psycopg
import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from psycopg.types.json import set_json_dumps, set_json_loads
from psycopg.types.string import TextLoader

import pgq
from pgq import Draft, F, options, rows
from pgq._shared import sql
from pgq.message import Message

Connect = Callable[..., psycopg.Connection]


def test_a_message_lives_and_is_done(client: pgq.PooledClient) -> None:
    assert client.create_queue("orders", lane_keys=["type"])
    assert not client.create_queue("orders", lane_keys=["type"])
    id = client.publish("orders", {"amount": 75}, headers={"type": "refund"}, sender="till")
    with client.claim("orders", {"type": "refund"}, n=10) as batch:
        (message,) = batch
        assert (message.id, message.payload, message.headers) == (
            id,
            {"amount": 75},
            {"type": "refund"},
        )
        assert (message.attempt, message.sender, message.recipient) == (1, "till", None)
        assert message.lease_until is not None
        assert message.lease_until > message.published_at
    assert [row["event"] for row in client.history(id)] == ["publish", "claim", "ack"]
    assert not client.claim("orders")


def test_a_claim_acknowledges_the_batch_before(client: pgq.PooledClient) -> None:
    client.create_queue("orders", max_attempts=1)
    ids = [client.publish("orders", number) for number in range(5)]
    first = client.claim("orders", n=3)
    first.nack(first[0])
    second = client.claim("orders", n=1, done=first)
    assert [message.payload for message in second] == [3]
    assert (first.left, first.ack()) == ([], 0)
    assert client.history(ids[0])[-1]["event"] != "ack"
    assert client.history(ids[1])[-1]["event"] == client.history(ids[2])[-1]["event"] == "ack"
    empty = client.claim("orders", n=5, done=client.claim("orders", done=second))
    assert not empty
    assert client.history(ids[4])[-1]["event"] == "ack"
    assert not client.claim("orders", done=second)  # nothing is left of it


def test_a_claim_after_a_lost_batch_takes_nothing(client: pgq.PooledClient) -> None:
    client.create_queue("orders")
    for number in range(2):
        client.publish("orders", number)
    batch = client.claim("orders")
    client.ack(batch.lease_id or 0)
    with pytest.raises(pgq.LeaseLost):
        client.claim("orders", done=batch)
    assert [message.payload for message in client.claim("orders")] == [1]


def test_a_message_has_the_columns_of_a_claim(db: psycopg.Connection) -> None:
    cursor = db.execute("select (null::pgq.claimed).*")
    names = [column.name for column in cursor.description or ()]
    assert names == list(Message.__slots__)


@pytest.mark.parametrize(
    ("statement", "parameters", "row"),
    [
        (sql.SUBSCRIPTIONS, [None, None], rows.Subscription),
        (sql.SCHEDULES, [], rows.Schedule),
        (sql.PEEK, ["orders", None, 1], rows.LogMessage),
        (sql.MESSAGES, ["orders", "ready", None, 1], rows.ListedMessage),
        (sql.REPLIES, ["c"], rows.LogMessage),
        (sql.DEAD_LETTER, ["orders", 1], rows.DeadLetter),
        (sql.RESULT, [1], rows.Result),
        (sql.HISTORY, [1], rows.HistoryEvent),
        (sql.QUEUE_STATS, [], rows.QueueStats),
        (sql.FINDINGS, [None, None], rows.Finding),
        (sql.METRICS, [], rows.Metric),
        (sql.RELAYS, [], rows.RelayState),
    ],
)
def test_the_type_of_a_row_has_the_columns_of_its_statement(
    db: psycopg.Connection, statement: LiteralString, parameters: list[Any], row: Any
) -> None:
    db.execute("select pgq.create_queue('orders')")
    found = db.execute(statement, parameters).description or []
    assert list(row.__annotations__) == [column.name for column in found]


def test_a_row_has_attributes_and_becomes_a_dict(client: pgq.PooledClient) -> None:
    client.create_queue("orders")
    client.publish("orders", {"amount": 1}, headers={"type": "paid"})
    [stats] = client.queue_stats()
    assert (stats.queue, stats.ready, stats["ready"]) == ("orders", 1, 1)
    [message] = client.peek("orders")
    assert (message.payload, dict(message)["headers"]) == ({"amount": 1}, {"type": "paid"})
    with pytest.raises(KeyError):
        stats["nothing"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        stats.ready = 2  # type: ignore[misc]


def test_a_row_leaves_out_columns_that_it_does_not_know(db: psycopg.Connection) -> None:
    with db.cursor(row_factory=rows.row_of(rows.Finding)) as cursor:
        cursor.execute("select 'new' as added, 'orders' as queue, 'paused' as finding")
        [found] = cursor.fetchall()
    assert (found.queue, found.finding, found.cure) == ("orders", "paused", None)


def test_the_options_of_a_queue_have_types_as_they_have_parameters() -> None:
    given = set(inspect.signature(pgq.Client.create_queue).parameters) - {"self", "queue"}
    assert given == set(options.QueuePolicy.__annotations__)
    config = {field.name for field in dataclasses.fields(pgq.ConsumerConfig)}
    assert config == set(options.ConsumerOptions.__annotations__)


def test_the_methods_have_the_names_and_parameters_of_the_functions(
    db: psycopg.Connection,
) -> None:
    functions: dict[str, list[str] | None] = dict(
        db.execute(
            "select proname, array_remove((proargnames)[1:pronargs], 'caller') from pg_proc"
            " where pronamespace = 'pgq'::regnamespace and prokind in ('f', 'p')"
        ).fetchall()
    )
    extra = {"where", "refused_delay", "payload_type", "serializer"}
    renamed = {
        ("reply", "message"): "message_id",
        ("purge", "queue"): "topic",
        ("cancel", "queue"): "topic",
        ("move", "queue"): "topic",
        ("move", "to_queue"): "to_topic",
    }
    checked = 0
    for name, method in inspect.getmembers(pgq.Client, inspect.isfunction):
        if name.startswith("_") or name not in functions:
            continue
        mine = [
            renamed.get((name, parameter), parameter)
            for parameter in list(inspect.signature(method).parameters)[1:]
            if parameter not in extra
        ]
        theirs = functions[name] or []
        if name == "matches":
            theirs = theirs[:3]
        if name == "alter_queue":
            mine[1:] = options.QueuePolicy.__annotations__  # instead of **policy
        assert mine == theirs, name
        checked += 1
    assert checked > 25


def test_both_clients_have_the_same_methods() -> None:
    def shape(client: type) -> dict[str, str]:
        return {
            re.sub("^__a(enter|exit)__", r"__\1__", name): re.sub(
                r"Async(?=[A-Z])", "", str(inspect.signature(method))
            )
            for name, method in inspect.getmembers(client, inspect.isfunction)
        }

    assert shape(pgq.Client) == shape(pgq.AsyncClient)
    assert shape(pgq.PooledClient).keys() == shape(pgq.AsyncPooledClient).keys()


# Transactions


def test_a_lent_connection_is_never_committed(connect: Connect, client: pgq.PooledClient) -> None:
    client.create_queue("orders")
    conn = connect(autocommit=False)
    borrower = pgq.Client(conn)
    borrower.publish("orders", 1)
    borrower.publish_many([Draft(topic="orders", payload=2)])
    assert conn.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
    conn.rollback()
    assert not client.claim("orders")
    borrower.publish("orders", 3)
    conn.commit()
    assert [message.payload for message in client.claim("orders", n=9)] == [3]


def test_an_ack_commits_with_the_work_or_not_at_all(
    connect: Connect, client: pgq.PooledClient
) -> None:
    client.create_queue("orders")
    client.publish("orders", 1)
    batch = client.claim("orders")
    conn = connect(autocommit=False)
    conn.execute("create table work (id int)")
    pgq.Client(conn).ack(batch[0].lease_id)
    conn.rollback()
    assert batch.ack() == 1


def test_a_transaction_of_the_pool_is_one(client: pgq.PooledClient) -> None:
    client.create_queue("orders")

    def fail() -> None:
        with client.transaction() as tx:
            tx.publish("orders", 1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with client.transaction() as tx:
        tx.publish("orders", 2)
        tx.publish("orders", 3)
    assert [message.payload for message in client.claim("orders", n=9)] == [2, 3]


# Publishing


def test_a_batch_is_published_in_its_order(client: pgq.PooledClient) -> None:
    client.create_queue("orders")
    ids = client.publish_batch("orders", ["a", "b"], headers=[None, {"k": 1}], priority=3)
    batch = client.claim("orders", n=9)
    assert [message.id for message in batch] == ids
    assert [message.headers for message in batch] == [{}, {"k": 1}]
    assert {message.priority for message in batch} == {3}


def test_many_messages_are_copied_all_or_none(client: pgq.PooledClient) -> None:
    client.create_queue("orders")
    drafts = (Draft(topic="orders", payload={"n": n}, headers={"odd": n % 2}) for n in range(2500))
    assert client.publish_many(drafts, chunk=1000) == 2500
    batch = client.claim("orders", n=5000)
    assert [message.payload["n"] for message in batch] == list(range(2500))
    assert batch.ack() == 2500
    mixed = [Draft(topic="orders", payload=1), Draft(topic="nobody", payload=2)]
    with pytest.raises(pgq.NoQueue):
        client.publish_many(mixed, chunk=1)
    assert client.publish_many([]) == 0
    assert not client.claim("orders")


def test_a_copied_message_has_all_that_a_published_one_has(
    client: pgq.PooledClient, db: psycopg.Connection
) -> None:
    client.create_queue("orders")
    options: dict[str, Any] = {
        "payload": "\t\\N\n€ \x1f",
        "headers": {"k": "\\"},
        "priority": 7,
        "delay": timedelta(seconds=30),
        "expires_in": timedelta(hours=1),
        "sender": "s",
        "recipient": "r",
        "reply_to": "t",
        "correlation_id": "c",
        "group_key": "g",
        "dedup_key": "d",
    }
    client.publish_many([Draft(topic="orders", **options)])
    client.publish("orders", **options | {"dedup_key": "e"})
    rows = db.execute(
        "select priority, headers, payload, sender, recipient, reply_to, correlation_id, group_key,"
        " round(extract(epoch from deliver_at - published_at)),"
        " round(extract(epoch from expires_at - published_at)) from pgq.message order by id"
    ).fetchall()
    assert rows[0] == rows[1]


def test_the_trace_of_the_publisher_travels_in_the_headers(client: pgq.PooledClient) -> None:
    client.create_queue("orders")
    span = NonRecordingSpan(SpanContext(0xABC, 0xDEF, False, TraceFlags(1)))
    with trace.use_span(span):
        client.publish("orders", 1, headers={"k": 1})
        client.publish_batch("orders", [2])
        client.publish_many([Draft(topic="orders", payload=3)])
    seen = {}

    def handle(message: Message) -> None:
        seen[message.payload] = trace.get_current_span().get_span_context().trace_id

    pgq.Consumer(client, "orders", handle, drain=True).run()
    assert seen == {1: 0xABC, 2: 0xABC, 3: 0xABC}


# Claiming


def test_a_message_is_delivered_at_a_time(client: pgq.PooledClient, db: psycopg.Connection) -> None:
    client.create_queue("orders")
    at = datetime(2040, 1, 2, 3, 4, 5, tzinfo=UTC)
    client.publish("orders", 1, deliver_at=at)
    client.publish("orders", 2, deliver_at="2040-01-02T04:04:05+01:00")
    client.publish_batch("orders", [3, 4], deliver_at=at)
    client.publish_many([Draft(topic="orders", payload=5, deliver_at=at)])
    with pgq.Publisher(client) as publisher:
        publisher.publish("orders", 6, deliver_at=at)
        publisher.publish("orders", 7)
    rows = db.execute("select deliver_at, count(*) from pgq.message group by 1").fetchall()
    assert dict(rows) == {at: 6, None: 1}
    client.publish("orders", 8, deliver_at=datetime.now(UTC) - timedelta(hours=1))
    assert [message.payload for message in client.claim("orders", n=9)] == [7, 8]
    with pytest.raises(ValueError, match="deliver_at needs a time zone"):
        client.publish("orders", 9, deliver_at=datetime(2040, 1, 2))
    with pytest.raises(TypeError, match="deliver_at is a datetime"):
        client.publish("orders", 9, deliver_at=30)  # type: ignore[arg-type]
    with pytest.raises(pgq.Refused, match="a delay or a deliver_at, not both"):
        client.publish("orders", 9, deliver_at=at, delay=5)
    with pytest.raises(ValueError, match="a delay or a deliver_at, not both"):
        Draft(topic="orders", payload=9, deliver_at=at, delay=5)


def test_parts_of_a_batch_end_differently(client: pgq.PooledClient, db: psycopg.Connection) -> None:
    client.create_queue("orders", backoff=timedelta(minutes=4))
    client.publish_batch("orders", list(range(6)))
    batch = client.claim("orders", n=6)
    assert batch.ack(batch[0]) == 1
    assert batch.nack(batch[1], error="nul \0 and more") == 1
    assert batch.bury([batch[2]], error="no", details={"why": 1}) == 1
    assert batch.release([batch[3]]) == 1
    assert batch.ack([]) == 0
    assert [message.payload for message in batch.left] == [4, 5]
    assert batch.ack() == 2
    assert batch.ack() == 0
    rows = db.execute("select state, attempt from pgq.message_state order by id").fetchall()
    assert rows == [("retrying", 1), ("dead", 1), ("ready", 0)]


def test_a_block_that_raises_refuses_the_remaining_messages(client: pgq.PooledClient) -> None:
    client.create_queue("orders", max_attempts=2, backoff=timedelta(0))
    client.publish_batch("orders", [1, 2])

    def fail() -> None:
        with client.claim("orders", n=2) as batch:
            batch.ack(batch[0])
            raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        fail()
    (message,) = client.claim("orders", n=2)
    assert (message.payload, message.attempt) == (2, 2)
    assert client.history(message.id)[2]["note"] == "ValueError: bad"


def test_a_lease_is_extended(client: pgq.PooledClient) -> None:
    client.create_queue("orders")
    client.publish("orders", 1)
    batch = client.claim("orders", lease=timedelta(seconds=5))
    before = batch.lease_until
    after = batch.extend(timedelta(minutes=5))
    assert before is not None
    assert after is not None
    assert after > before + timedelta(minutes=4)
    assert [message.id for message in client.leased(batch[0].lease_id)] == [batch[0].id]


def test_what_the_second_stage_refuses_goes_back_unharmed(client: pgq.PooledClient) -> None:
    client.create_queue("orders", max_attempts=1)
    client.publish_batch("orders", [{"amount": n} for n in (500, 1500, 2500)])
    for _ in range(3):
        batch = client.claim("orders", n=9, where=lambda message: message.payload["amount"] > 1000)
        assert [message.payload["amount"] for message in batch] == [1500, 2500]
        assert batch.refused == 1
        assert batch.release() == 2
    rest = client.claim("orders", n=9)
    assert [message.attempt for message in rest] == [1, 1, 1]


def test_a_second_stage_that_raises_takes_nothing(client: pgq.PooledClient) -> None:
    client.create_queue("orders")
    client.publish("orders", {})
    with pytest.raises(KeyError):
        client.claim("orders", where=lambda message: bool(message.payload["amount"]))
    assert client.claim("orders")[0].attempt == 1


def test_two_clients_with_different_filters_get_their_own_messages(
    client: pgq.PooledClient, dsn: str
) -> None:
    client.create_queue("orders", lane_keys=["type"])
    for n in range(10):
        client.publish("orders", n, headers={"type": "paid" if n % 2 else "refund"})
    with pgq.connect(dsn) as other:
        mine = client.claim("orders", F.type == "paid", n=10)
        theirs = other.claim("orders", F.type == "refund", n=10)
    assert [message.payload for message in mine] == [1, 3, 5, 7, 9]
    assert [message.payload for message in theirs] == [0, 2, 4, 6, 8]


def test_dead_letters_are_replayed_and_discarded(client: pgq.PooledClient) -> None:
    client.create_queue("orders")
    client.publish_batch("orders", [1, 2])
    client.claim("orders", n=2).bury(error="no")
    assert client.replay("orders", dry_run=True) == 2
    assert client.replay("orders", n=1) == 1
    assert client.discard("orders") == 1
    assert [message.payload for message in client.claim("orders", n=9)] == [1]


def test_what_waits_is_cancelled_purged_moved_and_rescheduled(client: pgq.PooledClient) -> None:
    client.create_queue("orders")
    client.create_queue("slow")
    ids = client.publish_batch("orders", [{"n": n} for n in range(9)])
    later = client.publish("orders", {"n": 9}, delay=3600, dedup_key="k")
    (held,) = client.claim("orders")
    assert client.cancel("orders", [held, *ids[:2]], dry_run=True) == 1
    assert client.cancel("orders", ids[1]) == 1
    assert client.cancel("orders", filter=F.payload.n == 2) == 1
    assert client.reschedule("orders", ids[3], delay="1h") == 1
    assert client.reschedule("orders", ids[3], at=datetime.now(UTC) + timedelta(days=1)) == 1
    assert client.reschedule("orders", [ids[3], later]) == 2
    assert client.cancel("orders", dedup_key="k") == 1
    assert client.move("orders", "slow", F.payload.n > 4, 2, dry_run=True) == 2
    assert client.move("orders", "slow", F.payload.n > 4, 2) == 2
    assert [message.payload["n"] for message in client.claim("slow", n=9)] == [5, 6]
    assert client.purge("orders", F.payload.n == 7) == 1
    assert client.purge("orders", dry_run=True) == 3
    assert client.purge("orders") == 3
    client.ack(held)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="needs ids"):
        client.cancel("orders")


def test_dead_letters_are_chosen_by_cause_changed_and_sent_elsewhere(
    client: pgq.PooledClient,
) -> None:
    client.create_queue("orders")
    client.create_queue("fixed")
    for n in range(4):
        client.publish("orders", {"n": n})
        client.claim("orders").bury(error=f"error {n % 2}")
    assert client.discard("orders", n=1, cause={"error": "error 0"}) == 1
    assert client.replay("orders", cause=F.error == "error 0", dry_run=True) == 1
    assert client.replay("orders", cause={"error": "error 0"}, patch={"ok": True}) == 1
    assert client.claim("orders")[0].payload == {"n": 2, "ok": True}
    assert client.replay("orders", to_queue="fixed", per_second=1) == 2
    assert [message.payload for message in client.claim("fixed", n=9)] == [{"n": 1}]


def test_a_result_is_kept_and_waited_for(client: pgq.PooledClient, dsn: str) -> None:
    client.create_queue("sums")
    id = client.publish("sums", [3, 4])
    with pytest.raises(pgq.RequestTimeout, match="has not ended"):
        client.wait(id, timeout=0.1)
    assert client.result(id)[0]["state"] == "waiting"
    began = threading.Event()

    def work() -> None:
        with pgq.connect(dsn) as other:
            began.wait()
            (message,) = other.claim("sums")
            other.finish(message.lease_id, message.id, {"sum": sum(message.payload)})

    worker = threading.Thread(target=work)
    worker.start()
    began.set()
    row = client.wait(id, timeout=30)
    worker.join()
    assert (row["state"], row["result"]) == ("done", {"sum": 7})
    dead = client.publish("sums", [])
    client.claim("sums").bury(error="nothing to add")
    assert client.wait(dead)["error"] == "rejected: nothing to add"
    acked = client.publish("sums", [])
    client.claim("sums").ack()
    assert client.wait(acked)["state"] == "done"


@pytest.mark.unpooled("LISTEN needs a session")
def test_the_end_of_a_message_is_notified_on_its_own_channel(
    client: pgq.PooledClient, db: psycopg.Connection
) -> None:
    client.create_queue("sums")
    ids = [client.publish("sums", n) for n in range(2)]
    db.execute("listen pgq_result")
    db.execute("select pgq.wait_result(%s, 'me')", [ids[1]])
    for message in client.claim("sums", n=2):
        client.finish(message.lease_id, message.id, message.payload)
    (heard,) = db.notifies(timeout=20, stop_after=1)
    assert (heard.channel, heard.payload) == ("pgq_result", str(ids[1]))


def test_subscriptions_are_made_and_ended(client: pgq.PooledClient) -> None:
    assert client.subscribe("audit", "orders.#", F.type == "paid")
    assert not client.subscribe("audit", "orders.#", F.type == "paid")
    client.alter_subscription("audit", "orders.#", None)
    client.publish("orders.new", 1)
    assert client.claim("audit")[0].topic == "orders.new"
    assert client.unsubscribe("audit", "orders.#")
    assert client.unsubscribe_all("audit") == 0
    assert client.drop_queue("audit", force=True)


def test_the_client_says_whether_the_database_answers(dsn: str) -> None:
    client = pgq.connect(dsn)
    assert client.connected()
    assert client.version() == pgq.__version__
    client.close()
    assert not client.connected()


def test_a_wrong_address_is_reported_immediately() -> None:
    with pytest.raises(psycopg.OperationalError, match="nowhere"):
        pgq.connect("host=/nowhere dbname=x")


@pytest.mark.unpooled("kills sessions that are known by name")
def test_a_connection_that_broke_while_idle_is_replaced(
    client: pgq.PooledClient, db: psycopg.Connection
) -> None:
    client.create_queue("orders")
    client.publish("orders", 1)
    db.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where application_name = 'pgq' and datname = current_database()"
    )
    client.publish("orders", 2)
    assert len(client.claim("orders", n=9)) == 2


def test_many_threads_share_one_connection(dsn: str) -> None:
    with pgq.connect(dsn, pool_size=1) as client:
        client.create_queue("orders")

        def work() -> None:
            for number in range(20):
                client.publish("orders", number)
                with client.transaction() as tx:
                    tx.publish("orders", number)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(client.claim("orders", n=500)) == 160


def test_a_received_message_is_a_message_like_any_other(client: pgq.PooledClient) -> None:
    client.create_queue("orders")
    client.publish("orders", {"amount": 75})
    (message,) = client.claim("orders")
    assert type(message) is pgq.Message
    with pytest.raises(dataclasses.FrozenInstanceError):
        message.id = 5  # type: ignore[misc]
    assert dataclasses.replace(message, attempt=2).attempt == 2
    assert pickle.loads(pickle.dumps(message)) == message
    assert pgq.Message(*dataclasses.astuple(message)) == message


def test_a_connection_is_as_good_as_new_after_an_error_and_a_long_result(
    client: pgq.PooledClient,
) -> None:
    client.create_queue("orders")
    client.publish_batch("orders", list(range(3000)))
    for _ in range(3):
        with pytest.raises(pgq.QueueNotFound):
            client.claim("nowhere")
        batch = client.claim("orders", n=2000)
        assert [message.payload for message in batch] == list(range(2000))
        assert batch.release() == 2000
    (kept,) = client.claim("orders", n=1)
    assert kept.payload == 0


AWKWARD = [
    {"text": 'quote " backslash \\ newline \n tab \t {"a": "b,c"} null'},
    "ü €  \u2028 \U0001f600",
    "",
    "NULL",
    None,
    [],
    {},
    [None, {"deep": [1.5, -2e10, True]}],
    12345678901234567890,
]


def test_every_json_value_is_returned_unchanged(client: pgq.PooledClient, connect: Connect) -> None:
    client.create_queue("orders")
    lent = pgq.Client(connect())
    headers = [{"name": f'{number} " \\ , ü'} for number in range(len(AWKWARD))]
    for publisher in (client, lent):
        ids = publisher.publish_batch("orders", AWKWARD, headers=headers)
        assert len(ids) == len(AWKWARD)
        for consumer in (client, lent):
            batch = consumer.claim("orders", n=100)
            assert [message.payload for message in batch] == AWKWARD
            assert [message.headers for message in batch] == headers
            batch.release()
        client.claim("orders", n=100).ack()


def test_other_json_functions_are_respected(
    client: pgq.PooledClient, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.create_queue("orders")
    conn = connect()
    set_json_dumps(lambda value: json.dumps({"wrapped": value} if value else value), conn)
    set_json_loads(lambda data: ["read", json.loads(data)], conn)
    lent = pgq.Client(conn)
    lent.publish_batch("orders", [1])
    lent.publish("orders", 2, headers={})
    assert [message.payload for message in client.claim("orders", n=5)] == [
        {"wrapped": 1},
        {"wrapped": 2},
    ]
    client.publish("orders", 3)
    (message,) = lent.claim("orders")
    assert message.payload == ["read", 3]
    monkeypatch.setattr(psycopg.types.json._JsonLoader, "_loads", lambda data: "everywhere")
    client.publish("orders", 4)
    client.connected()
    with pgq.connect(conn.info.dsn, password=conn.info.password) as other:
        (message,) = other.claim("orders")
        assert message.payload == "everywhere"


def test_a_connection_that_leaves_json_as_text_still_has_messages(
    client: pgq.PooledClient, connect: Connect
) -> None:
    client.create_queue("orders")
    conn = connect()
    conn.adapters.register_loader("jsonb", TextLoader)  # as Django's connections have it
    lent = pgq.Client(conn)
    lent.publish("orders", {"n": 1}, headers={"type": "new"})
    (message,) = lent.claim("orders")
    assert (message.payload, message.headers) == ({"n": 1}, {"type": "new"})
    assert conn.execute("select '{}'::jsonb").fetchone() == ("{}",)


def test_the_defaults_of_methods_are_those_of_the_functions(
    client: pgq.PooledClient, db: psycopg.Connection
) -> None:
    client.create_queue("by-method")
    db.execute("select pgq.create_queue('by-function')")
    rows = db.execute(
        "select to_jsonb(q) - '{queue_id,name,created_at,channel,secret}'::text[] from pgq.queue q"
    )
    one, other = (row[0] for row in rows)
    assert one == other
    assert db.execute("select pgq.create_queue('by-method')").fetchone() == (False,)


def lost() -> psycopg.OperationalError:
    return psycopg.OperationalError("the connection is lost")


@pytest.mark.parametrize(
    ("error", "call", "tries"),
    [
        # It is unknown whether the statement took effect: only repeatable calls are repeated.
        (lost, "claim", 4),
        (lost, "extend", 4),
        (lost, "publish", 0),
        (lost, "ack", 0),
        # The SQLSTATE shows that the statement had no effect.
        (psycopg.errors.DeadlockDetected, "publish", 4),
        (psycopg.errors.SerializationFailure, "ack", 4),
        (psycopg.errors.AdminShutdown, "publish", 4),
        # A repetition would fail again.
        (psycopg.errors.QueryCanceled, "claim", 0),
        (psycopg.errors.UndefinedTable, "claim", 0),
    ],
)
def test_a_call_is_repeated_if_it_cannot_take_effect_twice(
    client: pgq.PooledClient,
    monkeypatch: pytest.MonkeyPatch,
    error: Callable[[], psycopg.Error],
    call: str,
    tries: int,
) -> None:
    client.create_queue("orders")
    client.publish("orders", 1)
    lease_id = client.claim("orders").lease_id or 0
    calls: dict[str, Callable[[], object]] = {
        "claim": lambda: client.claim("orders"),
        "extend": lambda: client.extend(lease_id),
        "publish": lambda: client.publish("orders", 2),
        "ack": lambda: client.ack(lease_id),
    }
    once, failures = client._once, 0

    def fail(*arguments: Any) -> list[Any]:
        nonlocal failures
        if failures < limit:
            failures += 1
            raise error()
        return once(*arguments)

    monkeypatch.setattr(client, "_once", fail)
    limit = max(tries, 1)
    if tries:
        calls[call]()
        assert failures == tries
        limit, failures = 100, 0
    with pytest.raises(psycopg.Error):
        calls[call]()
    assert failures == 1 + tries  # and not for ever
