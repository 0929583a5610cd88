"""Limits as seen in the audit log: how much was leased at a time, and at what rate."""

from __future__ import annotations

from typing import Any

import psycopg

__all__ = ["completed", "most_at_once", "most_leased", "shares"]

# Leases begin and end as the audit log records. At the same time, ends come before begins.
_EVENTS = """
with ended as (
    select j.claimed_at, j.at, m.headers ->> 'tenant' as tenant
      from pgq.journal j
     cross join lateral unnest(j.ids) r
      join pgq.message m on m.id >= lower(r) and m.id < upper(r)
     where j.event = 'ack'
), moment as (
    select tenant, claimed_at as at, 1 as step from ended
    union all
    select tenant, at, -1 from ended
)
"""
_LEASED = (
    _EVENTS
    + """
select max(leased) from (
    select sum(sum(step)) over (order by at rows unbounded preceding) as leased
      from moment group by at) m
"""
)
_LEASED_BY_TENANT = (
    _EVENTS
    + """
select max(leased) from (
    select sum(sum(step)) over (partition by tenant order by at rows unbounded preceding) as leased
      from moment group by tenant, at) m
"""
)
_AT_ONCE = (
    _EVENTS
    + """
select max(n) from (
    select count(*) over (partition by case when %(by_tenant)s then tenant end order by claimed_at
                          range between %(window)s::interval preceding and current row) as n
      from ended) m
"""
)


def completed(conn: psycopg.Connection) -> int:
    """Return how many messages are done."""
    return _value(conn, "select coalesce(sum(size), 0)::int from pgq.journal where event = 'ack'")


def most_leased(conn: psycopg.Connection, *, by_tenant: bool = False) -> int:
    """Return how many messages were leased at a time, at most; of one tenant, or of all."""
    return _value(conn, _LEASED_BY_TENANT if by_tenant else _LEASED)


def most_at_once(conn: psycopg.Connection, window: str, *, by_tenant: bool = False) -> int:
    """Return how many messages were claimed within some time, at most."""
    return _value(conn, _AT_ONCE, {"window": window, "by_tenant": by_tenant})


def shares(conn: psycopg.Connection) -> dict[str, int]:
    """Return how many messages of each tenant are done."""
    rows = conn.execute((_EVENTS + "select tenant, count(*) from ended group by 1").encode())
    return dict(rows.fetchall())


def _value(conn: psycopg.Connection, query: str, parameters: Any = None) -> int:
    row = conn.execute(query.encode(), parameters).fetchone()
    assert row is not None
    return int(row[0] or 0)
