"""Payloads with a type, and serializers of one's own."""

from __future__ import annotations

import base64
import json
import logging
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, NotRequired, TypedDict
from uuid import UUID

import psycopg
import pytest

import pgq
from pgq import Draft, Message

pydantic = pytest.importorskip("pydantic")


class Kind(Enum):
    BOOK = "book"
    PEN = "pen"


@dataclass
class Line:
    article: str
    price: Decimal
    kind: Kind = Kind.PEN


@dataclass
class Order:
    order_id: int
    at: datetime
    lines: list[Line] = field(default_factory=list)
    note: str | None = None
    day: date | None = None
    key: UUID | None = None
    state: Literal["new", "paid"] = "new"
    rate: float = 1.0
    took: timedelta | None = None
    extra: dict[str, int] = field(default_factory=dict)


AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ORDER = Order(
    7,
    AT,
    [Line("pen", Decimal("12.34"), Kind.BOOK)],
    day=date(2026, 1, 2),
    key=UUID("0b54d2ea-5bd7-4c29-b7e9-5a22c1a2b3c4"),
    took=timedelta(seconds=2),
    extra={"a": 1},
)


class Invoice(pydantic.BaseModel):  # type: ignore[misc,name-defined]
    invoice_id: int
    at: datetime
    amount: Decimal = pydantic.Field(gt=0)


class Note(TypedDict):
    text: str
    author: NotRequired[str]


@pytest.fixture
def orders(client: pgq.PooledClient) -> pgq.PooledClient:
    client.create_queue("orders", max_attempts=1)
    return client


# Types


def test_a_dataclass_is_returned_as_the_same_type(
    orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    orders.publish("orders", ORDER)
    orders.publish_batch("orders", [ORDER])
    orders.publish_many([Draft(topic="orders", payload=ORDER)])
    with pgq.Publisher(orders) as publisher:
        publisher.publish("orders", ORDER)
    pgq.Client(db).publish("orders", ORDER)
    seen: list[Any] = []
    pgq.Consumer(
        orders, "orders", lambda m: seen.append(m.payload), payload_type=Order, drain=True
    ).run(signals=False)
    assert seen == [ORDER] * 5


def test_every_way_to_consume_converts_to_the_type(orders: pgq.PooledClient) -> None:
    for _ in range(2):
        orders.publish("orders", ORDER)
    with orders.claim("orders", payload_type=Order) as batch:
        assert batch[0].payload == ORDER
    with orders.consume("orders", payload_type=Order, drain=True) as messages:
        assert [message.payload for message in messages] == [ORDER]
    memory = pgq.MemoryClient(on_demand=True)
    memory.publish("orders", ORDER)
    assert memory.claim("orders", payload_type=Order)[0].payload == ORDER
    orders.publish("orders", [ORDER, ORDER])
    assert orders.claim("orders", payload_type=list[Order])[0].payload == [ORDER, ORDER]


def test_a_model_of_pydantic_is_returned_as_the_same_type(orders: pgq.PooledClient) -> None:
    invoice = Invoice(invoice_id=1, at=AT, amount=Decimal("9.99"))
    orders.publish("orders", invoice)
    assert orders.claim("orders", payload_type=Invoice)[0].payload == invoice
    wrong = Invoice.model_construct(invoice_id="x", at=AT, amount=Decimal(-1))
    with pytest.raises(pgq.PayloadError, match=r"Invoice(.|\n)*amount"):
        orders.publish("orders", wrong)
    assert not orders.claim("orders")


def test_what_is_wrong_is_refused_before_anything_is_sent(
    orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    wrong = Order("seven", AT)  # type: ignore[arg-type]
    with pytest.raises(pgq.PayloadError, match="order_id"):
        orders.publish("orders", wrong)
    with pytest.raises(pgq.PayloadError, match="order_id"):
        orders.publish_batch("orders", [ORDER, wrong])
    with pytest.raises(pgq.PayloadError, match="order_id"):
        orders.publish_many(
            [Draft(topic="orders", payload=ORDER), Draft(topic="orders", payload=wrong)]
        )
    with pgq.Publisher(orders) as publisher, pytest.raises(pgq.PayloadError, match="order_id"):
        publisher.publish("orders", wrong)
    sent: list[Any] = []

    class Spy:
        def publish(self, topic: str, payload: Any, **options: Any) -> None:
            sent.append(payload)

    with pytest.raises(pgq.PayloadError, match="order_id"):
        pgq.MultiPublisher([Spy(), orders]).publish("orders", wrong)
    assert sent == []
    assert db.execute("select count(*) from pgq.message").fetchone() == (0,)


def test_required_fields_of_a_topic_are_refused_before_publishing(
    dsn: str, orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    types: dict[str, Any] = {"orders": Order, "notes": Note}
    orders.create_queue("notes")
    with pgq.connect(dsn, types=types) as client:
        client.publish("orders", {"order_id": 1, "at": AT})
        client.publish("notes", {"text": "hello"})
        client.publish("notes", {"text": "hello", "author": "ada"})
        for publish in (client.publish, pgq.Client(db, types=types).publish):
            with pytest.raises(pgq.PayloadError, match=r"orders.*Order: order_id is missing"):
                publish("orders", {"at": AT})
        with pytest.raises(pgq.PayloadError, match=r"lines\[0\]\.price is missing"):
            client.publish("orders", {"order_id": 1, "at": AT, "lines": [{"article": "pen"}]})
        with pytest.raises(pgq.PayloadError, match="text is missing"):
            client.publish("notes", {"author": "ada"})
        with client.transaction() as tx, pytest.raises(pgq.PayloadError):
            tx.publish("orders", {})
        with pgq.Publisher(client) as publisher, pytest.raises(pgq.PayloadError):
            publisher.publish("orders", {})
    assert orders.claim("orders", payload_type=Order)[0].payload == Order(1, AT)


@pytest.mark.parametrize(
    ("payload", "error_text"),
    [
        ({"at": AT}, "order_id is missing"),
        ({"order_id": True, "at": AT}, "order_id"),
        ({"order_id": 1.5, "at": AT}, "order_id"),
        ({"order_id": 1, "at": "yesterday"}, "at"),
        ({"order_id": 1, "at": AT, "state": "lost"}, "state"),
        ({"order_id": 1, "at": AT, "note": 5}, "note"),
        ({"order_id": 1, "at": AT, "extra": {"a": "b"}}, r"extra\.a"),
        ({"order_id": 1, "at": AT, "lines": [{"article": "x", "price": 1, "kind": "?"}]}, "kind"),
        ([1], "an object"),
    ],
)
def test_a_message_of_another_type_is_refused_alone(
    orders: pgq.PooledClient,
    db: psycopg.Connection,
    caplog: pytest.LogCaptureFixture,
    payload: Any,
    error_text: str,
) -> None:
    orders.publish("orders", ORDER)
    orders.publish("orders", payload)
    orders.publish("orders", ORDER)
    seen: list[Any] = []

    def handle(message: Message) -> None:
        seen.append(message.payload)

    with caplog.at_level(logging.ERROR, "pgq"):
        pgq.Consumer(orders, "orders", handle, payload_type=Order, drain=True).run(signals=False)
    assert seen == [ORDER, ORDER]
    ((error,),) = db.execute("select error from pgq.dead_letter").fetchall()
    assert error.startswith("PayloadError: the payload is no Order: ")
    assert [record.__dict__["event"] for record in caplog.records] == ["message_unreadable"]
    with pytest.raises(pgq.PayloadError, match=error_text):
        pgq.payload_as(Order, json.loads(pgq.encoding.dumps(payload)))


def test_fields_that_a_type_does_not_have_are_left_alone() -> None:
    made: Order = pgq.payload_as(Order, {"order_id": 1, "at": AT.isoformat(), "new_field": 1})
    assert made == Order(1, AT)


# Serializers


class Packed:
    """A serializer: compressed JSON, as text."""

    name = "packed"

    def dumps(self, value: Any) -> Any:
        return base64.b64encode(zlib.compress(json.dumps(value).encode())).decode()

    def loads(self, data: Any) -> Any:
        return json.loads(zlib.decompress(base64.b64decode(data)))


@pytest.fixture
def packed() -> Iterator[None]:
    pgq.register_serializer(Packed())
    yield
    pgq.unregister_serializer("packed")


@pytest.mark.usefixtures("packed")
def test_a_serializer_is_recorded_and_undone(
    orders: pgq.PooledClient, db: psycopg.Connection, dsn: str
) -> None:
    orders.publish("orders", {"a": 1}, headers={"type": "x"}, serializer="packed")
    orders.publish_batch("orders", [{"a": 1}], serializer="packed")
    with pgq.connect(dsn, serializer="packed") as client:
        client.publish("orders", {"a": 1})
        client.publish_many([Draft(topic="orders", payload={"a": 1})])
        with client.transaction() as tx:
            tx.publish("orders", {"a": 1})
        with pgq.Publisher(client) as publisher:
            publisher.publish("orders", {"a": 1})
        pgq.MultiPublisher([client]).publish("orders", {"a": 1})
    with pgq.Publisher(orders) as publisher:
        publisher.publish("orders", {"a": 1}, serializer="packed")
    pgq.MultiPublisher([orders]).publish("orders", {"a": 1}, serializer="packed")
    rows = db.execute("select payload, headers ->> 'serializer' from pgq.message").fetchall()
    assert {row[1] for row in rows} == {"packed"}
    assert all(isinstance(row[0], str) for row in rows)
    found = orders.claim("orders", 99)
    assert [message.payload for message in found] == [{"a": 1}] * 9
    assert found[0].headers == {"type": "x", "serializer": "packed"}


@pytest.mark.usefixtures("packed")
def test_a_type_is_packed_too(orders: pgq.PooledClient) -> None:
    orders.publish("orders", Line("pen", Decimal("1.5")), serializer="packed")
    assert orders.claim("orders", payload_type=Line)[0].payload == Line("pen", Decimal("1.5"))


@pytest.mark.usefixtures("packed")
def test_what_a_serializer_cannot_read_is_refused_alone(
    orders: pgq.PooledClient, db: psycopg.Connection
) -> None:
    orders.publish("orders", {"a": 1}, serializer="packed")
    orders.publish("orders", "broken", headers={"serializer": "packed"})
    assert [message.payload for message in orders.claim("orders", 5)] == [{"a": 1}]
    ((error,),) = db.execute("select error from pgq.dead_letter").fetchall()
    assert error.startswith("PayloadError: the serializer packed cannot read the payload")


def test_an_unknown_serializer_is_refused_when_publishing(orders: pgq.PooledClient) -> None:
    with pytest.raises(ValueError, match="no serializer is called pickle"):
        orders.publish("orders", 1, serializer="pickle")
    with pytest.raises(ValueError, match="no serializer"):
        pgq.connect("", serializer="pickle")
    # A header alone is a note of the publisher.
    orders.publish("orders", 1, headers={"serializer": "json"})
    orders.publish("orders", 2, headers={"serializer": "pickle"})
    assert [message.payload for message in orders.claim("orders", 5)] == [1, 2]
    with pytest.raises(ValueError, match="json"):
        pgq.register_serializer(type("Json", (Packed,), {"name": "json"})())
