-- The options in which two policies of a queue differ, with their values; null: in none.
create or replace function pgq._policy_change(
    present pgq.queue, wanted pgq.queue, present_limits pgq.queue_limit,
    wanted_limits pgq.queue_limit
) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select string_agg(format('%s is %s, not %s', o.key, coalesce(o.present, 'null'),
                                 coalesce(o.wanted, 'null')), '; ' order by o.key)
        from (
            select key, p.value as present, w.value as wanted
            from jsonb_each_text(pgq._policy(present, present_limits)) p
            full join jsonb_each_text(pgq._policy(wanted, wanted_limits)) w using (key)
        ) o
        -- Intervals that are equal may differ as text.
        where case when o.key in ('lease', 'max_lease', 'backoff', 'max_backoff', 'retention',
                                  'dedup_window')
              then o.present::interval is distinct from o.wanted::interval
              else o.present is distinct from o.wanted end);
end
$$;
comment on function pgq._policy_change(
    pgq.queue, pgq.queue, pgq.queue_limit, pgq.queue_limit) is
    'The options in which two policies of a queue differ.';
