"""pgmq itself beside the schema that pgq_pgmq serves: the same calls have the same results."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from pgmq import get_embedded_install_sql

from harness.install import check_invariants, install_pgmq
from harness.server import Server

# A function that only a trigger of pgmq's tables calls, and the functions that pgmq keeps private.
NOT_SERVED = {"notify_queue_listeners()"}
# pgmq's Python client calls it, and pgmq does not have it.
ADDED = {"send_topic(routing_key text, msg jsonb, headers jsonb)"}

SIGNATURES = r"""
select p.proname || '(' || regexp_replace(
           pg_get_function_arguments(p.oid), ',? ?caller pgq.caller DEFAULT CURRENT_USER', '') ||
               ')',
       pg_get_function_result(p.oid)
from pg_proc p where p.pronamespace = 'pgmq'::regnamespace and p.proname !~ '^_'
"""
TYPES = """
select c.relname, string_agg(format('%s %s', a.attname, format_type(a.atttypid, null)), ', '
                             order by a.attnum)
from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
where c.relnamespace = 'pgmq'::regnamespace
  and c.relname in ('message_record', 'queue_record', 'metrics_result', 'meta', 'topic_bindings',
                    'q_orders', 'a_orders')
group by 1
"""
HELPER = """
create function public.id(queue text, wanted jsonb) returns bigint language plpgsql as $$
declare
    v_id bigint;
begin
    execute format('select msg_id from pgmq.%I where message = $1', 'q_' || queue)
    into v_id using wanted;
    return coalesce(v_id, -1);
end
$$;
create function public.ids(queue text) returns bigint[] language plpgsql as $$
declare
    v_ids bigint[];
begin
    execute format('select array_agg(msg_id order by msg_id) from pgmq.%I', 'q_' || queue) into
        v_ids;
    return v_ids;
end
$$;
-- As many results as pgmq returns, with the messages instead of their ids.
create function public.shown(queue text, ids bigint[]) returns text language plpgsql as $$
declare
    v_text text;
begin
    execute format('select string_agg(message::text, '' '' order by msg_id) from pgmq.%I'
                   ' where msg_id = any ($1)', 'q_' || queue) into v_text using ids;
    return v_text;
end
$$
"""
GROUPED = """
select pgmq.purge_queue('fifo');
select count(*) from (values (1, 'a'), (2, 'a'), (3, 'b'), (4, 'a'), (5, 'b'), (6, 'c')) v (i, g),
    pgmq.send('fifo', to_jsonb(g || i), jsonb_build_object('x-pgmq-group', g));
select count(*) from pgmq.send('fifo', '"free"');
"""
WALKS = {
    "queues": """
        select pgmq.create('orders');
        select pgmq.create('orders');
        select pgmq.create_unlogged('fast');
        select pgmq.create_non_partitioned('plain');
        select pgmq.create(repeat('a', 48));
        select pgmq.create(repeat('a', 47));
        select pgmq.create('dollar$');
        select pgmq.create('semi;colon');
        select pgmq.create('dash--dash');
        select pgmq.create('it''s');
        select pgmq.create('queue-hyphened');
        select queue_name, is_partitioned, is_unlogged, created_at <= now() from pgmq.list_queues()
            order by 1;
        select queue_name, is_partitioned, is_unlogged from pgmq.meta order by 1;
        select pgmq.format_table_name('Cat-Dog', 'q'), pgmq.format_table_name('cat_dog', 'a');
        select pgmq.format_table_name('dollar$', 'q');
        select pgmq.validate_queue_name(repeat('a', 47));
        select pgmq.validate_queue_name(repeat('a', 48));
        select pgmq.drop_queue('fast');
        select pgmq.drop_queue('fast');
        select pgmq.drop_queue('plain', true);
        select pgmq.drop_queue('plain', false);
        select to_regclass('pgmq.q_fast'), to_regclass('pgmq.a_fast');
        select count(*) from pgmq.list_queues();
        select pgmq.detach_archive('orders');
        select pgmq.create_fifo_index('orders');
        select pgmq.create_fifo_index('missing');
        select pgmq.create_fifo_indexes_all();
        select pgmq.acquire_queue_lock('orders')
    """,
    "send and read": """
        select count(*) from pgmq.send('orders', '{"n": 1}');
        select count(*) from pgmq.send('orders', '{"n": 2}',
            '{"type": "paid", "deep": {"a": [1]}}'::jsonb);
        select count(*) from pgmq.send('orders', '{"n": 3}', 60);
        select count(*) from pgmq.send('orders', '{"n": 4}', now() + interval '1 h');
        select count(*) from pgmq.send('orders', '{"n": 5}', null::jsonb, 60);
        select count(*) from pgmq.send('orders', '{"n": 6}', '{}'::jsonb, now() - interval '1 h');
        select count(*) from pgmq.send('orders', '{"n": 7}', '[1]'::jsonb);
        select count(*) from pgmq.send('orders', '{"n": 8}', '"text"'::jsonb, -5);
        select count(*) from pgmq.send('missing', '1');
        select shown('orders', ids('orders'));
        select read_ct, enqueued_at <= now(), last_read_at is null, vt <= clock_timestamp(),
               message, headers from pgmq.q_orders order by msg_id;
        select read_ct, extract(epoch from vt - last_read_at)::int, message, headers
            from pgmq.read('orders', 30, 1);
        select read_ct, extract(epoch from vt - last_read_at)::int, message, headers
            from pgmq.read('orders', 20, 2) order by msg_id;
        select message from pgmq.read('orders', 30, 0);
        select message, headers from pgmq.read('orders', 0, 10) order by msg_id;
        select read_ct, message from pgmq.read('orders', 30, 10) order by msg_id;
        select message from pgmq.read('orders', 30, 10);
        select message from pgmq.read('missing', 30, 10);
        select * from pgmq.read_with_poll('orders', 30, 10, 0);
        select * from pgmq.read_with_poll('orders', 30, 10, 1, 300);
        select read_ct, message from pgmq.set_vt('orders', ids('orders'), 0) order by msg_id;
        select read_ct, message from pgmq.read('orders', 30, null) order by msg_id;
        select count(*) from pgmq.send('orders', null);
        select read_ct, message, headers from pgmq.read_with_poll('orders', 30, 10, 5, 100);
        select count(*) from pgmq.send_batch('orders', '{1,2,3}');
        select count(*) from pgmq.send_batch('orders', '{4,5}', '{"{\\"h\\": 1}",null}'::jsonb[]);
        select count(*) from pgmq.send_batch('orders', '{6,null}', 60);
        select count(*) from pgmq.send_batch('orders', '{7}', now() + interval '1 h');
        select count(*) from pgmq.send_batch('orders', '{8}', '{"{}"}'::jsonb[], 0);
        select count(*) from pgmq.send_batch('orders', '{9}', null::jsonb[], now());
        select pgmq.send_batch('orders', '{}');
        select pgmq.send_batch('orders', null);
        select pgmq.send_batch('orders', '{1,2}', '{null}'::jsonb[]);
        select pgmq.send_batch('orders', '{1}', '{}'::jsonb[]);
        select message, headers from pgmq.read('orders', 30, 20) order by msg_id
    """,
    "condition": """
        select count(*) from pgmq.send_batch('orders', array['{"a": 1, "b": {"c": "x", "d": 2}}',
            '{"a": [1]}', '{"a": 1, "b": {"c": "y"}}', '{"a": null}', '{"a": [1, 2], "$x": true}',
            '{"a": "1"}', '3', '[1]', '"a"']::jsonb[]);
        select message from pgmq.read('orders', 0, 10, '{"a": 1}') order by msg_id;
        select message from pgmq.read('orders', 0, 10, '{"a": 1, "b": {"c": "x"}}') order by msg_id;
        select message from pgmq.read('orders', 0, 10, '{"a": [1]}') order by msg_id;
        select message from pgmq.read('orders', 0, 10, '{"a": [2]}') order by msg_id;
        select message from pgmq.read('orders', 0, 10, '{"a": []}') order by msg_id;
        select message from pgmq.read('orders', 0, 10, '{"a": null}') order by msg_id;
        select message from pgmq.read('orders', 0, 10, '{"b": {}}') order by msg_id;
        select message from pgmq.read('orders', 0, 10, '{"$x": true}') order by msg_id;
        select message from pgmq.read('orders', 0, 1, '{"b": {"c": "y"}}');
        select message from pgmq.read_with_poll('orders', 0, 10, 1, 100, '{"a": "1"}');
        select message from pgmq.read('orders', 0, 10, '{}') order by msg_id;
        select message from pgmq.read('orders', 30, 10, '{"missing": 1}')
    """,
    "delete, archive, pop, purge": """
        select count(*) from pgmq.send_batch('orders', '{1,2,3,4,5,6,7,8,9}');
        select count(*) from pgmq.read('orders', 60, 4);
        select pgmq.delete('orders', id('orders', '1'));
        select pgmq.delete('orders', -1);
        select pgmq.delete('orders', id('orders', '5'));
        select pgmq.delete('missing', 1);
        select count(*) from pgmq.delete('orders', array[id('orders', '2'), id('orders', '6'), -1]);
        select count(*) from pgmq.delete('orders', '{}'::bigint[]);
        select pgmq.archive('orders', id('orders', '3'));
        select pgmq.archive('orders', -1);
        select count(*) from pgmq.archive('orders', array[id('orders', '4'), id('orders', '7'),
            -3]);
        select pgmq.archive('missing', 1);
        select read_ct, message, headers, enqueued_at <= archived_at, last_read_at is null
            from pgmq.a_orders order by msg_id;
        select shown('orders', ids('orders'));
        select read_ct, message, headers, last_read_at from pgmq.pop('orders');
        select read_ct, message from pgmq.pop('orders', 5);
        select * from pgmq.pop('orders');
        select pgmq.pop('missing');
        select count(*) from pgmq.send_batch('orders', '{1,2,3}', 60);
        select count(*) from pgmq.send_batch('orders', '{4,5}');
        select count(*) from pgmq.read('orders', 60, 1);
        select pgmq.archive('orders', id('orders', '1'));
        select read_ct, vt > now() + interval '30 s' from pgmq.a_orders where message = '1';
        select pgmq.purge_queue('orders');
        select pgmq.purge_queue('orders');
        select pgmq.purge_queue('missing');
        select count(*) from pgmq.q_orders;
        select count(*) from pgmq.a_orders
    """,
    "visibility": """
        select count(*) from pgmq.send_batch('orders', '{1,2,3}');
        select * from pgmq.set_vt('orders', -1, 0);
        select read_ct, message, headers, last_read_at, vt > now() + interval '90 s'
            from pgmq.set_vt('orders', id('orders', '1'), 100);
        select message from pgmq.read('orders', 60, 5) order by msg_id;
        select read_ct, message, last_read_at is null, vt > now() + interval '30 min'
            from pgmq.set_vt('orders', id('orders', '2'), now() + interval '1 h');
        select read_ct, message from pgmq.set_vt('orders', ids('orders'), 0) order by msg_id;
        select read_ct, message from pgmq.read('orders', 60, 5) order by msg_id;
        select count(*) from pgmq.set_vt('orders', '{}'::bigint[], 0);
        select message from pgmq.set_vt('orders', array[id('orders', '3'), -1], now()) order by 1;
        select read_ct, message from pgmq.pop('orders');
        select pgmq.set_vt('missing', 1, 1)
    """,
    "metrics": """
        select queue_name, queue_length, newest_msg_age_sec, oldest_msg_age_sec, total_messages,
               scrape_time is not null, queue_visible_length, default_partition_length
            from pgmq.metrics('orders');
        select count(*) from pgmq.send_batch('orders', '{1,2,3,4,5}');
        select count(*) from pgmq.send_batch('orders', '{6,7}', 10);
        select pgmq.archive('orders', id('orders', '1'));
        select count(*) from pgmq.read('orders', 60, 2);
        select queue_name, queue_length, newest_msg_age_sec, oldest_msg_age_sec, total_messages,
               queue_visible_length, default_partition_length from pgmq.metrics('orders');
        select queue_name, queue_length from pgmq.metrics_all() order by 1;
        select pgmq.metrics('missing')
    """,
    "groups": f"""
        {GROUPED}
        select message from pgmq.read_grouped('fifo', 60, 4) order by msg_id;
        select message from pgmq.read_grouped('fifo', 60, 4) order by msg_id;
        select message from pgmq.read_grouped('fifo', 60, 4) order by msg_id;
        {GROUPED}
        select message from pgmq.read_grouped_rr('fifo', 60, 4);
        select message from pgmq.read_grouped_rr('fifo', 60, 4);
        select count(*) from pgmq.delete('fifo', array[id('fifo', '"a1"'), id('fifo', '"b3"')]);
        select message from pgmq.read_grouped_rr('fifo', 60, 10);
        {GROUPED}
        select message from pgmq.read_grouped_head('fifo', 60, 2) order by msg_id;
        select message from pgmq.read_grouped_head('fifo', 60, 9) order by msg_id;
        select message from pgmq.read_grouped_head('fifo', 60, 9) order by msg_id;
        {GROUPED}
        select message from pgmq.set_vt('fifo', id('fifo', '"a2"'), 60);
        select message from pgmq.read_grouped('fifo', 60, 2) order by msg_id;
        {GROUPED}
        select message from pgmq.set_vt('fifo', id('fifo', '"a2"'), 60);
        select message from pgmq.read_grouped_rr('fifo', 60, 9);
        {GROUPED}
        select message from pgmq.set_vt('fifo', id('fifo', '"a1"'), 60);
        select message from pgmq.read_grouped('fifo', 60, 9) order by msg_id;
        {GROUPED}
        select read_ct, message from pgmq.read_grouped_with_poll('fifo', 60, 1, 1, 100);
        select read_ct, message from pgmq.read_grouped_rr_with_poll('fifo', 60, 1, 1, 100);
        select read_ct, message from pgmq.read_grouped_head_with_poll('fifo', 60, 1, 1, 100);
        select * from pgmq.read_grouped_with_poll('fifo', 60, 1, 0);
        select pgmq.read_grouped('missing', 1, 1)
    """,
    "topics": """
        select pgmq.bind_topic('logs.*.error', 'orders'), pgmq.bind_topic('#', 'fifo'),
               pgmq.bind_topic('logs.#', 'orders'), pgmq.bind_topic('logs.#', 'orders');
        select pgmq.bind_topic('a.b', 'missing');
        select pgmq.bind_topic('a..b', 'orders');
        select pgmq.bind_topic('a', '');
        select pgmq.bind_topic(null, 'orders');
        select * from pgmq.test_routing('logs.api.error');
        select * from pgmq.test_routing('logs');
        select pgmq.test_routing('a.*');
        select pattern, queue_name, compiled_regex from pgmq.list_topic_bindings() order by 1, 2;
        select pattern, queue_name, compiled_regex from pgmq.list_topic_bindings('orders') order
            by 1;
        select pgmq.list_topic_bindings('missing');
        select pattern, queue_name, compiled_regex from pgmq.topic_bindings order by 1, 2;
        select pgmq.send_topic('logs.api.error', '1');
        select pgmq.send_topic('logs.api', '2', '{"h": 1}'::jsonb, 0);
        select pgmq.send_topic('elsewhere', '3', 60);
        select pgmq.send_topic('logs', null);
        select pgmq.send_topic('logs', '1', -1);
        select pgmq.send_topic('logs..x', '1');
        select queue_name, count(*) from pgmq.send_batch_topic('logs.a', '{4,5}') group by 1 order
            by 1;
        select queue_name, count(*) from pgmq.send_batch_topic('logs.a', '{6}', 60) group by 1
            order by 1;
        select queue_name, count(*) from pgmq.send_batch_topic('logs.a', '{7}',
            '{"{\\"h\\": 1}"}'::jsonb[], now()) group by 1 order by 1;
        select pgmq.send_batch_topic('logs.a', '{}');
        select message, headers from pgmq.q_orders order by msg_id;
        select message, headers from pgmq.read('fifo', 30, 20) order by msg_id;
        select pgmq.unbind_topic('#', 'fifo');
        select pgmq.unbind_topic('#', 'fifo');
        select pgmq.unbind_topic('#', 'missing');
        select pgmq.unbind_topic('', 'fifo');
        select pgmq.unbind_topic('a', null);
        select pgmq.send_topic('elsewhere', '3');
        select pgmq.drop_queue('orders');
        select pattern from pgmq.list_topic_bindings()
    """,
    "words": """
        select k, pgmq.validate_routing_key(k) from unnest('{logs.error,a-b.c_d,x}'::text[]) k;
        select pgmq.validate_routing_key('');
        select pgmq.validate_routing_key(null);
        select pgmq.validate_routing_key('.a');
        select pgmq.validate_routing_key('a.');
        select pgmq.validate_routing_key('a..b');
        select pgmq.validate_routing_key('a!');
        select pgmq.validate_routing_key('a.*');
        select pgmq.validate_routing_key(repeat('a', 256));
        select k, pgmq.validate_topic_pattern(k)
            from unnest('{logs.*,#,*.error,#.error,app.*.#,ord*}'::text[]) k;
        select pgmq.validate_topic_pattern('a.**');
        select pgmq.validate_topic_pattern('a.##');
        select pgmq.validate_topic_pattern('a.*#');
        select pgmq.validate_topic_pattern('a b');
        select pgmq.validate_topic_pattern(repeat('a', 256))
    """,
    "notifications": """
        select pgmq.enable_notify_insert('orders');
        select * from pgmq.list_notify_insert_throttles();
        select pgmq.enable_notify_insert('orders', 60000);
        select count(*) from pgmq.send('orders', '1');
        select queue_name, throttle_interval_ms, last_notified_at > to_timestamp(0)
            from pgmq.list_notify_insert_throttles();
        select pgmq.update_notify_insert('orders', 5);
        select * from pgmq.list_notify_insert_throttles();
        select pgmq.enable_notify_insert('orders', -1);
        select pgmq.update_notify_insert('orders', -1);
        select pgmq.update_notify_insert('fifo', 1);
        select pgmq.update_notify_insert('missing', 1);
        select pgmq.enable_notify_insert('missing');
        select pgmq.disable_notify_insert('orders');
        select * from pgmq.list_notify_insert_throttles();
        select pgmq.disable_notify_insert('orders')
    """,
}


@pytest.fixture(scope="module")
def databases(server: Server, template: str) -> Iterator[list[psycopg.Connection]]:
    """Connections to a database with pgmq, and to one where pgq_pgmq serves its schema."""
    names = [f"pgq_peer_{os.getpid()}", f"pgq_served_{os.getpid()}"]
    for name in names:
        server.drop_database(name)
    with (
        psycopg.connect(server.create_database(names[0]), autocommit=True) as peer,
        psycopg.connect(
            server.create_database(names[1], template=template), autocommit=True
        ) as served,
    ):
        peer.execute(get_embedded_install_sql().encode())
        install_pgmq(served)
        for conn in (peer, served):
            conn.execute(HELPER)
        yield [peer, served]
    for name in names:
        server.drop_database(name)


@pytest.fixture
def both(databases: list[psycopg.Connection]) -> Iterator[list[psycopg.Connection]]:
    """The same, each with two empty queues."""
    for conn in databases:
        conn.execute("select pgmq.create('orders'), pgmq.create('fifo')")
    yield databases
    for conn in databases:
        conn.execute("select pgmq.drop_queue(queue_name) from pgmq.list_queues()")
    assert check_invariants(databases[1]) == []


def outcome(conn: psycopg.Connection, statement: str) -> Any:
    try:
        cursor = conn.execute(statement.encode())
        columns = [c.name for c in cursor.description or []]
        return columns, cursor.fetchall()
    except (psycopg.errors.UndefinedTable, psycopg.errors.RaiseException, psycopg.DataError):
        return "an error"
    except psycopg.Error as error:
        if (error.sqlstate or "").startswith(("QU", "55")):
            return "an error"
        raise  # the statement is wrong


def found(conn: psycopg.Connection, statement: str) -> dict[str, str]:
    return dict(conn.execute(statement.encode()).fetchall())


def test_every_function_of_pgmq_is_served_with_its_types(both: list[psycopg.Connection]) -> None:
    peer, served = (found(conn, SIGNATURES) for conn in both)
    assert peer.keys() - served.keys() == NOT_SERVED
    assert served.keys() - peer.keys() == ADDED
    assert {name: served[name] for name in peer if name not in NOT_SERVED} == {
        name: result for name, result in peer.items() if name not in NOT_SERVED
    }
    peer, served = (found(conn, TYPES) for conn in both)
    assert served == peer


@pytest.mark.parametrize("walk", WALKS)
def test_the_same_calls_have_the_same_results(both: list[psycopg.Connection], walk: str) -> None:
    steps = [step.strip() for step in WALKS[walk].split(";\n")]
    found = [[(step, outcome(conn, step)) for step in steps if step] for conn in both]
    differ = [pair for pair in zip(*found, strict=True) if pair[0] != pair[1]]
    assert not differ, "\n".join(
        f"{step}\n  pgmq {peer}\n  here {here}" for (step, peer), (_, here) in differ
    )
