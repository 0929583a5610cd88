-- The queues for which this message is the first of its topic with the key, each within its own
-- window. Queues that replace or postpone are left out: see _settle_keys. With a window of zero
-- every message is the first.
create or replace function pgq._take_key(topic text, dedup_key text, message_id bigint)
returns int[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_route pgq.route := pgq._route_of(topic);
    v_now timestamptz := pgq.now();
    v_queues int[];
begin
    with taken as (
        -- Waits for another transaction that publishes the key, until it is known which is first.
        insert into pgq.dedup as d (queue_id, topic, dedup_key, message_id, until)
        select u.queue_id, _take_key.topic, _take_key.dedup_key, _take_key.message_id,
               v_now + u.span
        from pgq._receivers(v_route) u
        order by u.queue_id
        on conflict on constraint dedup_pkey do update
        set message_id = excluded.message_id, until = excluded.until
        where d.until <= v_now or d.message_id = excluded.message_id
        returning d.queue_id
    )
    select coalesce(array_agg(t.queue_id), '{}') into v_queues from taken t;
    return v_queues;
end
$$;
comment on function pgq._take_key(text, text, bigint) is
    'The queues for which the message is the first of its topic with this dedup key.';

-- The given messages of the log that a queue does not get, because it has had their dedup key, and
-- the queue; a queue_id of null: no queue gets the message.
create or replace function pgq._duplicates(ids bigint[])
returns table (message_id bigint, queue_id int)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_message record;
    v_route pgq.route;
    v_queues int[];
begin
    -- All transactions take keys in the same order, so that two batches cannot deadlock.
    for v_message in
        select m.id, m.topic, m.dedup_key from unnest(_duplicates.ids) i
        join pgq.message m on m.id = i order by m.topic, m.dedup_key, m.id
    loop
        v_queues := pgq._take_key(v_message.topic, v_message.dedup_key, v_message.id);
        v_route := pgq._route_of(v_message.topic);
        if v_queues = '{}' and not v_route.replacing then
            return query select v_message.id, null::int;
        else
            return query
                select v_message.id, u.queue_id from pgq._receivers(v_route) u
                where u.queue_id <> all (v_queues);
        end if;
    end loop;
end
$$;
comment on function pgq._duplicates(bigint[]) is
    'Messages that a queue does not get, because it has had their dedup key.';

-- The ids without those that the queue has had; had and queues are parallel arrays.
create or replace function pgq._without(
    ids bigint[], had bigint[], queues int[], queue_id int
) returns bigint[]
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return array(
        select unnest(ids)
        except
        select u.id from unnest(had, queues) u (id, queue_id)
        where u.queue_id = _without.queue_id
        order by 1);
end
$$;
comment on function pgq._without(bigint[], bigint[], int[], int) is
    'The ids without those that the queue has had.';
