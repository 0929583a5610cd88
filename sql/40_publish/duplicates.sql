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
