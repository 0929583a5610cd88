"""The cost of reading does not depend on the backlog: rows read are counted."""

from __future__ import annotations

from pathlib import Path
from typing import LiteralString

import psycopg
import pytest

READ = """
select sum(pg_stat_get_xact_tuples_returned(c.oid))
  from pg_class c
  left join pg_index i on i.indexrelid = c.oid
 where coalesce(i.indrelid, c.oid)::regclass::text ~ '^pgq.(ready|message_[0-9])$'
"""


def rows_read(db: psycopg.Connection, query: LiteralString) -> int:
    """Return how many rows of the log and of ready messages a statement reads."""
    with db.transaction():
        before = db.execute(READ).fetchone()
        db.execute(query)
        after = db.execute(READ).fetchone()
    assert before is not None
    assert after is not None
    return int(after[0] - before[0])


def test_a_peek_into_a_lane_does_not_walk_through_the_log(db: psycopg.Connection) -> None:
    db.execute("select pgq.create_queue('orders', lane_keys => '{type}')")
    db.execute("select pgq.create_queue('others')")
    db.execute(
        "insert into pgq.message (topic, headers, payload) select 'orders',"
        " jsonb_build_object('type', n % 3), to_jsonb(n) from generate_series(1, 30) n"
    )
    db.execute(
        "insert into pgq.message (topic, payload)"
        " select 'others', to_jsonb(n) from generate_series(1, 5000) n"
    )
    assert rows_read(db, "select from pgq.peek('orders', n => 20)") < 500


def test_the_statistics_of_an_empty_queue_do_not_read_other_queues(
    db: psycopg.Connection,
) -> None:
    db.execute("select pgq.create_queue('busy', set_size => 1)")
    db.execute("select pgq.create_queue('idle.' || n) from generate_series(1, 20) n")
    db.execute(
        "insert into pgq.message (topic, payload)"
        " select 'busy', to_jsonb(n) from generate_series(1, 10000) n"
    )
    db.execute("analyze")
    # What is ready is sampled once, and the newest messages are counted.
    assert rows_read(db, "select from pgq.queue_stats") < 40_000


@pytest.mark.parametrize("dedup", ["keep", "replace", "postpone"])
@pytest.mark.parametrize("filtered", [False, True])
def test_inserting_eight_times_as_much_does_not_cost_the_square(
    db: psycopg.Connection, *, filtered: bool, dedup: str
) -> None:
    scheduled = Path(f"/proc/{db.info.backend_pid}/schedstat")
    if not scheduled.exists():
        pytest.skip("the server runs elsewhere")

    def cpu(rows: int, keys: int | None = None) -> int:
        before = int(scheduled.read_text().split()[0])
        db.execute(
            "insert into pgq.message (topic, payload, headers, dedup_key)"
            " select 't', '1', '{\"type\": 1}', 'k' || i %% %s::int from generate_series(1, %s) i",
            [keys, rows],
        )
        return int(scheduled.read_text().split()[0]) - before

    db.execute("select pgq.create_queue('t', dedup => %s)", [dedup])
    if filtered:
        db.execute("select pgq.subscribe('some', 't', '{\"type\": 1}')")
    cpu(100)
    assert cpu(32_000) / cpu(4_000) < 20
    assert cpu(4_000, keys=2) / cpu(500, keys=2) < 20  # nearly all are duplicates
