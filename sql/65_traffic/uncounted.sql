-- The events that the snapshot of the last count could not see, by queue and minute. Reads the log
-- from the id, and the slots of the journal from the pages, of one count earlier: so it finds
-- transactions that were open at the last count, unless they were open at the one before too. With
-- own it includes the current transaction: a query wants these events, a count leaves them to the
-- next one.
create or replace function pgq._uncounted(own boolean)
returns table (queue_id int, minute timestamptz, event text, size bigint)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_mark pgq.maintenance;
    v_since timestamptz := pgq.now() - interval '1 h';
    v_first boolean;
    v_next xid;
    v_running xid[];
    v_own xid := case when not own then xid(pg_current_xact_id_if_assigned()) end;
    v_id bigint;
begin
    select m.* into v_mark from pgq.maintenance m;
    -- A dump that was restored into a younger cluster brings a snapshot from the future.
    v_first := v_mark.counted_seen is null
        or pg_snapshot_xmax(v_mark.counted_seen) > pg_snapshot_xmax(pg_current_snapshot());
    v_next := xid(pg_snapshot_xmax(v_mark.counted_seen));
    v_running := xid(v_mark.counted_by) || array(
        select xid(x) from pg_snapshot_xip(v_mark.counted_seen) x);
    v_id := greatest(v_mark.before_id,
                     pg_sequence_last_value('pgq.message_id') - pgq._limit('count_messages'));
    return query
        -- The messages of a queue's own topic; subscriptions have counters of their own.
        select q.queue_id, t.minute, 'in', t.size
        from (
            select m.topic, date_trunc('minute', m.published_at) as minute, count(*) as size
            from pgq.message m
            where m.id > v_id and m.published_at > v_since
              and m.deliver_at is distinct from 'infinity'
              and (v_first or age(m.xmin) <= age(v_next) or m.xmin = any (v_running))
              and m.xmin is distinct from v_own
            group by 1, 2
        ) t
        join pgq.queue q on q.name = t.topic
        where exists (select from pgq.binding b
                      where b.queue_id = q.queue_id and b.pattern = q.name and not b.counted)
        union all
        select j.queue_id, date_trunc('minute', j.at), j.event, sum(j.size)::bigint
        from (
            select x.xmin as xid, x.queue_id, x.at, x.event, x.size from pgq.journal_0 x
            where x.ctid >= pgq._page_of('pgq.journal_0', v_mark.before_pages[1])
            union all
            select x.xmin, x.queue_id, x.at, x.event, x.size from pgq.journal_1 x
            where x.ctid >= pgq._page_of('pgq.journal_1', v_mark.before_pages[2])
            union all
            select x.xmin, x.queue_id, x.at, x.event, x.size from pgq.journal_2 x
            where x.ctid >= pgq._page_of('pgq.journal_2', v_mark.before_pages[3])
        ) j
        where j.at > v_since
          and (v_first or age(j.xid) <= age(v_next) or j.xid = any (v_running))
          and j.xid is distinct from v_own
        group by 1, 2, 3;
end
$$;
comment on function pgq._uncounted(boolean) is 'The events since the last count.';
