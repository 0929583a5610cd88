"""Many filtered subscriptions of one topic: looked up, and the same ones that testing each finds.

By default some hundreds; `make test-standing` has 10,000 subscriptions and 10,000 messages.
"""

from __future__ import annotations

import json
import os
import random
from decimal import Decimal
from typing import Any

import psycopg

from pgq.matching import Message, World, compile_filter

FILTERS = int(os.environ.get("PGQ_STANDING", "300"))
BATCH = 500
KINDS = ("equality", "prefix", "range", "exists")
# Every message has some of these fields, so filters of all kinds meet values of all kinds.
FIELDS = (
    "customer",
    "path",
    "amount",
    "region",
    "payload.shop",
    "payload.order.total",
    "msg.sender",
)


def word(chance: random.Random) -> str:
    """Return a text; as many different ones as there are filters, and some that share a prefix."""
    return f"{chance.choice('ab')}/{chance.randrange(FILTERS)}/{chance.randrange(3)}"


def condition(chance: random.Random, kind: str) -> Any:
    if kind == "equality":
        values = [word(chance) for _ in range(chance.choice((1, 1, 3)))]
        return values if len(values) > 1 else values[0]
    if kind == "prefix":
        return [{"prefix": word(chance).rpartition("/")[0] + "/"}]
    if kind == "range":
        low = chance.randrange(10 * FILTERS)
        return {"$gte": low, "$lt": low + chance.choice((1, 10))}
    return {"$exists": True}


def document(chance: random.Random) -> dict[str, Any]:
    """Return a filter of one to three keys; few filters ask for the existence of one field."""
    found = {}
    for _ in range(chance.choice((1, 2, 3))):
        kind = chance.choice(KINDS)
        name = f"flag{chance.randrange(FILTERS)}" if kind == "exists" else chance.choice(FIELDS)
        found[name] = condition(chance, kind)
    return found


def value(chance: random.Random) -> Any:
    kind = chance.randrange(8)
    if kind < 4:
        return word(chance)
    if kind < 6:
        return chance.randrange(20 * FILTERS) / 2
    return chance.choice((None, True, [word(chance), chance.randrange(10 * FILTERS)], [], {"a": 1}))


def scalar(chance: random.Random) -> Any:
    while isinstance(found := value(chance), list | dict):
        pass
    return found


def fitting(chance: random.Random, test: Any) -> Any:
    """Return a value that passes the test, nearly always."""
    if isinstance(test, str):
        return test
    if isinstance(test, list):
        one = chance.choice(test)
        return one if isinstance(one, str) else one["prefix"] + "x"
    if "$exists" in test:
        return chance.choice((None, 1, "a"))
    return chance.randrange(test["$gte"], test["$lt"] + 1)


def message(chance: random.Random, document: dict[str, Any]) -> Message:
    """Return a message with random fields, of which some come from a filter."""
    wanted = {
        name: fitting(chance, test) for name, test in document.items() if chance.random() < 0.9
    }
    headers = {
        name: wanted.get(name, scalar(chance))
        for name in dict.fromkeys([*FIELDS, *document, f"flag{chance.randrange(FILTERS)}"])
        if "." not in name and (name in wanted or chance.random() < 0.8)
    }
    shop = wanted.get("payload.shop", value(chance))
    total = wanted.get("payload.order.total", value(chance))
    payload = chance.choice(
        (
            {"shop": shop, "order": {"total": total}},
            {"shop": [value(chance), shop], "order": [{"total": total}, {}]},
            {"shop": shop, "order.total": total},
        )
    )
    sender = wanted.get("msg.sender", word(chance))
    return Message(headers=headers, payload=payload, msg={"sender": str(sender)})


def test_messages_reach_the_subscriptions_that_testing_each_finds(
    db: psycopg.Connection[Any],
) -> None:
    chance = random.Random(19)
    documents = [document(chance) for _ in range(FILTERS)]
    messages = [message(chance, chance.choice(documents)) for _ in range(FILTERS)]
    with db.transaction():
        for number, filter in enumerate(documents):
            db.execute(
                "select pgq.subscribe(%s, 't', %s::jsonb)", [f"q{number}", json.dumps(filter)]
            )
    for begin in range(0, len(messages), BATCH):
        some = messages[begin : begin + BATCH]
        db.execute(
            "insert into pgq.message (topic, headers, payload, sender)"
            " select 't', h::jsonb, p::jsonb, s from unnest(%s::text[], %s::text[], %s::text[])"
            " with ordinality u (h, p, s, i) order by i",
            [
                [json.dumps(each.headers) for each in some],
                [json.dumps(each.payload) for each in some],
                [each.msg["sender"] for each in some],
            ],
        )
    row = db.execute(
        "select cardinality(fields), cardinality(binding_ids) from pgq.route where topic = 't'"
    ).fetchone()
    assert row is not None
    fields, tested = row
    assert fields >= 5, "the filters are looked up"
    assert tested <= FILTERS // 20, "and few of them tested on every message"

    db.execute(
        "create temp table found as"
        " select r.queue_id, i as id from pgq.ready r, unnest(r.ids) u,"
        " generate_series(lower(u), upper(u) - 1) i"
    )
    db.execute(
        "create temp table expected as"
        " select b.queue_id, m.id from pgq.binding b cross join pgq.message m"
        " where pgq._matches(b.path, b.scope, m, 1, pgq.now())"
    )
    counts = db.execute(
        "select (select count(*) from expected), (select count(*) from found),"
        " (select count(*) from (table expected except table found) x),"
        " (select count(*) from (table found except table expected) x)"
    ).fetchone()
    assert counts is not None
    matches, delivered, lost, wrong = counts
    assert matches >= FILTERS // 2, "filters match messages"
    assert (lost, wrong) == (0, 0)
    assert delivered == matches, "each once"

    # The evaluator without a server gives the same result for some messages and all filters.
    tests = [compile_filter(filter) for filter in documents]
    ids = [id for (id,) in db.execute("select id from pgq.message order by id").fetchall()]
    for position in chance.sample(range(len(messages)), 20):
        world = World(messages[position], Decimal(0))
        names = [f"q{number}" for number, test in enumerate(tests) if test(world)]
        rows = db.execute(
            "select q.name from found f join pgq.queue q using (queue_id) where f.id = %s",
            [ids[position]],
        ).fetchall()
        assert sorted(name for (name,) in rows) == sorted(names), messages[position]
