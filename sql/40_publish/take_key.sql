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
