-- Invariants of the log: each message is in it once, and each queue that receives the message holds
-- it or has ended it. The second is checked for queues that record every end (journal), as far back
-- as the journal reaches, and for transactions that began after maintain() recorded the bindings.
-- Left out: messages with a dedup key, which may be duplicates; messages that are stored but not
-- delivered; and messages whose published_at, set by the owner, is in the future.
create or replace function pgq._check_log()
returns table (problem text, queue_id int, detail text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
    v_oldest bigint := (select min(e.number) from pgq.era e where e.emptied_at is null);
    v_since timestamptz;
begin
    return query
        select 'a message is in the log twice', null::int, format('message %s', m.id)
        from pgq.message m group by m.id having count(*) > 1;
    -- An end is recorded in the era that was current then, which may have begun a moment after its
    -- started_at: so the journal is complete from the second era on.
    select greatest(n.routed_at, case
               when v_oldest is null or v_oldest = 0 then '-infinity'
               else coalesce((select e.started_at from pgq.era e where e.number = v_oldest + 1),
                             'infinity') end)
    into v_since
    from pgq.maintenance n
    where n.routing_version = (select sum(s.version) from pgq.routing s);
    if v_since is null then
        return;
    end if;
    return query
        with received as (
            select b.queue_id, range_agg(int8range(m.id, m.id + 1)) as ids
            from pgq.message m
            join pgq.binding b on (b.regex is null and b.pattern = m.topic) or m.topic ~ b.regex
            join pgq.queue q on q.queue_id = b.queue_id and q.mode = 'queue' and q.journal = 'all'
            where m.published_at >= v_since and m.published_at <= clock_timestamp()
              and m.dedup_key is null and not b.pending
              and m.deliver_at is distinct from 'infinity'
              and (b.path is null or b.filter::text !~ E'"\\$now"'
                   and pgq._matches(b.path, b.scope, m, 1, m.published_at))
            group by 1
        ), known as (
            select h.queue_id, range_agg(h.ids) as ids
            from (
                select h.queue_id, h.ids from pgq._held() h
                union all
                select j.queue_id, j.ids from pgq.journal j
            ) h
            group by 1
        )
        select 'a message is nowhere in a queue that receives it', r.queue_id,
               format('messages %s', r.ids - coalesce(k.ids, '{}'))
        from received r left join known k on k.queue_id = r.queue_id
        where r.ids - coalesce(k.ids, '{}') <> '{}';
end
$$;
comment on function pgq._check_log() is
    'Verifies that each message is in the log once, and in every queue that receives it.';
