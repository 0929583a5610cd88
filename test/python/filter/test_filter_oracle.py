"""The compiled filter and the oracle give the same answer for any document and message."""

from __future__ import annotations

import json
import os
import random
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, assume, event, example, given, settings
from hypothesis import strategies as st

from pgq.errors import InvalidFilter
from pgq.matching import Message, Test, World, compile_filter

EXAMPLES = int(os.environ.get("PGQ_EXAMPLES", "300"))
compared = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)


def short(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The same strategy, but hypothesis need not write pages to name it."""

    @st.composite
    def part(draw: st.DrawFn) -> Any:
        return draw(strategy)

    return part()


texts = st.sampled_from(
    ["", "a", "A", "b", "ab", "aB", "abc", "5", "a.b", "a.b.c", "b.a", "a%", "a_b", "a*b", "%", "*",
     "\\", "a\\", "a\nb", "a\n", '"', "'; drop table x; --", "$$", "日本", "😀", "\x01",
     "(?i)a", "[a]", "2030-01-01", "null", "a.", ".", "..", "-1"]
)  # fmt: skip
numbers: st.SearchStrategy[Any] = st.one_of(
    st.integers(-3, 12),
    st.sampled_from([Decimal("5.0"), Decimal("2.5"), Decimal("-0.5"), 10**30, Decimal("1e40")]),
)
scalars = st.one_of(texts, numbers, st.booleans(), st.none())
keys = st.sampled_from(["k", "a", "b"])
BARE_KEYS = ['"', "1", " ", "é", "\\", "@", "a b", "level:", "_id"]
ODD_KEYS = ["a.b", "a.k", "k.a", "a.b.k", "$gt", *BARE_KEYS]
odd_keys = st.sampled_from(["k", *ODD_KEYS])
SCALARS = [
    "",
    "a",
    "b",
    "A",
    "ab",
    "a.b",
    "5",
    0,
    1,
    2,
    5,
    Decimal("2.5"),
    True,
    False,
    None,
]


def structures(leaves: int = 6) -> st.SearchStrategy[Any]:
    return short(
        st.recursive(
            short(scalars),
            lambda part: st.one_of(
                st.lists(part, max_size=3),
                st.dictionaries(keys | odd_keys, part, max_size=3),
            ),
            max_leaves=leaves,
        )
    )


operands = structures(4)
field_names = st.one_of(
    keys,
    keys.map("headers.{}".format),
    keys.map("payload.{}".format),
    st.tuples(st.just("payload"), keys, keys).map(".".join),
    st.sampled_from(BARE_KEYS),
    st.sampled_from(BARE_KEYS).map("payload.{}".format),
)
moments = st.sampled_from(
    ["2030-01-01", "2030-01-01T00:00:00Z", "2030-01-01 00:00", "2029-12-31T23:00:00-01:00",
     "2030-01-01T00:00:00.5+00", {"$now": "0 s"}, {"$now": "-1 hour"}, {"$now": "2 days"}]
)  # fmt: skip
patterns = st.one_of(
    texts.filter(lambda s: not s.endswith("\\")),
    st.lists(st.sampled_from(["a", "b", "%", "_", "\\%", "\\_", "\n", "."]), max_size=5).map(
        "".join
    ),
)
wildcards = (
    st.lists(st.sampled_from(["a", "b", "*", "\\*", "\\\\", "\n", ".", "%"]), max_size=5)
    .map("".join)
    .filter(lambda s: "**" not in s.replace("\\\\", "").replace("\\*", ""))
)
topics = st.lists(st.sampled_from(["a", "b", "c", "*", "#", "日本"]), min_size=1, max_size=4).map(
    ".".join
)
regexes = st.lists(
    st.sampled_from(["a", "b", ".", "[ab]", "(a|b)", "a*", "b+", "^", "$", "\\.", "(?:ab)?", "日"]),
    max_size=4,
).map("".join)


def one(name: str, operand: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return operand.map(lambda value: {name: value})


networks = st.sampled_from(
    ["10.0.0.0/8", "10.0.3.7/22", "10.0.0.0/31", "0.0.0.0/0", "2001:db8::/32", "::/0", "::1/127",
     "2001:DB8:0:1::/63"]
)  # fmt: skip
full_texts = texts.filter(bool)
alternatives = short(
    st.one_of(
        scalars,
        scalars,
        one("exactly", texts),
        one("cidr", networks),
        one("prefix", texts),
        one("suffix", texts),
        one("prefix", one("equals-ignore-case", texts)),
        one("suffix", one("equals-ignore-case", texts)),
        one("equals-ignore-case", texts),
        one("wildcard", wildcards),
        one("exists", st.booleans()),
        one("numeric", numbers.map(lambda n: ["=", n])),
        one("numeric", numbers.map(lambda n: [">", n])),
        one(
            "numeric",
            st.lists(numbers, min_size=2, max_size=2, unique=True).map(
                lambda n: [">=", min(n), "<", max(n)]
            ),
        ),
        one("anything-but", texts | numbers),
        one("anything-but", st.lists(texts, min_size=1, max_size=3)),
        one("anything-but", st.lists(numbers, min_size=1, max_size=3)),
        one(
            "anything-but",
            one("prefix", full_texts | st.lists(full_texts, min_size=1, max_size=2)),
        ),
        one("anything-but", one("suffix", full_texts)),
        one(
            "anything-but",
            one("equals-ignore-case", st.lists(texts, min_size=1, max_size=2)),
        ),
        one("anything-but", one("wildcard", wildcards)),
    )
)
# So many suffixes that texts are read backwards.
ends = st.text("abcA5.日", min_size=1, max_size=3)
suffix_lists = short(
    st.one_of(
        st.lists(one("suffix", ends), min_size=9, max_size=20),
        st.lists(ends, min_size=9, max_size=20).map(lambda e: [{"anything-but": {"suffix": e}}]),
    )
)
bounds = texts | numbers
order_operators = st.sampled_from(["$gt", "$gte", "$lt", "$lte"])
large_lists = st.one_of(
    st.lists(scalars, min_size=1, max_size=4),
    st.lists(st.integers(-20, 20), min_size=8, max_size=30),
    st.lists(st.text("abAB日", max_size=3), min_size=5, max_size=30),
)


def operator_tests(fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return short(
        st.one_of(
            one("$eq", operands),
            one("$ne", operands),
            one("$in", large_lists),
            one("$nin", large_lists),
            st.tuples(order_operators, bounds).map(lambda t: dict([t])),
            one("$between", st.lists(numbers, min_size=2, max_size=2)),
            one("$between", st.lists(texts, min_size=2, max_size=2)),
            st.tuples(st.sampled_from(["$like", "$nlike", "$ilike"]), patterns).map(
                lambda t: dict([t])
            ),
            st.tuples(st.sampled_from(["$prefix", "$suffix", "$substr", "$ieq"]), texts).map(
                lambda t: dict([t])
            ),
            one("$wildcard", wildcards),
            one("$topic", topics),
            one("$regex", regexes),
            regexes.map(lambda r: {"$regex": r, "$options": "i"}),
            st.tuples(st.sampled_from(["$exists", "$isNull"]), st.booleans()).map(
                lambda t: dict([t])
            ),
            one(
                "$type",
                st.sampled_from(["string", "number", "boolean", "null", "array", "object"]),
            ),
            one("$all", st.lists(operands, min_size=1, max_size=2)),
            one("$size", st.integers(0, 3)),
            one("$contains", operands.map(lambda v: "a" if v is None else v)),
            st.tuples(st.sampled_from([1, 2, 3, -2, 5]), st.integers(-1, 2)).map(
                lambda t: {"$mod": list(t)}
            ),
            one("$elemMatch", fields),
        )
    )


def merged(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {k: v for part in parts for k, v in part.items()}


def below(fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return what may be in place of a test, given what may be deeper."""
    test = operator_tests(fields)
    return short(
        st.one_of(
            scalars,
            st.lists(alternatives, min_size=1, max_size=3),
            st.tuples(suffix_lists, st.lists(alternatives, max_size=1)).map(lambda t: t[0] + t[1]),
            test,
            st.tuples(test, test).map(lambda t: merged(list(t))),
        )
    )


def logic(part: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(
        st.tuples(
            st.sampled_from(["$and", "$or", "$nor"]),
            st.lists(part, min_size=1, max_size=3),
        ).map(lambda t: dict([t])),
        one("$not", part),
        one("$const", st.booleans()),
    )


shallow = operator_tests(st.just({"$exists": True}))
# fields relative to a block, to a field above, or to an element
relative = short(
    st.recursive(
        short(st.dictionaries(keys | st.just("a.k"), below(shallow), min_size=1, max_size=2)),
        lambda part: st.one_of(
            logic(part),
            st.dictionaries(keys, part, min_size=1, max_size=2),
            st.tuples(st.lists(keys | odd_keys, min_size=1, max_size=2), shallow).map(
                lambda t: {"$path": t[0], **t[1]}
            ),
        ),
        max_leaves=3,
    )
)
lists = short(st.lists(alternatives, min_size=1, max_size=3))
# what SNS and EventBridge write: lists, fields below fields, and $or
policy_keys = keys | st.sampled_from(["a.k", "k.a"])
policies = short(
    st.recursive(
        short(st.dictionaries(policy_keys, lists, min_size=1, max_size=2)),
        lambda part: st.one_of(
            st.dictionaries(keys, part, min_size=1, max_size=2),
            st.dictionaries(keys, part | lists, min_size=1, max_size=2),
            st.lists(part, min_size=2, max_size=3).map(lambda p: {"$or": p}),
            st.tuples(part, part).map(lambda p: {**p[0], "$or": [p[1], p[0]]}),
        ),
        max_leaves=3,
    )
)
header_blocks = short(
    st.recursive(
        short(st.dictionaries(keys, below(shallow), min_size=1, max_size=2)),
        logic,
        max_leaves=3,
    )
)
tests = below(relative | shallow)
message_fields = short(
    st.one_of(
        st.tuples(
            st.sampled_from(["msg.topic", "msg.sender", "msg.priority", "msg.attempt", "msg.id"]),
            below(shallow),
        ).map(lambda t: dict([t])),
        st.tuples(
            st.sampled_from(["msg.published_at", "msg.expires_at"]),
            st.one_of(
                st.none(),
                st.just("2030-01-01"),
                st.tuples(order_operators | st.sampled_from(["$eq", "$ne"]), moments).map(
                    lambda t: dict([t])
                ),
                one("$between", st.lists(moments, min_size=2, max_size=2)),
                one("$exists", st.booleans()),
                one("$isNull", st.booleans()),
                st.just([{"anything-but": "2030-01-01"}, None]),
            ),
        ).map(lambda t: dict([t])),
    )
)
blocks = short(
    st.one_of(
        st.dictionaries(field_names, tests, min_size=1, max_size=2),
        st.dictionaries(keys, tests, min_size=1, max_size=3),
        st.dictionaries(keys.map("payload.{}".format), tests, min_size=1, max_size=2),
        message_fields,
        one("payload", relative),
        one("payload", policies),
        one("payload", policies),
        one("headers", header_blocks),
        st.tuples(header_blocks, policies).map(lambda t: {**t[0], "payload": t[1]}),
        st.tuples(st.lists(odd_keys, min_size=1, max_size=2), shallow).map(
            lambda t: {"$path": ["payload", *t[0]], **t[1]}
        ),
        st.tuples(odd_keys, shallow).map(lambda t: {"$path": ["headers", t[0]], **t[1]}),
        st.just({}),
    )
)
filters = short(st.recursive(blocks, logic, max_leaves=4))


def parts_of(document: Any) -> list[Any]:
    """Return every value in a document, which a message needs to match it."""
    below = document.values() if isinstance(document, dict) else document
    if isinstance(document, dict | list):
        return [document, *(part for value in below for part in parts_of(value))]
    if isinstance(document, str):
        plain = document.replace("%", "a").replace("*", "b").replace("\\", "")
        address = document.partition("/")[0].replace("::", "::0:1")
        return [document, plain, document.upper(), f"a{document}", address]
    return [document]


def message_for(document: Any, seed: int) -> Message:
    """A message that has a fair chance to match the document; one number, so that it is fast."""
    chance = random.Random(seed)
    fitting = [*parts_of(document), *SCALARS]

    def value(depth: int) -> Any:
        kind = chance.randrange(8) if depth < 3 else 7
        if kind == 0:
            return [value(depth + 1) for _ in range(chance.randrange(4))]
        if kind <= 2:
            return fields_of(depth + 1)
        return chance.choice(fitting)

    def fields_of(depth: int) -> dict[str, Any]:
        names = chance.choice([["k"], ["a", "k"], ["k", "a", "b"], ["k", "a", "b", *ODD_KEYS]])
        return {name: value(depth) for name in names if chance.random() < 0.8}

    own = {
        "topic": ["a", "a.b", "a.b.c", "b"],
        "sender": ["a", "b", "ab", ""],
        "priority": range(-3, 12),
        "attempt": range(1, 5),
        "id": range(1, 10),
        "published_at": [1893456000, 1893452400, 1893369600],
        "expires_at": [1893456000, 1893452400],
    }
    return Message(
        headers=fields_of(0),
        payload=value(0) if chance.random() < 0.2 else fields_of(0),
        msg={name: chance.choice(some) for name, some in own.items() if chance.random() < 0.7},
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, list[Message]]:
    """A filter, and messages to try it on."""
    document = draw(filters)
    seed = draw(st.integers(0, 2**32))
    return document, [message_for(document, seed + i) for i in range(6)]


def as_json(value: Any) -> str:
    def write(part: Any) -> str:
        if isinstance(part, Decimal):
            return format(part, "f")
        if isinstance(part, dict):
            return "{" + ", ".join(f"{json.dumps(k)}: {write(v)}" for k, v in part.items()) + "}"
        if isinstance(part, list):
            return "[" + ", ".join(map(write, part)) + "]"
        return json.dumps(part)

    return write(value)


def moment(seconds: int | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


TREE = "select pgq._filter_reads(t), pgq._filter_path(t)::text from pgq._filter_parse(%s::jsonb) t"
TEST = """
    select pgq._test_filter(%(path)s::jsonpath, %(scope)s::text, %(headers)s::jsonb,
        %(payload)s::jsonb, %(topic)s, %(priority)s, %(sender)s, null, null, null, null,
        %(attempt)s, %(published_at)s, %(expires_at)s, %(id)s, %(now)s)
"""
MATCHES = """
    select pgq.matches(%(filter)s::jsonb, %(headers)s::jsonb, %(payload)s::jsonb,
        topic => %(topic)s, priority => %(priority)s, sender => %(sender)s, id => %(id)s,
        attempt => %(attempt)s, published_at => %(published_at)s, expires_at => %(expires_at)s)
"""
NOW = 1893456000


def valid(document: Any) -> Test:
    """Return the oracle's test of the document; skip documents over a limit."""
    try:
        return compile_filter(document)
    except InvalidFilter as error:
        assume(str(error) not in ("too deep", "too many nodes"))
        raise


def parameters(message: Message) -> dict[str, Any]:
    names = ("topic", "priority", "sender", "attempt", "id")
    return {
        **{name: message.msg.get(name) for name in names},
        "headers": as_json(message.headers),
        "payload": as_json(message.payload),
        "published_at": moment(message.msg.get("published_at")),
        "expires_at": moment(message.msg.get("expires_at")),
        "now": moment(NOW),
    }


@compared
@given(case=cases())
def test_the_compiled_filter_agrees_with_the_oracle(
    db: psycopg.Connection[Any], case: tuple[Any, list[Message]]
) -> None:
    document, sample = case
    expected = valid(document)
    row = db.execute(TREE, [as_json(document)]).fetchone()
    assert row is not None
    scope, path = row
    kind = "suffixes" if "\n" in scope else scope
    event(kind)
    for message in sample:
        answer = expected(World(message, Decimal(NOW)))
        event(f"{kind}: {answer}")
        found = db.execute(
            TEST,
            {**parameters(message), "path": path, "scope": scope},
        ).fetchone()
        assert found == (answer,), (document, message, path)


@compared
@given(case=cases())
def test_matches_agrees_with_the_oracle(
    db: psycopg.Connection[Any], case: tuple[Any, list[Message]]
) -> None:
    document, [message, *_] = case
    if "$now" in as_json(document):
        return
    message.msg.setdefault("published_at", NOW)
    answer = valid(document)(World(message, Decimal(NOW)))
    found = db.execute(MATCHES, {**parameters(message), "filter": as_json(document)}).fetchone()
    assert found == (answer,)


@compared
@given(case=cases())
def test_the_complement_matches_exactly_the_other_messages(
    db: psycopg.Connection[Any], case: tuple[Any, list[Message]]
) -> None:
    document, [message, *_] = case
    valid({"$not": document})
    both = [
        db.execute(MATCHES, {**parameters(message), "filter": as_json(chosen)}).fetchone()
        for chosen in (document, {"$not": document})
    ]
    assert sorted(map(str, both)) == ["(False,)", "(True,)"]


@compared
@given(case=cases(), lane=st.sets(keys, max_size=2))
def test_a_projected_filter_keeps_every_match(
    db: psycopg.Connection[Any], case: tuple[Any, list[Message]], lane: set[str]
) -> None:
    document, [message, *_] = case
    answer = valid(document)(World(message, Decimal(NOW)))
    row = db.execute(
        """
        select w.final, pgq._filter_scope(w.tree),
            jsonb_path_match(%s::jsonb, pgq._filter_path(w.tree), '{}', true)
        from pgq._filter_project(pgq._filter_parse(%s::jsonb), %s::text[]) as w
        """,
        [
            as_json({k: v for k, v in message.headers.items() if k in lane}),
            as_json(document),
            sorted(lane),
        ],
    ).fetchone()
    assert row is not None
    final, scope, kept = row
    assert scope == "headers"
    assert kept or not answer
    assert kept == answer or not final
    event(f"final {final}, kept {kept}, answer {answer}")


STANDING = """
    create function public.found(document jsonb, ids bigint[]) returns setof bool
    language plpgsql volatile as $$
    declare
        v_binding pgq.binding;
        v_choice jsonb;
        v_route pgq.route;
    begin
        perform pgq.unsubscribe('s', 't'), pgq.subscribe('s', 't', document);
        select b.* into v_binding from pgq.binding b where b.pattern = 't' and b.filter = document;
        for v_choice in
            select jsonb_array_elements(pgq._filter_anchors(pgq._filter_parse(document)))
        loop
            delete from pgq.anchor;
            insert into pgq.anchor
            select * from pgq._anchor_rows(v_binding.binding_id, 't', v_choice);
            update pgq.binding b set anchors = (select count(*) from pgq.anchor)
            where b.binding_id = v_binding.binding_id;
            perform pgq._rerouted();
            v_route := pgq._route_of('t');
            if v_route.fields is null then
                raise 'not found by its anchors: %', v_choice;
            end if;
            return next coalesce(
                (pgq._find_bindings(v_route, ids, '2030-01-01Z')).message_ids, '{}') @> ids;
        end loop;
    end $$;
"""
# Every route, however small, is searched by the anchors of its filters.
INDEX_ALL = """
    do $$ begin
        execute regexp_replace(
            regexp_replace(pg_get_functiondef('pgq._limit'::regproc),
                $x$(standing_filters'::text THEN) \\d+$x$, '\\1 1'),
            $x$(field_filters'::text THEN) \\d+$x$, '\\1 1');
    end $$
"""


fields = short(
    st.one_of(
        st.dictionaries(keys, tests, min_size=1, max_size=2),
        st.dictionaries(keys.map("payload.{}".format), tests, min_size=1, max_size=2),
        st.dictionaries(keys.map("payload.a.{}".format), tests, min_size=1, max_size=2),
        st.dictionaries(
            st.sampled_from(["msg.sender", "msg.priority"]), below(shallow), min_size=1
        ),
        one("payload", policies),
        one("payload", relative),
    )
)


@st.composite
def standing_cases(draw: st.DrawFn) -> tuple[Any, list[Message]]:
    """A filter that asks for something, and messages to try it on."""
    document = draw(fields | st.tuples(fields, fields).map(lambda t: {"$or": list(t)}))
    seed = draw(st.integers(0, 2**32))
    return document, [message_for(document, seed + i) for i in range(12)]


@pytest.fixture
def standing(db: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    db.execute(INDEX_ALL)
    db.execute(STANDING)
    return db


def on_header(test: Any, value: Any) -> tuple[Any, list[Message]]:
    return {"k": test}, [Message(headers={"k": value})]


# The index has what a text begins with: the plain beginning of a pattern, at most 64 characters.
@compared
@given(case=standing_cases())
@example(case=on_header({"$wildcard": "a*b"}, "axb"))
@example(case=on_header([{"wildcard": "b"}, {"wildcard": "a\\*b*"}], "a*bc"))
@example(case=on_header({"$like": "a_b%c"}, "axbc"))
@example(case=on_header({"$like": "a\\%b"}, "a%b"))
@example(case=on_header({"$topic": "a.#.b"}, "a.b"))
@example(case=on_header([{"prefix": "a" * 70}], "a" * 71))
@example(case=on_header(["a", {"suffix": "b"}], "xb"))
@example(case=on_header({"$gt": 1, "$lt": 3}, 2))
@example(case=on_header({"$gte": "a", "$lt": "b"}, "ab"))
@example(case=on_header([{"exists": False}, "a"], "a"))
def test_a_standing_filter_is_found_by_every_message_that_it_matches(
    standing: psycopg.Connection[Any], case: tuple[Any, list[Message]]
) -> None:
    document, sample = case
    expected = valid(document)
    ids = []
    with standing.transaction(force_rollback=True):
        for message in sample:
            # what can be published: headers are scalars, and the rest is given
            headers = {k: v for k, v in message.headers.items() if not isinstance(v, dict | list)}
            kept = {k: v for k, v in message.msg.items() if k in ("priority", "sender")}
            known = Message(headers, message.payload, {**kept, "topic": "t", "attempt": 1})
            known.msg.setdefault("priority", 0)
            row = standing.execute(
                """
                insert into pgq.message (topic, headers, payload, priority, sender, deliver_at)
                values ('t', %s, %s, %s, %s, 'infinity')
                returning id, extract(epoch from published_at)
                """,
                [as_json(headers), as_json(message.payload), known.msg["priority"],
                 known.msg.get("sender")],
            ).fetchone()  # fmt: skip
            assert row is not None
            known.msg["id"], known.msg["published_at"] = row
            if expected(World(known, Decimal(NOW))):
                ids.append(row[0])
        event(f"{len(ids)} matches")
        if ids and document:
            found = standing.execute(
                "select public.found(%s::jsonb, %s)", [as_json(document), ids]
            ).fetchall()
            event(f"{len(found)} choices")
            assert all(answer for (answer,) in found), (document, sample)


LANE_FIELDS = ["k", "a", "payload.k", "payload.a", "payload.a.k", "payload.a.b.k", "msg.sender"]
LANES = """
    select f.lane_final, l.label @> '[{}]' as mixed,
        jsonb_path_match(pgq._lane_document(%(keys)s, l.label), f.lane_path, '{}', true),
        f.lane_hashes is null or pgq._lane_hash(pgq._lane_value(m, %(hashed)s)) = any (
            f.lane_hashes)
    from pgq._find_filter(%(filter)s::jsonb, %(keys)s) f,
        jsonb_populate_record(null::pgq.message, %(message)s::jsonb) m,
        pgq._lane_label(m, %(keys)s) l (label)
"""


@st.composite
def lane_keys(draw: st.DrawFn) -> tuple[list[str], str | None]:
    """Lane keys of which none lies below another, and which of them is hashed."""
    names = draw(st.permutations(LANE_FIELDS))[: draw(st.integers(1, 4))]
    names = [n for n in names if not any(m.startswith(f"{n}.") for m in names)]
    hashed = draw(st.sampled_from([None, *names]))
    return [f"#{name}" if name == hashed else name for name in names], hashed


BELOW = {"payload": {"a": {"k": ["a"]}}}
IN_LANE_K, IN_LANE_A_K = (([f"#{name}"], name) for name in ("payload.k", "payload.a.k"))


@compared
@given(case=cases(), lanes=lane_keys())
# A value that is no scalar has no hash of its own, and any filter may match it.
@example(case=({"payload.k": "a"}, [Message(payload={"k": ["b", "a"]})]), lanes=IN_LANE_K)
@example(case=({"payload.k": "a"}, [Message(payload={"k": "a"})]), lanes=IN_LANE_K)
@example(case=({"payload.k": None}, [Message(payload={"k": None})]), lanes=IN_LANE_K)
@example(case=(BELOW, [Message(payload={"a": [{"k": "b"}, {"k": "a"}]})]), lanes=IN_LANE_A_K)
@example(case=(BELOW, [Message(payload={"a.k": "a"})]), lanes=IN_LANE_A_K)
def test_the_lane_and_the_hash_of_a_match_are_kept(
    db: psycopg.Connection[Any],
    case: tuple[Any, list[Message]],
    lanes: tuple[list[str], str | None],
) -> None:
    document, sample = case
    expected = valid(document)
    names, hashed = lanes
    for message in sample:
        scalars = {k: v for k, v in message.headers.items() if not isinstance(v, dict | list)}
        message = Message(headers=scalars, payload=message.payload, msg=message.msg)
        answer = expected(World(message, Decimal(NOW)))
        own = {"sender": message.msg.get("sender"), "topic": message.msg.get("topic")}
        row = db.execute(
            LANES,
            {
                "keys": names,
                "hashed": hashed,
                "filter": as_json(document),
                "message": as_json({**own, "headers": scalars, "payload": message.payload}),
            },
        ).fetchone()
        assert row is not None
        final, mixed, kept, hash_kept = row
        assert hash_kept or not answer, (document, message, names)
        assert mixed or kept or not answer, (document, message, names)
        assert mixed or not final or kept == answer, (document, message, names)
        event(f"final {final}, mixed {mixed}, kept {kept}, hash {hash_kept}, answer {answer}")


SPOILERS = (
    "$foo $and $not $eq $gt $regex $options $path $now $size $const $mod $elemMatch $like $between "
    "$exists $in $topic headers payload msg k 1a payload. payload.k. .k foo.bar msg.size headers.k "
    "prefix numeric anything-but cidr exists "
)


def spoil(draw: st.DrawFn, document: Any) -> Any:
    """The document with one part replaced, renamed, added or wrapped."""
    if isinstance(document, dict) and document and draw(st.integers(0, 3)) > 0:
        key = draw(st.sampled_from(sorted(document)))
        rest = {k: v for k, v in document.items() if k != key}
        return {**rest, key: spoil(draw, document[key])}
    if isinstance(document, list) and document and draw(st.integers(0, 3)) > 0:
        index = draw(st.integers(0, len(document) - 1))
        return [spoil(draw, v) if i == index else v for i, v in enumerate(document)]
    name = draw(st.sampled_from(SPOILERS.split(" ")))
    part: Any = draw(st.one_of(operands, regexes, st.just({}), st.just([]), st.just(document)))
    match draw(st.integers(0, 3)):
        case 0:
            return part
        case 1 if isinstance(document, dict):
            return {**document, name: part}
        case 2 if isinstance(document, list):
            return [*document, part]
        case _:
            return {name: document}


@st.composite
def spoilt(draw: st.DrawFn) -> Any:
    document = draw(filters)
    for _ in range(draw(st.integers(1, 2))):
        document = spoil(draw, document)
    return document


@compared
@given(document=spoilt())
def test_a_document_is_refused_by_both_or_by_none(
    db: psycopg.Connection[Any], document: Any
) -> None:
    try:
        compile_filter(document)
        valid = True
    except InvalidFilter:
        valid = False
    event(f"valid {valid}")
    refusal = None
    try:
        db.execute("select pgq.compile_filter(%s::jsonb)", [as_json(document)])
    except psycopg.Error as error:
        refusal = error
    assert (refusal is None) == valid, document
    if refusal is not None:
        assert refusal.sqlstate == "QU004", refusal
        assert refusal.diag.message_primary is not None
        assert "\n" not in refusal.diag.message_primary
        assert refusal.diag.message_detail
        assert refusal.diag.message_hint


def on_fields(test: Any, number: int) -> dict[str, Any]:
    return {f"k{i}": test for i in range(number)}


def patterns_of(operator: str, number: int, text: str = "x") -> list[Any]:
    return [{operator: f"{text}{i}"} for i in range(number)]


# Documents at a limit, the last that is accepted before the first that is not.
LIMITS: list[tuple[Any, Any]] = [
    *(
        (on_fields(test, number), on_fields(test, number + 1))
        for test, number in [
            (1, 100),
            ([1, 2], 50),
            ([1] * 10, 12),
            ({"$in": [1] * 8}, 12),
            ({"$nin": [1, 2]}, 25),
            ({"$ne": 1}, 33),
            ({"$ne": [1] * 10}, 2),
            ({"$gt": 1}, 33),
            ({"$isNull": True}, 33),
            ({"$exists": True}, 100),
            ({"$eq": [1] * 9}, 2),
            ({"$all": [1, 2]}, 16),
            ({"$contains": {"a": [1] * 8}}, 2),
            ({"$elemMatch": {"$gt": 1}}, 12),
            ([{"numeric": [">", 1]}, {"exactly": "a"}], 25),
            ([{"anything-but": [1] * 3}], 20),
            (patterns_of("prefix", 45), 76),
            (patterns_of("prefix", 46), 50),
            ({"$ilike": "a" * 50}, 2),
            ({"$like": "a_b"}, 12),
            ({"$like": "%a"}, 4),
            ({"$like": "%a__"}, 1),
            ({"$nlike": "%a"}, 4),
            ({"$regex": "a"}, 5),
            ({"$regex": "a" * 30}, 2),
            ({"$regex": "a{25}"}, 1),
            ([{"suffix": "a"}], 5),
            ([{"suffix": "a"}, {"equals-ignore-case": "b"}], 3),
            ([{"suffix": {"equals-ignore-case": "a"}}], 4),
            ([{"anything-but": {"wildcard": "*a"}}], 4),
            ([{"cidr": "10.0.0.0/8"}], 7),
            ([{"cidr": "::/8"}], 3),
            ({"$regex": "^a.{9}b"}, 7),
            ({"$regex": "[a-c].b"}, 1),
            ({"$regex": "ab[0-9a-f]{6}"}, 1),
            ({"$regex": "[0-9]{4}-[0-9]{2}"}, 2),
            ({"$topic": "a.#.b.#"}, 4),
            ({"$size": 1}, 33),
        ]
    ),
    ({"payload": on_fields(1, 33)}, {"payload": on_fields(1, 34)}),
    ({"payload": on_fields({"$eq": 1}, 100)}, {"payload": on_fields({"$eq": 1}, 101)}),
    (
        {"$or": [{"msg.sender": f"{i}"} for i in range(33)]},
        {"$or": [{"msg.sender": f"{i}"} for i in range(34)]},
    ),
    (
        {"$or": [{"msg.priority": {"$gt": i}} for i in range(19)]},
        {"$or": [{"msg.priority": {"$gt": i}} for i in range(20)]},
    ),
    ({"k": {"$suffix": "a" * 1024}}, {"k": {"$suffix": "a" * 1025}}),
    ({"k": {"$substr": "a" * 69}}, {"k": {"$substr": "a" * 70}}),
    *(
        (
            {"field": test, **on_fields(1, 100 - nodes)},
            {"field": test, **on_fields(1, 101 - nodes)},
        )
        for test, nodes in [
            (patterns_of("suffix", 9), 51),
            (patterns_of("suffix", 1000), 73),
            ({"$suffix": "a" * 400}, 61),
            ({"$like": "%" + "a" * 400}, 61),
            (patterns_of("suffix", 9) + patterns_of("wildcard", 1, "a*"), 72),
            ([{"anything-but": {"suffix": ["x" * i for i in range(1, 10)]}}], 53),
        ]
    ),
    (
        {"k": patterns_of("suffix", 1000)},
        {"k": patterns_of("suffix", 9), "payload.k": patterns_of("suffix", 9)},
    ),
    ({"k": {"$all": [1] * 33}}, {"k": {"$all": [1] * 34}}),
    ({"k": {"$regex": "a+" * 12}}, {"k": {"$regex": "a+" * 13}}),
    ({"k": {"$regex": "(?:a{2,3}b){3}"}}, {"k": {"$regex": "(?:a{110}){9}"}}),
    ({"k": {"$wildcard": "*a" * 12}}, {"k": {"$wildcard": "*a" * 13}}),
    (
        {"msg.topic": [{"wildcard": f"{i}a*z"} for i in range(900)]},
        {"msg.topic": patterns_of("equals-ignore-case", 900)},
    ),
    (
        {"k": [{"wildcard": f"{'a' * i}*z"} for i in range(9)]},
        {"k": [{"wildcard": f"{'a' * i}*z"} for i in range(10)]},
    ),
    (
        {"k": [{"equals-ignore-case": f"{chr(97 + i % 26)}{i}"} for i in range(1000)]},
        {"k": [{"equals-ignore-case": f"a{chr(97 + i % 26)}{i}"} for i in range(1000)]},
    ),
    (
        {"k": [{"wildcard": f"{i:04}*z"} for i in range(1000)]},
        {"k": [{"wildcard": f"{i:04}*{'z' * 50}"} for i in range(1000)]},
    ),
]


def test_both_have_the_same_limits(db: psycopg.Connection[Any]) -> None:
    for accepted, refused in LIMITS:
        compile_filter(accepted)
        db.execute("select pgq.compile_filter(%s::jsonb)", [as_json(accepted)])
        with pytest.raises(InvalidFilter):
            compile_filter(refused)
        with pytest.raises(psycopg.Error) as caught:
            db.execute("select pgq.compile_filter(%s::jsonb)", [as_json(refused)])
        assert caught.value.sqlstate == "QU004", as_json(refused)[:80]


TWO = {"items": [{"sku": "a", "size": "S"}, {"sku": "b", "size": "L", "old": 1}]}
POLICIES: list[tuple[Any, Any, bool]] = [
    ({"items": {"sku": ["a"], "size": ["L"]}}, TWO, False),
    ({"items": {"sku": ["b"], "size": ["L"]}}, TWO, True),
    ({"items": {"sku": {"$eq": "a"}, "size": {"$eq": "L"}}}, TWO, True),
    ({"items": {"sku": ["a"], "old": [{"exists": False}]}}, TWO, True),
    ({"items": {"sku": ["b"], "old": [{"exists": False}]}}, TWO, False),
    ({"items": {"old": [{"exists": False}]}}, TWO, False),
    ({"items": {"old": [2, {"exists": False}]}}, {"items": [{}, {"old": 2}]}, True),
    ({"items": {"$or": [{"sku": ["a"]}, {"sku": ["c"]}], "size": ["L"]}}, TWO, False),
    ({"$and": [{"items.sku": ["a"]}, {"items.size": ["L"]}]}, TWO, True),
    ({"items": {"sku": [{"anything-but": "b"}], "size": ["L"]}}, TWO, False),
    ({"k": [{"anything-but": "a"}]}, {"k": ["a", None]}, True),
    ({"k": [{"exists": True}]}, {"k": [[], {}]}, False),
    ({"k": ["a"]}, {"k": [[[["a"]]]]}, True),
    ({"k": ["a"]}, {"k": [[[[["a"]]]]]}, False),
    ({"a": {"b": {"c": [1]}}}, {"a.b": [{"c": 1}]}, True),
    ({"a": {"b": [1, *range(200, 300)]}}, {"a.b": 1}, False),
    ({"a": {"b": [1, *range(200, 299)]}}, {"a.b": 1}, True),
    ({"k": [{"cidr": "10.0.2.0/23"}]}, {"k": ["10.0.4.1", "10.0.3.1"]}, True),
    ({"k": [{"cidr": "2001:db8::/33"}]}, {"k": "2001:DB8:7fff::"}, True),
    ({"k": [{"cidr": "2001:db8::/33"}]}, {"k": "2001:db8:8000::"}, False),
    ({"k": [{"wildcard": f"{i}a*z{i}"} for i in range(300)]}, {"k": "299axxz299"}, True),
    ({"k": patterns_of("wildcard", 9, "a*")}, {"k": "axx8"}, True),
    ({"k": patterns_of("prefix", 300)}, {"k": "x3"}, True),
    ({"k": patterns_of("prefix", 300)}, {"k": "y"}, False),
    # Beside a long list of suffixes, keys have one spelling.
    (
        {"a": {"b": {"k": patterns_of("suffix", 9), "l": ["y"]}}},
        {"a": {"b": {"k": "x1", "l": "y"}}},
        True,
    ),
    (
        {"a": {"b": {"k": patterns_of("suffix", 9), "l": ["y"]}}},
        {"a.b": {"k": "x1", "l": "y"}},
        False,
    ),
    (
        {"a": {"b": {"k": patterns_of("suffix", 1), "l": ["y"]}}},
        {"a.b": {"k": "x0", "l": "y"}},
        True,
    ),
]


def test_a_policy_has_the_meaning_of_aws(db: psycopg.Connection[Any]) -> None:
    for policy, payload, expected in POLICIES:
        document = {"payload": policy}
        message = Message(payload=payload)
        assert compile_filter(document)(World(message, Decimal(NOW))) is expected, document
        found = db.execute(MATCHES, {**parameters(message), "filter": as_json(document)}).fetchone()
        assert found == (expected,), document


def is_publishable(message: Message) -> bool:
    return not any(isinstance(value, dict | list) for value in message.headers.values())


# Each example publishes and claims: fewer of them take as long.
@settings(compared, max_examples=max(EXAMPLES // 5, 20))
@given(case=cases(), lanes=st.sets(keys, min_size=1, max_size=2))
@example(case=({"k": "a"}, [Message(headers={"k": "a"}) for _ in range(4)]), lanes={"k"})
def test_claims_and_subscriptions_agree_with_the_oracle(
    db: psycopg.Connection[Any], case: tuple[Any, list[Message]], lanes: set[str]
) -> None:
    document, sample = case
    expected = valid(document)
    text = as_json(document)
    assume('"msg' not in text and "$now" not in text)  # what the server makes of a publish
    sample = [message for message in sample if is_publishable(message)]
    with db.transaction(force_rollback=True):
        db.execute("select pgq.create_queue('plain')")
        names = sorted(lanes)
        for queue, lane_keys in (
            ("laned", names),
            ("hashed", [f"#{names[0]}", *names[1:]]),
            ("auto", ["auto"]),
            ("rehashed", None),
        ):
            db.execute("select pgq.create_queue(%s, lane_keys => %s)", [queue, lane_keys])
            db.execute("select pgq.subscribe(%s, 'plain')", [queue])
        db.execute("select pgq.subscribe('filtered', 'plain', %s::jsonb)", [text])
        wanted = []
        for number, message in enumerate(sample):
            if number == len(sample) // 4:
                db.execute("select pgq.alter_queue('rehashed', lane_keys => '{#other}')")
            if number == len(sample) // 2:
                db.execute(
                    "select pgq.alter_queue('rehashed', lane_keys => %s)", [[f"#{names[0]}"]]
                )
                # as maintenance does it when a filter tests much
                db.execute(
                    "select pgq._set_lane_keys(q, %s) from pgq.queue q where q.name = 'auto'",
                    [names],
                )
            row = db.execute(
                "select pgq.publish('plain', %s::jsonb, %s::jsonb)",
                [as_json(message.payload), as_json(message.headers)],
            ).fetchone()
            assert row is not None
            if expected(World(message, Decimal(NOW))):
                wanted.append(row[0])
        if len(sample) % 2:  # the first half is sorted into lanes, or still to be sorted
            db.execute("call pgq.maintain()")
        for queue in ("plain", "laned", "hashed", "auto", "rehashed", "filtered"):
            filter = None if queue == "filtered" else text
            rows = db.execute(
                "select id from pgq.claim(%s, %s::jsonb, n => 100)", [queue, filter]
            ).fetchall()
            assert sorted(id for (id,) in rows) == wanted, (queue, document)
        event(f"{len(wanted)} of {len(sample)} match")
