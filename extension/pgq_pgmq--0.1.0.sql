-- pgq_pgmq 0.1.0: built from sql/ by sql/build.py; edit the sources.
--
-- CREATE EXTENSION pgq_pgmq runs this. On a server where no extension files can be installed, run it
-- with any client: psql -f, or as one statement from a program; run it again to upgrade. It is a
-- single statement, so that it either succeeds or changes nothing.
--
-- Serves the functions of pgmq, in the schema pgmq, from queues of the extension pgq.
do $pgq_install$
declare
    v_search_path text := pg_catalog.current_setting('search_path');
    v_check_bodies text := pg_catalog.current_setting('check_function_bodies');
    v_extension boolean;  -- this is run by CREATE EXTENSION, or there is such an extension
    v_version text;       -- installed by this script before; null: not at all
begin
    perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    perform pg_catalog.set_config('check_function_bodies', 'on', true);
    v_extension := exists (select from pg_extension where extname = 'pgq_pgmq');
    if to_regprocedure('pgq.version()') is null then
        raise exception 'pgq is not installed in this database'
            using errcode = 'undefined_object', hint = 'Install it first.';
    end if;
    if to_regnamespace('pgmq') is not null then
        if v_extension or to_regclass('pgmq.asked_for') is null then
            raise exception 'schema "pgmq" already exists'
                using errcode = 'duplicate_schema',
                      hint = 'If pgmq itself is installed, move its queues and drop it first.';
        end if;
        v_version := '0.1.0';
    end if;
    if v_version is null then
        execute $pgq_script$
-- sql/pgmq/10_schema.sql

-- The schema pgmq: the functions of pgmq 1.13, served by pgq.
--
-- msg_id is the id of the message, vt the end of the lease, read_ct the attempt. pgmq names a
-- message by its id alone, so pgmq._take finds it wherever it is: ready, scheduled or leased. All
-- other functions translate.
create schema pgmq;
comment on schema pgmq is 'The functions of pgmq, served by pgq';
revoke all on schema pgmq from public;

create type pgmq.message_record as (
    msg_id       bigint,
    read_ct      integer,
    enqueued_at  timestamptz,
    last_read_at timestamptz,
    vt           timestamptz,
    message      jsonb,
    headers      jsonb
);
comment on type pgmq.message_record is 'A message, as pgmq returns it.';

create type pgmq.queue_record as (
    queue_name     varchar,
    is_partitioned boolean,
    is_unlogged    boolean,
    created_at     timestamptz
);
comment on type pgmq.queue_record is 'A queue, as pgmq lists it.';

create type pgmq.metrics_result as (
    queue_name               text,
    queue_length             bigint,
    newest_msg_age_sec       int,
    oldest_msg_age_sec       int,
    total_messages           bigint,
    scrape_time              timestamptz,
    queue_visible_length     bigint,
    default_partition_length bigint
);
comment on type pgmq.metrics_result is 'How a queue is doing, as pgmq reports it.';

create table pgmq.asked_for (
    queue_name     text not null,
    is_partitioned boolean not null,
    is_unlogged    boolean not null,
    constraint asked_for_pkey primary key (queue_name),
    constraint asked_for_queue_exists foreign key (queue_name) references pgq.queue (name)
        on delete cascade
);
comment on table pgmq.asked_for is
    'The options that the creator of a queue asked for. pgq stores all queues in one partitioned '
    'and logged table, so the options are only kept for list_queues.';
revoke all on table pgmq.asked_for from public;

create table pgmq.archived (
    queue_name   text not null,
    msg_id       bigint not null,
    read_ct      int not null,
    enqueued_at  timestamptz not null,
    last_read_at timestamptz,
    archived_at  timestamptz not null,
    vt           timestamptz not null,
    message      jsonb,
    headers      jsonb,
    constraint archived_pkey primary key (queue_name, msg_id)
);
comment on table pgmq.archived is
    'Archived messages of all queues, for ever; pgmq.a_<queue> shows those of one queue.';
revoke all on table pgmq.archived from public;

create table pgmq.topic_bindings (
    pattern        text not null,
    queue_name     text not null,
    bound_at       timestamptz not null default now(),
    compiled_regex text generated always as (
        '^' || replace(replace(replace(pattern, '.', E'\\.'), '*', '[^.]+'), '#', '.*') || '$'
    ) stored,
    constraint topic_bindings_pkey primary key (queue_name, pattern),
    constraint topic_bindings_queue_exists foreign key (queue_name) references pgq.queue (name)
        on delete cascade
);
comment on table pgmq.topic_bindings is 'Which routing keys send_topic delivers to which queues.';
revoke all on table pgmq.topic_bindings from public;

create table pgmq.notify_insert_throttle (
    queue_name           text not null,
    throttle_interval_ms int not null default 0,
    last_notified_at     timestamptz not null default to_timestamp(0),
    constraint notify_insert_throttle_pkey primary key (queue_name),
    constraint notify_insert_throttle_not_negative check (throttle_interval_ms >= 0),
    constraint notify_insert_throttle_queue_exists foreign key (queue_name)
        references pgq.queue (name) on delete cascade
);
comment on table pgmq.notify_insert_throttle is 'Queues whose senders notify, and how often.';
revoke all on table pgmq.notify_insert_throttle from public;
$pgq_script$;
    end if;
    if v_extension then
        execute $pgq_script$
select pg_catalog.pg_extension_config_dump('pgmq.asked_for', '');
select pg_catalog.pg_extension_config_dump('pgmq.archived', '');
select pg_catalog.pg_extension_config_dump('pgmq.topic_bindings', '');
select pg_catalog.pg_extension_config_dump('pgmq.notify_insert_throttle', '');
$pgq_script$;
    end if;
    execute $pgq_script$
-- sql/pgmq/20_names/acquire_queue_lock.sql

create or replace function pgmq.acquire_queue_lock(queue_name text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pg_advisory_xact_lock(hashtext('pgmq.queue_' || queue_name));
end
$$;
comment on function pgmq.acquire_queue_lock(text) is
    'Locks the creation and removal of a queue until the transaction ends.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/20_names/format_table_name.sql

create or replace function pgmq.format_table_name(queue_name text, prefix text) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if queue_name ~ E'\\$|;|--|''' then
        raise exception 'invalid queue name "%"', queue_name
            using errcode = 'invalid_parameter_value', hint = 'Use letters, digits, _ and -.';
    end if;
    return lower(prefix || '_' || queue_name);
end
$$;
comment on function pgmq.format_table_name(text, text) is
    'The name of the view that shows a queue (q) or its archive (a).';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/20_names/note.sql

-- The setting in which a session keeps the lease id of its last read of a queue, for its next
-- delete. It is only a hint for speed: pgmq._take looks the lease up.
create or replace function pgmq._note(queue_name text) returns text
language sql immutable parallel safe
return 'pgmq.lease_' || (hashtext(queue_name) & 2147483647);
comment on function pgmq._note(text) is
    'The setting that has the lease id of the session''s last read.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/20_names/validate_queue_name.sql

-- Checks the name of a queue, which is also a part of the names of its views.
create or replace function pgmq.validate_queue_name(queue_name text) returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if length(queue_name) > 47 then
        raise exception 'queue name "%..." is longer than 47 characters', left(queue_name, 40)
            using errcode = 'invalid_parameter_value',
                  hint = 'Shorten it, or create the queue with pgq.create_queue.';
    end if;
end
$$;
comment on function pgmq.validate_queue_name(text) is 'Raises 22023 if the name is too long.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/21_headers/filter.sql

-- Translates the condition of a read, message @> conditional, field by field. $type keeps a filter
-- from matching elements of arrays, which @> does not do.
create or replace function pgmq._filter(conditional jsonb) returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if conditional is null or conditional = '{}' then
        return null;
    elsif jsonb_typeof(conditional) <> 'object' then
        raise exception 'a condition must be an object'
            using errcode = 'invalid_parameter_value',
                  hint = 'It selects messages that contain its fields.';
    end if;
    return jsonb_build_object('$and', (
        select jsonb_agg(
            jsonb_build_object('$path', jsonb_build_array('payload', f.key)) || case
                when jsonb_typeof(f.value) = 'null' then jsonb_build_object('$eq', null)
                when jsonb_typeof(f.value) in ('array', 'object') then
                    jsonb_build_object('$contains', f.value, '$type', jsonb_typeof(f.value))
                else jsonb_build_object('$eq', f.value, '$type', jsonb_typeof(f.value)) end)
        from jsonb_each(conditional) f));
end
$$;
comment on function pgmq._filter(jsonb) is 'The filter of pgq that selects the same as @>.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/21_headers/headers_in.sql

-- pgq's headers are an object of scalars, so that lanes and filters can use them. Other headers
-- are stored as text beside their scalars.
create or replace function pgmq._headers_in(headers jsonb) returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if headers is null then
        return '{}'::jsonb;
    elsif jsonb_typeof(headers) = 'object' and headers <> '{}' and not headers ? 'x-pgmq-headers'
          and not headers @? '$.*.type() ? (@ == "array" || @ == "object")'
    then
        return headers;
    end if;
    return jsonb_build_object('x-pgmq-headers', headers::text) || coalesce((
        select jsonb_object_agg(h.key, h.value)
        from jsonb_each(case when jsonb_typeof(headers) = 'object' then headers else '{}' end) h
        where jsonb_typeof(h.value) not in ('array', 'object')
          and h.key <> 'x-pgmq-headers'), '{}'::jsonb);
end
$$;
comment on function pgmq._headers_in(jsonb) is 'The headers that pgq stores for those of pgmq.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/21_headers/headers_out.sql

create or replace function pgmq._headers_out(headers jsonb) returns jsonb
language sql immutable parallel safe
return case when headers = '{}' then null
            when headers ? 'x-pgmq-headers' then (headers ->> 'x-pgmq-headers')::jsonb
            else headers end;
comment on function pgmq._headers_out(jsonb) is 'The headers that the sender gave.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/30_take/end.sql

-- Ends messages: the common part of delete, archive and purge. Returns them as pgmq._take does.
create or replace function pgmq._end(
    queue_name text, msg_ids bigint[], caller pgq.caller default current_user
) returns setof pgq.lease
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', queue_name);
    v_now timestamptz := pgq.now();
    v_part pgq.lease;
begin
    for v_part in select * from pgmq._take(queue_name, msg_ids) loop
        if v_part.journal or v_part.lease_id is null then
            insert into pgq.journal (at, queue_id, event, attempt, size, lease_id, claimed_at,
                                     holder, client, ids)
            values (v_now, v_part.queue_id,
                    case when v_part.lease_id is null then 'discard' else 'ack' end,
                    v_part.attempt, v_part.size, v_part.lease_id, v_part.claimed_at,
                    v_part.holder, v_part.client, v_part.ids);
        end if;
        if v_part.grouped then
            perform pgq._advance_lease(v_queue, v_part, v_now);
        end if;
        return next v_part;
    end loop;
end
$$;
comment on function pgmq._end(text, bigint[], pgq.caller) is 'Ends messages, wherever they are.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/30_take/take.sql

-- Takes messages out of a queue, whatever their state: the first step of delete, archive, set_vt.
-- Null: all messages. Returns the sets that were taken in the form of leases; those that were not
-- leased have no lease_id. Searches again, a few times, for messages that move meanwhile.
create or replace function pgmq._take(
    queue_name text, msg_ids bigint[], caller pgq.caller default current_user
) returns setof pgq.lease
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', queue_name);
    v_wanted int8multirange := coalesce(pgq._set_of(msg_ids), '{(,)}');
    v_hint bigint := nullif(current_setting(pgmq._note(queue_name), true), '')::bigint;
    v_place tid;
    v_ready pgq.ready;
    v_scheduled pgq.scheduled;
    v_lease pgq.lease;
    v_left int8multirange;
begin
    if msg_ids is null then
        v_wanted := '{(,)}';
    end if;
    for v_round in 0 .. 3 loop
        if v_round > 0 then
            for v_place in
                select r.ctid from pgq.ready r
                where r.queue_id = v_queue.queue_id and r.ids && v_wanted order by r.rank
            loop
                delete from pgq.ready r where r.ctid = v_place and r.queue_id = v_queue.queue_id
                returning r.* into v_ready;
                continue when not found;
                v_lease := row(null, null, null, v_queue.queue_id, 0, v_ready.attempt, null,
                               v_ready.grouped, false, null, null, null, v_ready.failures,
                               v_ready.ids * v_wanted, null, null, null, false)::pgq.lease;
                v_left := v_ready.ids - v_wanted;
                if v_left <> '{}' then
                    -- As in every claim, the rest of a ready row becomes a new row.
                    v_ready.rank := pgq._rank_of(pgq._rank_class(v_ready.rank), lower(v_left));
                    v_ready.ids := v_left;
                    v_ready.size := pgq._set_size(v_left);
                    v_ready.xid := pg_current_xact_id();
                    insert into pgq.ready select v_ready.*;
                    perform pgq._wake(v_queue.queue_id);
                end if;
                v_lease.size := pgq._set_size(v_lease.ids);
                v_wanted := case when msg_ids is null then v_wanted else v_wanted - v_lease.ids end;
                return next v_lease;
            end loop;
            for v_place in
                select s.ctid from pgq.scheduled s
                where s.queue_id = v_queue.queue_id and s.ids && v_wanted
            loop
                delete from pgq.scheduled s
                where s.ctid = v_place and s.queue_id = v_queue.queue_id
                returning s.* into v_scheduled;
                continue when not found;
                v_lease := row(null, null, v_scheduled.due_at, v_queue.queue_id, 0,
                               v_scheduled.attempt, null, v_scheduled.grouped, false, null, null,
                               null, v_scheduled.failures, v_scheduled.ids * v_wanted, null, null,
                               null, false)::pgq.lease;
                v_left := v_scheduled.ids - v_wanted;
                if v_left <> '{}' then
                    v_scheduled.ids := v_left;
                    v_scheduled.size := pgq._set_size(v_left);
                    insert into pgq.scheduled select v_scheduled.*;
                end if;
                v_lease.size := pgq._set_size(v_lease.ids);
                v_wanted := case when msg_ids is null then v_wanted else v_wanted - v_lease.ids end;
                return next v_lease;
            end loop;
        end if;
        -- Round 0 tries only the lease of the session's last read, which usually has the messages.
        continue when v_round = 0 and v_hint is null;
        for v_lease in
            select l.* from pgq.lease l
            where l.queue_id = v_queue.queue_id and l.ids && v_wanted
              and (v_round > 0 or l.lease_id = v_hint)
            order by l.lease_id, l.part for update
        loop
            v_left := v_lease.ids - v_wanted;
            if v_left = '{}' then
                delete from pgq.lease l
                where l.lease_id = v_lease.lease_id and l.part = v_lease.part;
            else
                update pgq.lease l set ids = v_left, size = pgq._set_size(v_left)
                where l.lease_id = v_lease.lease_id and l.part = v_lease.part;
            end if;
            v_lease.ids := v_lease.ids * v_wanted;
            v_lease.size := pgq._set_size(v_lease.ids);
            v_wanted := case when msg_ids is null then v_wanted else v_wanted - v_lease.ids end;
            return next v_lease;
        end loop;
        exit when v_wanted = '{}' or msg_ids is null and v_round > 0;
    end loop;
end
$$;
comment on function pgmq._take(text, bigint[], pgq.caller) is
    'Takes messages out of a queue, whatever their state.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/31_held/held.sql

-- The messages that a queue holds, as the table pgmq.q_<queue> of pgmq has them.
create or replace function pgmq._held(queue_name text, caller pgq.caller default current_user)
returns setof pgmq.message_record
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', queue_name);
begin
    return query
        select m.id, s.attempt, m.published_at, s.claimed_at, coalesce(s.vt, m.published_at),
               nullif(m.payload, 'null'), pgmq._headers_out(m.headers)
        from (
            select r.ids, r.attempt, null::timestamptz as claimed_at, null::timestamptz as vt
            from pgq.ready r where r.queue_id = v_queue.queue_id
            union all
            select c.ids, c.attempt, null, c.due_at
            from pgq.scheduled c where c.queue_id = v_queue.queue_id
            union all
            select l.ids, l.attempt, l.claimed_at, l.until
            from pgq.lease l where l.queue_id = v_queue.queue_id
        ) s
        cross join lateral pgq._read_ids(null, s.attempt, s.vt, s.ids) m
        order by m.id;
end
$$;
comment on function pgmq._held(text, pgq.caller) is 'The messages that a queue holds.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/40_queue/convert_archive_partitioned.sql

create or replace function pgmq.convert_archive_partitioned(
    table_name text,
    partition_interval text default '10000',
    retention_interval text default '100000',
    leading_partition int default 10
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    raise notice 'archives are not partitioned here; delete from pgmq.a_<queue> what is too old';
end
$$;
comment on function pgmq.convert_archive_partitioned(text, text, text, int) is
    'Changes nothing: one table holds all archives.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/40_queue/create.sql

-- An existing queue is not changed. pgmq neither limits attempts nor records acknowledgements, so a
-- new queue has 1,000 attempts, the most that pgq allows, and records failures only.
create or replace function pgmq._create(
    queue_name text, is_partitioned boolean, is_unlogged boolean
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq.validate_queue_name(queue_name);
    perform pgmq.format_table_name(queue_name, 'q');
    perform pgmq.acquire_queue_lock(queue_name);
    begin
        perform pgq.create_queue(queue_name, max_attempts => 1000, journal => 'failures');
    exception when sqlstate 'QU002' then
        null;
    end;
    perform pgmq._created(queue_name, is_partitioned, is_unlogged);
end
$$;
comment on function pgmq._create(text, boolean, boolean) is 'Creates a queue, if there is none.';

create or replace function pgmq."create"(queue_name text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq._create(queue_name, false, false);
end
$$;
comment on function pgmq."create"(text) is 'Creates a queue, if there is none.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/40_queue/create_fifo_index.sql

create or replace function pgmq.create_fifo_index(queue_name text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from pgmq.list_queues() q where q.queue_name = create_fifo_index.queue_name;
    if not found then
        raise exception 'queue "%" does not exist', queue_name
            using errcode = 'QU001', hint = 'Create it with pgmq.create(name).';
    end if;
end
$$;
comment on function pgmq.create_fifo_index(text) is 'Changes nothing: no index is needed.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/40_queue/create_fifo_indexes_all.sql

create or replace function pgmq.create_fifo_indexes_all() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    null;
end
$$;
comment on function pgmq.create_fifo_indexes_all() is 'Changes nothing: no index is needed.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/40_queue/create_non_partitioned.sql

create or replace function pgmq.create_non_partitioned(queue_name text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq._create(queue_name, false, false);
end
$$;
comment on function pgmq.create_non_partitioned(text) is 'Creates a queue, if there is none.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/40_queue/create_partitioned.sql

create or replace function pgmq.create_partitioned(
    queue_name text,
    partition_interval text default '10000',
    retention_interval text default '100000',
    premake int default 4
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq._create(queue_name, true, false);
end
$$;
comment on function pgmq.create_partitioned(text, text, text, int) is
    'Creates a queue. Intervals are ignored: the log of pgq is a ring of partitions already.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/40_queue/create_unlogged.sql

create or replace function pgmq.create_unlogged(queue_name text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq._create(queue_name, false, true);
end
$$;
comment on function pgmq.create_unlogged(text) is
    'Creates a queue. pgq logs all queues: a crash loses nothing of this one either.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/40_queue/created.sql

-- Adds to a queue of pgq what pgmq has: views instead of its tables, and options for list_queues.
create or replace function pgmq._created(
    queue_name text, is_partitioned boolean, is_unlogged boolean
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_view text;
begin
    insert into pgmq.asked_for (queue_name, is_partitioned, is_unlogged)
    values (_created.queue_name, _created.is_partitioned, _created.is_unlogged)
    on conflict on constraint asked_for_pkey do nothing;
    v_view := pgmq.format_table_name(_created.queue_name, 'q');
    if to_regclass(format('pgmq.%I', v_view)) is null then
        execute format('create view pgmq.%I as select * from pgmq._held(%L)',
                       v_view, _created.queue_name);
    end if;
    v_view := pgmq.format_table_name(_created.queue_name, 'a');
    if to_regclass(format('pgmq.%I', v_view)) is null then
        execute format(
            'create view pgmq.%I as select msg_id, read_ct, enqueued_at, last_read_at, '
            'archived_at, vt, message, headers from pgmq.archived where queue_name = %L',
            v_view, _created.queue_name);
    end if;
end
$$;
comment on function pgmq._created(text, boolean, boolean) is
    'Adds the views and options of pgmq to a queue of pgq.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/40_queue/detach_archive.sql

-- Exists for compatibility only.
create or replace function pgmq.detach_archive(queue_name text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    raise warning 'detach_archive changes nothing';
end
$$;
comment on function pgmq.detach_archive(text) is 'Changes nothing, as in pgmq.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/40_queue/drop_queue.sql

create or replace function pgmq.drop_queue(queue_name text) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq.acquire_queue_lock(queue_name);
    begin
        perform pgq.drop_queue(queue_name, force => true);
    exception when sqlstate 'QU001' then
        raise notice 'queue "%" does not exist', queue_name;
        return false;
    end;
    perform pgmq._dropped(queue_name);
    return true;
end
$$;
comment on function pgmq.drop_queue(text) is
    'Drops a queue with its messages and its archive; false if there is none.';

create or replace function pgmq.drop_queue(queue_name text, partitioned boolean) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    raise warning 'drop_queue(queue_name, partitioned) is deprecated'
        using hint = 'Call drop_queue(queue_name).';
    perform pgmq.drop_queue(queue_name);
    return true;
end
$$;
comment on function pgmq.drop_queue(text, boolean) is
    'Drops a queue with its messages and its archive, if there is one; always true, as in pgmq.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/40_queue/dropped.sql

-- Removes what create added, once the queue is gone.
create or replace function pgmq._dropped(queue_name text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from pgq.queue q where q.name = _dropped.queue_name) then
        return;
    end if;
    execute format('drop view if exists pgmq.%I, pgmq.%I',
                   pgmq.format_table_name(queue_name, 'q'),
                   pgmq.format_table_name(queue_name, 'a'));
    delete from pgmq.archived a where a.queue_name = _dropped.queue_name;
end
$$;
comment on function pgmq._dropped(text) is 'Removes what create added.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/40_queue/list_queues.sql

create or replace function pgmq.list_queues(caller pgq.caller default current_user)
returns setof pgmq.queue_record
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queues int[] := pgq._visible_queues(caller);
begin
    return query
        select q.name::varchar, coalesce(a.is_partitioned, false), coalesce(a.is_unlogged, false),
               q.created_at
        from pgq.queue q
        left join pgmq.asked_for a on a.queue_name = q.name
        where q.mode = 'queue' and (v_queues is null or q.queue_id = any (v_queues))
        order by q.queue_id;
end
$$;
comment on function pgmq.list_queues(pgq.caller) is
    'The queues that the caller may consume, also those that pgq.create_queue made.';

create or replace view pgmq.meta as select * from pgmq.list_queues();
comment on view pgmq.meta is 'The queues; pgmq has a table of this name.';
revoke all on table pgmq.meta from public;
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/40_queue/purge_queue.sql

create or replace function pgmq.purge_queue(queue_name text) returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return (select coalesce(sum(e.size), 0) from pgmq._end(queue_name, null) e);
end
$$;
comment on function pgmq.purge_queue(text) is 'Ends all messages of a queue; returns how many.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/45_notify/disable_notify_insert.sql

create or replace function pgmq.disable_notify_insert(queue_name text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq._set_notify(queue_name, null);
end
$$;
comment on function pgmq.disable_notify_insert(text) is
    'Stops notifications of senders to the listeners of a queue.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/45_notify/enable_notify_insert.sql

create or replace function pgmq.enable_notify_insert(
    queue_name text, throttle_interval_ms int default 250
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq._set_notify(queue_name, coalesce(throttle_interval_ms, 250));
end
$$;
comment on function pgmq.enable_notify_insert(text, int) is
    'Makes senders notify the listeners of a queue, at most once per interval.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/45_notify/list_notify_insert_throttles.sql

create or replace function pgmq.list_notify_insert_throttles()
returns table (queue_name text, throttle_interval_ms int, last_notified_at timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    return query
        select n.queue_name, n.throttle_interval_ms, n.last_notified_at
        from pgmq.notify_insert_throttle n order by n.queue_name;
end
$$;
comment on function pgmq.list_notify_insert_throttles() is
    'The queues whose senders notify, and how often.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/45_notify/notify.sql

-- NOTIFY for listeners of pgmq, on the channel pgmq.q_<queue>.INSERT, by senders of pgmq.
create or replace function pgmq._notify(queue_name text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from pgmq.notify_insert_throttle n
               where n.queue_name = _notify.queue_name
                 and n.last_notified_at + n.throttle_interval_ms * interval '1 ms'
                     <= clock_timestamp())
    then
        update pgmq.notify_insert_throttle n set last_notified_at = clock_timestamp()
        where n.queue_name = _notify.queue_name;
        perform pg_notify(
            'pgmq.' || pgmq.format_table_name(queue_name, 'q') || '.INSERT', null);
    end if;
end
$$;
comment on function pgmq._notify(text) is 'Notifies the listeners of a queue, if that is enabled.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/45_notify/set_notify.sql

-- Sets the throttle of a queue that the caller may administer; null: no notifications.
create or replace function pgmq._set_notify(
    queue_name text, throttle_interval_ms int, caller pgq.caller default current_user
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', queue_name);
begin
    if throttle_interval_ms is null then
        delete from pgmq.notify_insert_throttle n where n.queue_name = v_queue.name;
        return;
    elsif throttle_interval_ms < 0 then
        raise exception 'throttle_interval_ms must not be negative'
            using errcode = 'invalid_parameter_value', hint = 'Use 0 to notify of every send.';
    end if;
    insert into pgmq.notify_insert_throttle (queue_name, throttle_interval_ms)
    values (v_queue.name, _set_notify.throttle_interval_ms)
    on conflict on constraint notify_insert_throttle_pkey do update
    set throttle_interval_ms = excluded.throttle_interval_ms, last_notified_at = to_timestamp(0);
end
$$;
comment on function pgmq._set_notify(text, int, pgq.caller) is
    'Sets how often the senders of a queue notify; null: never.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/45_notify/update_notify_insert.sql

create or replace function pgmq.update_notify_insert(queue_name text, throttle_interval_ms int)
returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from pgmq.list_notify_insert_throttles() n
    where n.queue_name = update_notify_insert.queue_name;
    if not found then
        raise exception 'queue "%" does not notify', queue_name
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'Begin with pgmq.enable_notify_insert(queue_name).';
    end if;
    perform pgmq._set_notify(queue_name, coalesce(throttle_interval_ms, 250));
end
$$;
comment on function pgmq.update_notify_insert(text, int) is
    'Changes how often the senders of a queue notify.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/50_send/check_batch.sql

create or replace function pgmq._check_batch(msgs jsonb[], headers jsonb[]) returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(cardinality(msgs), 0) = 0 then
        raise exception 'a batch needs messages'
            using errcode = 'invalid_parameter_value', hint = 'Send at least one.';
    elsif cardinality(headers) <> cardinality(msgs) then
        raise exception '% headers for % messages', cardinality(headers), cardinality(msgs)
            using errcode = 'invalid_parameter_value',
                  hint = 'Use null for messages without headers.';
    end if;
end
$$;
comment on function pgmq._check_batch(jsonb[], jsonb[]) is
    'Raises 22023 unless there are messages, and headers for each or for none.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/50_send/send.sql

-- Sending. The overloads are those of pgmq; send and send_batch with a timestamptz do the work.
create or replace function pgmq.send(
    queue_name text, msg jsonb, headers jsonb, delay timestamptz
) returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := pgq.now();
begin
    return next pgq.publish(
        queue_name, coalesce(msg, 'null'), pgmq._headers_in(headers),
        delay => case when delay > v_now then delay - v_now end);
    perform pgmq._notify(queue_name);
end
$$;
comment on function pgmq.send(text, jsonb, jsonb, timestamptz) is
    'Sends a message that becomes visible at a time; returns its id.';

create or replace function pgmq.send(queue_name text, msg jsonb) returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select pgmq.send(queue_name, msg, null::jsonb, null::timestamptz);
end
$$;
comment on function pgmq.send(text, jsonb) is 'Sends a message; returns its id.';

create or replace function pgmq.send(queue_name text, msg jsonb, headers jsonb)
returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select pgmq.send(queue_name, msg, headers, null::timestamptz);
end
$$;
comment on function pgmq.send(text, jsonb, jsonb) is 'Sends a message; returns its id.';

create or replace function pgmq.send(queue_name text, msg jsonb, delay int) returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select pgmq.send(
        queue_name, msg, null::jsonb, pgq.now() + make_interval(secs => delay));
end
$$;
comment on function pgmq.send(text, jsonb, int) is
    'Sends a message that becomes visible after so many seconds; returns its id.';

create or replace function pgmq.send(queue_name text, msg jsonb, delay timestamptz)
returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select pgmq.send(queue_name, msg, null::jsonb, delay);
end
$$;
comment on function pgmq.send(text, jsonb, timestamptz) is
    'Sends a message that becomes visible at a time; returns its id.';

create or replace function pgmq.send(queue_name text, msg jsonb, headers jsonb, delay int)
returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select pgmq.send(
        queue_name, msg, headers, pgq.now() + make_interval(secs => delay));
end
$$;
comment on function pgmq.send(text, jsonb, jsonb, int) is
    'Sends a message that becomes visible after so many seconds; returns its id.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/50_send/send_batch.sql

create or replace function pgmq.send_batch(
    queue_name text, msgs jsonb[], headers jsonb[], delay timestamptz
) returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := pgq.now();
    v_headers jsonb[] := headers;
begin
    perform pgmq._check_batch(msgs, headers);
    if headers is not null then
        v_headers := array(
            select pgmq._headers_in(h) from unnest(headers) with ordinality u (h, i) order by i);
    end if;
    return query select pgq.publish_batch(
        queue_name,
        case when array_position(msgs, null) is null then msgs
             else array(select coalesce(m, 'null')
                        from unnest(msgs) with ordinality u (m, i) order by i) end,
        v_headers, delay => case when delay > v_now then delay - v_now end);
    perform pgmq._notify(queue_name);
end
$$;
comment on function pgmq.send_batch(text, jsonb[], jsonb[], timestamptz) is
    'Sends messages that become visible at a time; returns their ids.';

create or replace function pgmq.send_batch(queue_name text, msgs jsonb[]) returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select pgmq.send_batch(queue_name, msgs, null::jsonb[], null::timestamptz);
end
$$;
comment on function pgmq.send_batch(text, jsonb[]) is 'Sends messages; returns their ids.';

create or replace function pgmq.send_batch(queue_name text, msgs jsonb[], headers jsonb[])
returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select pgmq.send_batch(queue_name, msgs, headers, null::timestamptz);
end
$$;
comment on function pgmq.send_batch(text, jsonb[], jsonb[]) is
    'Sends messages; returns their ids.';

create or replace function pgmq.send_batch(queue_name text, msgs jsonb[], delay int)
returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select pgmq.send_batch(
        queue_name, msgs, null::jsonb[], pgq.now() + make_interval(secs => delay));
end
$$;
comment on function pgmq.send_batch(text, jsonb[], int) is
    'Sends messages that become visible after so many seconds; returns their ids.';

create or replace function pgmq.send_batch(queue_name text, msgs jsonb[], delay timestamptz)
returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select pgmq.send_batch(queue_name, msgs, null::jsonb[], delay);
end
$$;
comment on function pgmq.send_batch(text, jsonb[], timestamptz) is
    'Sends messages that become visible at a time; returns their ids.';

create or replace function pgmq.send_batch(
    queue_name text, msgs jsonb[], headers jsonb[], delay int
) returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select pgmq.send_batch(
        queue_name, msgs, headers, pgq.now() + make_interval(secs => delay));
end
$$;
comment on function pgmq.send_batch(text, jsonb[], jsonb[], int) is
    'Sends messages that become visible after so many seconds; returns their ids.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/60_read/pop.sql

create or replace function pgmq.pop(queue_name text, qty int default 1)
returns setof pgmq.message_record
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lease_id bigint;
    v_left int := qty;
    v_again boolean;
    v_message pgq.claimed;
begin
    while v_left > 0 loop
        v_again := false;
        for v_message in select * from pgq.claim(queue_name, n => v_left) loop
            return next row(
                v_message.id, v_message.attempt - 1, v_message.published_at, null,
                v_message.published_at, nullif(v_message.payload, 'null'),
                pgmq._headers_out(v_message.headers))::pgmq.message_record;
            v_left := v_left - 1;
            v_again := v_message.attempt > 1;
            v_lease_id := v_message.lease_id;
        end loop;
        if v_lease_id is not null then
            perform pgq.ack(v_lease_id);
            v_lease_id := null;
        end if;
        exit when not v_again;
    end loop;
end
$$;
comment on function pgmq.pop(text, int) is 'Reads up to qty messages and deletes them.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/60_read/read.sql

-- Reading. A read is a claim for vt seconds. Messages that timed out return in several ready rows,
-- and pgq delivers each alone, so a read that meets redeliveries claims until it has enough.
-- With a vt of 0 the read could claim a message twice, so it holds its messages until it has all.
create or replace function pgmq.read(
    queue_name text, vt int, qty int, conditional jsonb default '{}'
) returns setof pgmq.message_record
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_filter jsonb := pgmq._filter(conditional);
    v_lease interval := make_interval(secs => case when vt > 0 then vt else 60 end);
    v_left int := coalesce(qty, 1000000);
    v_again boolean;
    v_ids bigint[];
    v_lease_id bigint;
    v_message pgq.claimed;
begin
    while v_left > 0 loop
        v_again := false;
        for v_message in
            select * from pgq.claim(queue_name, v_filter, n => v_left, lease => v_lease)
        loop
            if vt <= 0 then
                v_ids := v_ids || v_message.id;
                v_message.lease_until :=
                    v_message.lease_until - v_lease + make_interval(secs => vt);
            end if;
            return next row(
                v_message.id, v_message.attempt, v_message.published_at,
                v_message.lease_until - make_interval(secs => vt), v_message.lease_until,
                nullif(v_message.payload, 'null'), pgmq._headers_out(v_message.headers)
            )::pgmq.message_record;
            v_left := v_left - 1;
            v_again := v_message.attempt > 1;
            v_lease_id := v_message.lease_id;
        end loop;
        exit when not v_again;
    end loop;
    if v_lease_id is not null then
        perform set_config(pgmq._note(queue_name), v_lease_id::text, false);
    end if;
    if v_ids is not null then
        perform pgmq.set_vt(queue_name, v_ids, vt);
    end if;
end
$$;
comment on function pgmq.read(text, int, int, jsonb) is
    'Reads up to qty messages that contain the condition; nobody else sees them for vt seconds.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/60_read/read_with_poll.sql

create or replace function pgmq.read_with_poll(
    queue_name text,
    vt int,
    qty int,
    max_poll_seconds int default 5,
    poll_interval_ms int default 100,
    conditional jsonb default '{}'
) returns setof pgmq.message_record
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_until timestamptz := clock_timestamp() + make_interval(secs => max_poll_seconds);
begin
    while clock_timestamp() < v_until loop
        return query select * from pgmq.read(queue_name, vt, qty, conditional);
        exit when found;
        perform pg_sleep(poll_interval_ms / 1000.0);
    end loop;
end
$$;
comment on function pgmq.read_with_poll(text, int, int, int, int, jsonb) is
    'Reads messages; if there are none, polls until max_poll_seconds are over.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/65_grouped/free.sql

-- Reading by groups (header x-pgmq-group; messages without it are one group). A group is blocked
-- while its oldest message is invisible. The cost grows with the length of the queue, as
-- in pgmq; group_key of pgq costs the same whatever the backlog.
create or replace function pgmq._free(queue_name text)
returns table (msg_id bigint, key text, head bigint, place bigint)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now timestamptz := pgq.now();
begin
    return query
        select o.msg_id, o.key, o.head, o.place
        from (
            select h.msg_id, h.key, h.vt, min(h.msg_id) over g as head,
                   first_value(h.vt) over (g order by h.msg_id) as head_vt,
                   row_number() over (partition by h.key, h.vt > v_now order by h.msg_id) as place
            from (
                select m.*, coalesce(m.headers ->> 'x-pgmq-group', '_default_fifo_group') as key
                from pgmq._held(_free.queue_name) m
            ) h
            window g as (partition by h.key)
        ) o
        where o.head_vt <= v_now and o.vt <= v_now;
end
$$;
comment on function pgmq._free(text) is
    'The visible messages of groups that are not blocked, with their place in the group.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/65_grouped/poll_grouped.sql

create or replace function pgmq._poll_grouped(
    queue_name text, vt int, qty int, mode text, max_poll_seconds int, poll_interval_ms int
) returns setof pgmq.message_record
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_until timestamptz := clock_timestamp() + make_interval(secs => max_poll_seconds);
begin
    while clock_timestamp() < v_until loop
        return query select * from pgmq._read_grouped(queue_name, vt, qty, mode);
        exit when found;
        perform pg_sleep(poll_interval_ms / 1000.0);
    end loop;
end
$$;
comment on function pgmq._poll_grouped(text, int, int, text, int, int) is
    'Reads by groups; if there is nothing, polls until max_poll_seconds are over.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/65_grouped/read_grouped.sql

create or replace function pgmq._read_grouped(
    queue_name text, vt int, qty int, mode text, caller pgq.caller default current_user
) returns setof pgmq.message_record
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', queue_name);
    v_now timestamptz := pgq.now();
    v_lease interval := greatest(make_interval(secs => vt), interval '1 us');
    v_groups text[] := '{}';
    v_group record;
    v_size bigint := 0::bigint;
    v_ids bigint[];
    v_wanted int8multirange;
    v_claim pgq._claim;
    v_places tid[];
    v_sets int8multirange[];
    v_rows record;
begin
    if v_queue.paused or qty < 1 then
        return;
    end if;
    perform pgq._upkeep(v_queue, null, null, v_now);
    -- Locks groups, so that each has one reader at a time, and no more of them than this read
    -- needs. The next statement sees what the previous reader has taken.
    for v_group in
        select f.key, case mode when 'whole' then count(*) else 1 end as size
        from pgmq._free(queue_name) f group by 1 order by min(f.msg_id)
    loop
        continue when not pg_try_advisory_xact_lock(
            hashtextextended('pgmq ' || v_queue.queue_id || ' ' || v_group.key, 0));
        v_groups := v_groups || v_group.key;
        v_size := v_size + v_group.size;
        exit when v_size >= qty;
    end loop;
    v_ids := array(
        select f.msg_id from pgmq._free(queue_name) f
        where f.key = any (v_groups) and (mode <> 'head' or f.place = 1)
        order by case mode when 'rr' then f.place else f.head end, f.head, f.place
        limit qty);
    if v_ids = '{}' then
        return;
    end if;
    v_claim := row(v_queue.queue_id, pgq._lease_token(v_now + v_lease), 1, cardinality(v_ids),
                   v_now, v_now + v_lease, v_queue.journal = 'all', null, null,
                   null, null)::pgq._claim;
    v_wanted := pgq._set_of(v_ids);
    loop
        select array_agg(r.ctid order by r.rank), array_agg(r.ids * v_wanted order by r.rank)
        into v_places, v_sets
        from pgq.ready r where r.queue_id = v_queue.queue_id and r.ids && v_wanted;
        exit when v_places is null;
        v_rows := pgq._take_rows(v_claim, v_places, v_sets);
        exit when v_rows.size = 0;
        v_claim.part := v_rows.part;
        v_claim.n := v_claim.n - v_rows.size;
        exit when v_claim.n = 0;
    end loop;
    return query
        select m.id, m.attempt, m.published_at, v_now, m.lease_until,
               nullif(m.payload, 'null'), pgmq._headers_out(m.headers)
        from pgq._read_lease(v_claim.lease_id) m
        order by array_position(v_ids, m.id);
    perform set_config(pgmq._note(queue_name), v_claim.lease_id::text, false);
end
$$;
comment on function pgmq._read_grouped(text, int, int, text, pgq.caller) is
    'Reads messages in the order of their groups.';

create or replace function pgmq.read_grouped(queue_name text, vt int, qty int)
returns setof pgmq.message_record
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq._read_grouped(queue_name, vt, qty, 'whole');
end
$$;
comment on function pgmq.read_grouped(text, int, int) is
    'Reads messages of the oldest group that is free, then of the next.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/65_grouped/read_grouped_head.sql

create or replace function pgmq.read_grouped_head(queue_name text, vt int, qty int)
returns setof pgmq.message_record
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq._read_grouped(queue_name, vt, qty, 'head');
end
$$;
comment on function pgmq.read_grouped_head(text, int, int) is
    'Reads the first message of each free group.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/65_grouped/read_grouped_head_with_poll.sql

create or replace function pgmq.read_grouped_head_with_poll(
    queue_name text, vt int, qty int, max_poll_seconds int default 5,
    poll_interval_ms int default 100
) returns setof pgmq.message_record
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq._poll_grouped(
        queue_name, vt, qty, 'head', max_poll_seconds, poll_interval_ms);
end
$$;
comment on function pgmq.read_grouped_head_with_poll(text, int, int, int, int) is
    'As pgmq.read_grouped_head; if there is nothing, polls until max_poll_seconds are over.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/65_grouped/read_grouped_rr.sql

create or replace function pgmq.read_grouped_rr(queue_name text, vt int, qty int)
returns setof pgmq.message_record
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq._read_grouped(queue_name, vt, qty, 'rr');
end
$$;
comment on function pgmq.read_grouped_rr(text, int, int) is
    'Reads messages of all free groups in turns.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/65_grouped/read_grouped_rr_with_poll.sql

create or replace function pgmq.read_grouped_rr_with_poll(
    queue_name text, vt int, qty int, max_poll_seconds int default 5,
    poll_interval_ms int default 100
) returns setof pgmq.message_record
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq._poll_grouped(
        queue_name, vt, qty, 'rr', max_poll_seconds, poll_interval_ms);
end
$$;
comment on function pgmq.read_grouped_rr_with_poll(text, int, int, int, int) is
    'As pgmq.read_grouped_rr; if there is nothing, polls until max_poll_seconds are over.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/65_grouped/read_grouped_with_poll.sql

create or replace function pgmq.read_grouped_with_poll(
    queue_name text, vt int, qty int, max_poll_seconds int default 5,
    poll_interval_ms int default 100
) returns setof pgmq.message_record
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq._poll_grouped(
        queue_name, vt, qty, 'whole', max_poll_seconds, poll_interval_ms);
end
$$;
comment on function pgmq.read_grouped_with_poll(text, int, int, int, int) is
    'As pgmq.read_grouped; if there is nothing, polls until max_poll_seconds are over.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/70_end/archive.sql

create or replace function pgmq._archive(
    queue_name text, msg_ids bigint[], caller pgq.caller default current_user
) returns setof bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', queue_name);
begin
    return query
        insert into pgmq.archived as a (queue_name, msg_id, read_ct, enqueued_at, last_read_at,
                                        archived_at, vt, message, headers)
        select v_queue.name, m.id, e.attempt, m.published_at, e.claimed_at, pgq.now(),
               coalesce(e.until, m.published_at), nullif(m.payload, 'null'),
               pgmq._headers_out(m.headers)
        from pgmq._end(queue_name, coalesce(msg_ids, '{}')) e
        cross join lateral pgq._read_ids(null, e.attempt, e.until, e.ids) m
        order by m.id
        returning a.msg_id;
end
$$;
comment on function pgmq._archive(text, bigint[], pgq.caller) is
    'Ends messages and keeps copies.';

create or replace function pgmq.archive(queue_name text, msg_ids bigint[]) returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select pgmq._archive(queue_name, msg_ids);
end
$$;
comment on function pgmq.archive(text, bigint[]) is
    'Ends messages and keeps copies in pgmq.a_<queue>; returns the ids of those that were there.';

create or replace function pgmq.archive(queue_name text, msg_id bigint) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return exists (select from pgmq._archive(queue_name, array[msg_id]));
end
$$;
comment on function pgmq.archive(text, bigint) is
    'Ends a message and keeps a copy in pgmq.a_<queue>; false if it is not there.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/70_end/delete.sql

-- Ending messages, and changing when they become visible.
create or replace function pgmq.delete(queue_name text, msg_ids bigint[]) returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        select i from pgmq._end(queue_name, coalesce(msg_ids, '{}')) e
        cross join lateral unnest(e.ids) r
        cross join lateral generate_series(lower(r), upper(r) - 1) i
        order by i;
end
$$;
comment on function pgmq.delete(text, bigint[]) is
    'Ends messages, whoever has read them; returns the ids of those that were there.';

create or replace function pgmq.delete(queue_name text, msg_id bigint) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return exists (select from pgmq._end(queue_name, array[msg_id]));
end
$$;
comment on function pgmq.delete(text, bigint) is
    'Ends a message, whoever has read it; false if it is not there.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/70_end/set_vt.sql

-- Makes messages visible at another time, whatever their state: they leave their lease and become
-- scheduled, or ready, with their attempts and failures.
create or replace function pgmq._set_vt(
    queue_name text, msg_ids bigint[], vt timestamptz, caller pgq.caller default current_user
) returns setof pgmq.message_record
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', queue_name);
    v_now timestamptz := pgq.now();
    v_part pgq.lease;
begin
    for v_part in select * from pgmq._take(queue_name, coalesce(msg_ids, '{}')) loop
        if v_part.runs then
            v_part := pgq._return_runs(v_part, v_part.failures, vt - v_now, v_now);
            continue when v_part.size = 0;
        end if;
        if vt > v_now then
            insert into pgq.scheduled (queue_id, due_at, attempt, size, grouped, failures, ids)
            values (v_queue.queue_id, vt, v_part.attempt, v_part.size, v_part.grouped,
                    v_part.failures, v_part.ids);
            perform pgq._wake(v_queue.queue_id);
        else
            perform pgq._enqueue(v_queue, v_part.ids, v_part.attempt, v_part.failures,
                                 v_part.grouped);
        end if;
        return query
            select m.id, v_part.attempt, m.published_at, v_part.claimed_at, vt,
                   nullif(m.payload, 'null'), pgmq._headers_out(m.headers)
            from pgq._read_ids(null, v_part.attempt, vt, v_part.ids) m
            order by m.id;
    end loop;
end
$$;
comment on function pgmq._set_vt(text, bigint[], timestamptz, pgq.caller) is
    'Makes messages visible at another time.';

create or replace function pgmq.set_vt(queue_name text, msg_ids bigint[], vt timestamptz)
returns setof pgmq.message_record
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq._set_vt(queue_name, msg_ids, vt);
end
$$;
comment on function pgmq.set_vt(text, bigint[], timestamptz) is
    'Makes messages visible at a time; returns those that were there.';

create or replace function pgmq.set_vt(queue_name text, msg_ids bigint[], vt int)
returns setof pgmq.message_record
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        select * from pgmq._set_vt(queue_name, msg_ids, pgq.now() + make_interval(secs => vt));
end
$$;
comment on function pgmq.set_vt(text, bigint[], int) is
    'Makes messages visible after so many seconds; returns those that were there.';

create or replace function pgmq.set_vt(queue_name text, msg_id bigint, vt timestamptz)
returns setof pgmq.message_record
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq._set_vt(queue_name, array[msg_id], vt);
end
$$;
comment on function pgmq.set_vt(text, bigint, timestamptz) is
    'Makes a message visible at a time; returns it.';

create or replace function pgmq.set_vt(queue_name text, msg_id bigint, vt int)
returns setof pgmq.message_record
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq._set_vt(
        queue_name, array[msg_id], pgq.now() + make_interval(secs => vt));
end
$$;
comment on function pgmq.set_vt(text, bigint, int) is
    'Makes a message visible after so many seconds; returns it.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/75_metrics/metrics.sql

-- Counts of queues. Lengths are sums over a few rows; the total is counted in the log.
create or replace function pgmq._metrics(
    queue_name text default null, caller pgq.caller default current_user
) returns setof pgmq.metrics_result
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_queues int[] := pgq._visible_queues(caller);
    v_now timestamptz := pgq.now();
begin
    if _metrics.queue_name is not null then
        perform pgq._queue_for(caller, 'consume', _metrics.queue_name);
    end if;
    return query
        with total as materialized (
            -- Not those of an older queue of that name.
            select m.topic, count(*) as messages
            from pgq.message m
            join pgq.queue t on t.name = m.topic and m.published_at >= t.created_at
            where _metrics.queue_name is null or m.topic = _metrics.queue_name group by 1
        )
        select q.name, s.length,
               extract(epoch from v_now - (
                   select m.published_at from pgq.message m where m.id = s.newest))::int,
               extract(epoch from v_now - (
                   select m.published_at from pgq.message m where m.id = s.oldest))::int,
               coalesce(t.messages, 0), v_now, s.visible, null::bigint
        from pgq.queue q
        left join total t on t.topic = q.name
        cross join lateral (
            select coalesce(sum(x.size), 0)::bigint as length,
                   coalesce(sum(x.size) filter (where x.vt <= v_now), 0)::bigint as visible,
                   min(lower(x.ids)) as oldest, max(upper(x.ids)) - 1 as newest
            from (
                select r.size, r.ids, v_now as vt
                from pgq.ready r where r.queue_id = q.queue_id
                union all
                select c.size, c.ids, c.due_at
                from pgq.scheduled c where c.queue_id = q.queue_id
                union all
                select l.size, l.ids, l.until from pgq.lease l where l.queue_id = q.queue_id
            ) x
        ) s
        where q.mode = 'queue' and (v_queues is null or q.queue_id = any (v_queues))
          and (_metrics.queue_name is null or q.name = _metrics.queue_name)
        order by q.queue_id;
end
$$;
comment on function pgmq._metrics(text, pgq.caller) is 'Counts of one queue, or of all.';

create or replace function pgmq.metrics(queue_name text) returns pgmq.metrics_result
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_result pgmq.metrics_result;
begin
    select * into v_result from pgmq._metrics(coalesce(queue_name, ''));
    return v_result;
end
$$;
comment on function pgmq.metrics(text) is 'Counts of a queue.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/75_metrics/metrics_all.sql

create or replace function pgmq.metrics_all() returns setof pgmq.metrics_result
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq._metrics();
end
$$;
comment on function pgmq.metrics_all() is 'Counts of all queues.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/80_topic/bind.sql

create or replace function pgmq._bind(
    pattern text, queue_name text, bound boolean, caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', queue_name);
begin
    if bound then
        insert into pgmq.topic_bindings (pattern, queue_name)
        values (_bind.pattern, v_queue.name)
        on conflict on constraint topic_bindings_pkey do nothing;
    else
        delete from pgmq.topic_bindings b
        where b.pattern = _bind.pattern and b.queue_name = v_queue.name;
    end if;
    return found;
end
$$;
comment on function pgmq._bind(text, text, boolean, pgq.caller) is
    'Binds a queue to a pattern, or unbinds it.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/80_topic/bind_topic.sql

create or replace function pgmq.bind_topic(pattern text, queue_name text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq.validate_topic_pattern(pattern);
    perform pgmq._bind(pattern, queue_name, true);
end
$$;
comment on function pgmq.bind_topic(text, text) is
    'Lets a queue receive the messages of send_topic whose routing keys match the pattern.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/80_topic/bindings.sql

create or replace function pgmq._bindings(caller pgq.caller default current_user)
returns table (pattern text, queue_name text, bound_at timestamptz, compiled_regex text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_owner boolean := pgq._is_owner(caller);
begin
    return query
        select b.pattern, b.queue_name, b.bound_at, b.compiled_regex
        from pgmq.topic_bindings b
        where v_owner or exists (
            select from pgq.queue q
            join pgq.queue_right r on r.queue_id = q.queue_id
            where q.name = b.queue_name and pg_has_role(_bindings.caller, r.role, 'usage'));
end
$$;
comment on function pgmq._bindings(pgq.caller) is
    'The bindings of the queues to which the caller has any right.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/80_topic/check_words.sql

-- Topics of pgmq: a table of patterns, and a copy of the message for each queue that matches.
-- Subscriptions of pgq store a message once, but interpret # and partial words differently.
create or replace function pgmq._check_words(words text, what text, allowed text) returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_problem text := case
        when coalesce(words, '') = '' then 'is missing'
        when length(words) > 255 then 'is longer than 255 characters'
        when words !~ allowed then 'has a character that is not allowed'
        when words ~ E'^\\.' or words ~ E'\\.$' then 'begins or ends with a dot'
        when words ~ E'\\.\\.' then 'has two dots in a row'
        when words ~ '[*#][*#]' then 'has two wildcards in a row'
    end;
begin
    if v_problem is not null then
        raise exception '% "%" %', what, left(words, 40), v_problem
            using errcode = 'invalid_parameter_value',
                  hint = 'Use words of letters, digits, _ and -, separated by single dots.';
    end if;
end
$$;
comment on function pgmq._check_words(text, text, text) is
    'Raises 22023 unless the text is a list of words.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/80_topic/list_topic_bindings.sql

create or replace function pgmq.list_topic_bindings()
returns table (pattern text, queue_name text, bound_at timestamptz, compiled_regex text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    return query
        select * from pgmq._bindings() b order by b.bound_at desc, b.pattern, b.queue_name;
end
$$;
comment on function pgmq.list_topic_bindings() is 'All bindings that the caller may see.';

-- In SQL, because a parameter and a column have the same name.
create or replace function pgmq.list_topic_bindings(queue_name text)
returns table (pattern text, queue_name text, bound_at timestamptz, compiled_regex text)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select b.pattern, b.queue_name, b.bound_at, b.compiled_regex from pgmq._bindings() b
    where b.queue_name = $1 order by b.bound_at desc, b.pattern
$$;
comment on function pgmq.list_topic_bindings(text) is 'The bindings of a queue.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/80_topic/send_batch_topic.sql

create or replace function pgmq.send_batch_topic(
    routing_key text, msgs jsonb[], headers jsonb[], delay timestamptz
) returns table (queue_name text, msg_id bigint)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform pgmq.validate_routing_key(routing_key);
    perform pgmq._check_batch(msgs, headers);
    return query
        select b.queue_name, s
        from (
            select distinct r.queue_name from pgmq.test_routing(send_batch_topic.routing_key) r
            order by 1
        ) b
        cross join lateral pgmq.send_batch(
            b.queue_name, send_batch_topic.msgs, send_batch_topic.headers,
            send_batch_topic.delay) s;
end
$$;
comment on function pgmq.send_batch_topic(text, jsonb[], jsonb[], timestamptz) is
    'Sends messages to all queues whose patterns match; returns the ids for each queue.';

create or replace function pgmq.send_batch_topic(routing_key text, msgs jsonb[])
returns table (queue_name text, msg_id bigint)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq.send_batch_topic(
        routing_key, msgs, null::jsonb[], null::timestamptz);
end
$$;
comment on function pgmq.send_batch_topic(text, jsonb[]) is
    'Sends messages to all queues whose patterns match; returns the ids for each queue.';

create or replace function pgmq.send_batch_topic(routing_key text, msgs jsonb[], headers jsonb[])
returns table (queue_name text, msg_id bigint)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq.send_batch_topic(
        routing_key, msgs, headers, null::timestamptz);
end
$$;
comment on function pgmq.send_batch_topic(text, jsonb[], jsonb[]) is
    'Sends messages to all queues whose patterns match; returns the ids for each queue.';

create or replace function pgmq.send_batch_topic(routing_key text, msgs jsonb[], delay int)
returns table (queue_name text, msg_id bigint)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq.send_batch_topic(
        routing_key, msgs, null::jsonb[], pgq.now() + make_interval(secs => delay));
end
$$;
comment on function pgmq.send_batch_topic(text, jsonb[], int) is
    'Sends messages to all queues whose patterns match; returns the ids for each queue.';

create or replace function pgmq.send_batch_topic(routing_key text, msgs jsonb[], delay timestamptz)
returns table (queue_name text, msg_id bigint)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq.send_batch_topic(
        routing_key, msgs, null::jsonb[], delay);
end
$$;
comment on function pgmq.send_batch_topic(text, jsonb[], timestamptz) is
    'Sends messages to all queues whose patterns match; returns the ids for each queue.';

create or replace function pgmq.send_batch_topic(
    routing_key text, msgs jsonb[], headers jsonb[], delay int)
returns table (queue_name text, msg_id bigint)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq.send_batch_topic(
        routing_key, msgs, headers, pgq.now() + make_interval(secs => delay));
end
$$;
comment on function pgmq.send_batch_topic(text, jsonb[], jsonb[], int) is
    'Sends messages to all queues whose patterns match; returns the ids for each queue.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/80_topic/send_topic.sql

create or replace function pgmq.send_topic(
    routing_key text, msg jsonb, headers jsonb, delay int
) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if msg is null or delay < 0 then
        raise exception 'a message of a topic needs a body, and no negative delay'
            using errcode = 'invalid_parameter_value', hint = 'Send {} for an empty one.';
    end if;
    return (
        select count(*)::int from pgmq.send_batch_topic(
            routing_key, array[msg], case when headers is not null then array[headers] end,
            pgq.now() + make_interval(secs => coalesce(delay, 0))));
end
$$;
comment on function pgmq.send_topic(text, jsonb, jsonb, int) is
    'Sends a message to all queues whose patterns match; returns how many.';

create or replace function pgmq.send_topic(routing_key text, msg jsonb) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return pgmq.send_topic(routing_key, msg, null::jsonb, 0);
end
$$;
comment on function pgmq.send_topic(text, jsonb) is
    'Sends a message to all queues whose patterns match; returns how many.';

create or replace function pgmq.send_topic(routing_key text, msg jsonb, delay int) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return pgmq.send_topic(routing_key, msg, null::jsonb, delay);
end
$$;
comment on function pgmq.send_topic(text, jsonb, int) is
    'Sends a message to all queues whose patterns match; returns how many.';

create or replace function pgmq.send_topic(routing_key text, msg jsonb, headers jsonb) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return pgmq.send_topic(routing_key, msg, headers, 0);
end
$$;
comment on function pgmq.send_topic(text, jsonb, jsonb) is
    'Sends a message to all queues whose patterns match; returns how many.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/80_topic/test_routing.sql

create or replace function pgmq.test_routing(routing_key text)
returns table (pattern text, queue_name text, compiled_regex text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform pgmq.validate_routing_key(routing_key);
    return query
        select b.pattern, b.queue_name, b.compiled_regex from pgmq._bindings() b
        where test_routing.routing_key ~ b.compiled_regex order by b.pattern;
end
$$;
comment on function pgmq.test_routing(text) is 'The bindings that a routing key matches.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/80_topic/unbind_topic.sql

create or replace function pgmq.unbind_topic(pattern text, queue_name text) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(pattern, '') = '' or coalesce(queue_name, '') = '' then
        raise exception 'a binding has a pattern and a queue'
            using errcode = 'invalid_parameter_value', hint = 'Name both.';
    end if;
    return pgmq._bind(pattern, queue_name, false);
exception when sqlstate 'QU001' then
    return false;
end
$$;
comment on function pgmq.unbind_topic(text, text) is
    'Ends a binding; false if there is none.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/80_topic/validate_routing_key.sql

create or replace function pgmq.validate_routing_key(routing_key text) returns boolean
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq._check_words(routing_key, 'routing key', '^[a-zA-Z0-9._-]+$');
    return true;
end
$$;
comment on function pgmq.validate_routing_key(text) is
    'True, or 22023 if messages cannot have this key.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/80_topic/validate_topic_pattern.sql

create or replace function pgmq.validate_topic_pattern(pattern text) returns boolean
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq._check_words(pattern, 'pattern', '^[a-zA-Z0-9._*#-]+$');
    return true;
end
$$;
comment on function pgmq.validate_topic_pattern(text) is
    'True, or 22023 if queues cannot be bound to this pattern.';
$pgq_script$;
    execute $pgq_script$
-- sql/pgmq/99_rights.sql

-- No routine is open to PUBLIC. A role needs usage of the schema, execute on its routines, and the
-- rights to its queues that pgq.grant_queue gives.
revoke all on all routines in schema pgmq from public;
$pgq_script$;
    perform pg_catalog.set_config('check_function_bodies', v_check_bodies, true);
    perform pg_catalog.set_config('search_path', v_search_path, true);
end
$pgq_install$;
