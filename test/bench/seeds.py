"""Queues of other designs: a table, and the statements that claim from it."""

from __future__ import annotations

from dataclasses import dataclass

from bench.cluster import Session
from bench.systems import HEADERS, PAYLOADS


@dataclass(frozen=True)
class TableQueue:
    """A queue table and its statements, whose parameters are `%s`."""

    name: str
    table: str
    schema: str
    #: Parameter: the payloads, an array of JSON.
    insert: str
    #: Parameter: how many. The first column is the id.
    claim: str
    #: Parameter: the ids, an array.
    end: str
    #: A statement between claim and end, if the design has one. Parameter: the ids.
    begin: str | None = None
    #: The largest number that one claim can take.
    most: int = 1_000_000

    @property
    def tables(self) -> tuple[str, ...]:
        return (self.table,)

    def create(self, session: Session) -> None:
        for statement in self.schema.split(";"):
            session.execute(statement)

    def publish(self, session: Session, count: int, batch: int) -> None:
        for number in range(0, count, batch):
            bodies = PAYLOADS[:batch] if batch > 1 else [PAYLOADS[number % 1000]]
            session.execute(self.insert, bodies)

    def consume(self, session: Session, count: int, batch: int) -> None:
        left = count
        while left > 0:
            ids = [row[0] for row in session.execute(self.claim, min(batch, self.most))]
            if not ids:
                raise RuntimeError(f"{left} messages are missing")
            if self.begin is not None:
                session.execute(self.begin, ids)
            session.execute(self.end, ids)
            left -= len(ids)


NATIVE = TableQueue(
    name="PeeGeeQ, native",
    table="queue_messages",
    schema="""
        create table queue_messages (
            id bigserial primary key, topic text not null, payload jsonb not null,
            headers jsonb not null default '{}', correlation_id text, message_group text,
            status text not null default 'AVAILABLE', priority int not null default 5,
            retry_count int not null default 0, visible_at timestamptz not null default now(),
            lock_until timestamptz, created_at timestamptz not null default now());
        create index on queue_messages (topic, priority desc, created_at)
            where status = 'AVAILABLE'
        """,
    insert=f"""
        insert into queue_messages (topic, payload, headers)
        select 'orders', body, '{HEADERS}' from unnest(%s::jsonb[]) body
        """,
    claim="""
        with c as (
            select id from queue_messages
            where topic = 'orders' and status = 'AVAILABLE' and visible_at <= now()
            order by priority desc, created_at asc limit %s for update skip locked)
        update queue_messages q
        set status = 'LOCKED', lock_until = now() + make_interval(secs => 30)
        from c where q.id = c.id
        returning q.id, q.payload, q.headers, q.correlation_id, q.message_group, q.retry_count,
                  q.created_at
        """,
    end="delete from queue_messages where id = any (%s::bigint[])",
)

OUTBOX = TableQueue(
    name="PeeGeeQ, outbox",
    table="outbox",
    schema="""
        create table outbox (
            id bigserial primary key, topic text not null, payload jsonb not null,
            headers jsonb not null default '{}', correlation_id text, message_group text,
            status text not null default 'PENDING', processed_at timestamptz,
            created_at timestamptz not null default now());
        create index on outbox (topic, created_at) where status = 'PENDING'
        """,
    insert=f"""
        insert into outbox (topic, payload, headers)
        select 'orders', body, '{HEADERS}' from unnest(%s::jsonb[]) body
        """,
    claim="""
        update outbox set status = 'PROCESSING', processed_at = now()
        where id in (
            select id from outbox where topic = 'orders' and status = 'PENDING'
            order by created_at asc limit %s for update skip locked)
        returning id, payload, headers, correlation_id, message_group, created_at
        """,
    end="""
        update outbox set status = 'COMPLETED', processed_at = now() where id = any (%s::bigint[])
        """,
)

SMART = TableQueue(
    name="SmartMessage",
    table="smart_messages",
    schema="""
        create table smart_messages (
            id bigserial primary key, uuid uuid not null unique default gen_random_uuid(),
            message_class varchar not null, published_at timestamptz not null default now(),
            publisher_pid integer not null default pg_backend_pid(),
            version integer not null default 1 check (version > 0), serializer varchar,
            from_entity varchar not null default 'bench', to_entity varchar, reply_to varchar,
            payload jsonb not null, payload_format varchar default 'json',
            status varchar default 'pending'
                check (status in ('pending', 'processing', 'completed', 'failed')),
            processed_at timestamptz,
            processing_attempts integer default 0 check (processing_attempts >= 0),
            last_error text, last_processed_by varchar,
            priority integer default 0 check (priority >= 0),
            process_after timestamptz default now(), expires_at timestamptz,
            correlation_id varchar, created_at timestamptz default now(),
            updated_at timestamptz default now());
        create index on smart_messages (status, process_after, priority desc, created_at asc)
            where status in ('pending', 'processing');
        create index on smart_messages (message_class, to_entity, status);
        create index on smart_messages (from_entity, created_at desc);
        create index on smart_messages (correlation_id) where correlation_id is not null;
        create index on smart_messages (expires_at)
            where expires_at is not null and status = 'pending';
        create index on smart_messages (message_class, priority desc, created_at asc)
            where status in ('pending', 'processing')
        """,
    insert="""
        insert into smart_messages (message_class, payload)
        select 'order', body from unnest(%s::jsonb[]) body
        """,
    claim="""
        select * from smart_messages
        where message_class = 'order' and status = 'pending' and process_after <= now()
        order by priority desc, created_at limit %s
        """,
    begin="""
        update smart_messages
        set status = 'processing', processing_attempts = processing_attempts + 1, updated_at = now()
        where id = any (%s::bigint[])
        """,
    end="""
        update smart_messages set status = 'completed', processed_at = now(), updated_at = now()
        where id = any (%s::bigint[])
        """,
)

MINIQ = TableQueue(
    name="MiniQ",
    table="miniq",
    schema="""
        create table miniq (
            id bigserial primary key, topic text not null, data text not null,
            status smallint not null default 0,
            in_time bigint not null default extract(epoch from clock_timestamp()) * 1000000,
            done_time bigint, locked_until bigint);
        create index on miniq (topic, in_time) where status = 0
        """,
    insert="insert into miniq (topic, data) select 'orders', body from unnest(%s::text[]) body",
    claim="""
        update miniq
        set status = 1, locked_until = extract(epoch from now() + interval '30 s') * 1000000
        where id = (
            select id from miniq where topic = 'orders' and status = 0
            order by in_time limit %s for update skip locked)
        returning id, topic, data, status, in_time, done_time, locked_until
        """,
    end="""
        update miniq set status = 2, done_time = extract(epoch from now()) * 1000000
        where id = any (%s::bigint[])
        """,
    most=1,
)

SEEDS = (NATIVE, OUTBOX, SMART, MINIQ)
