-- The metrics from pgq's own tables, read with the rights of their owner, for the queues that the
-- caller may consume. The owner and members of pg_monitor get all of them.
create or replace function pgq._metrics(caller pgq.caller default current_user)
returns table (name text, labels jsonb, value float8)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_queues int[] := case when not pg_has_role(caller, 'pg_monitor', 'usage')
        then pgq._visible_queues(caller) end;
    v_now timestamptz := pgq.now();
    v_retention interval;
    v_pages float8 := current_setting('block_size')::float8;
    -- A table of few pages is sampled whole.
    v_lease real := (100 * least(1, 50 / greatest(
        pg_relation_size('pgq.lease') / v_pages, 1)))::real;
    v_staged real := (100 * least(1, 50 / greatest(
        pg_relation_size('pgq.staged') / v_pages, 1)))::real;
begin
    return query
        with visible as materialized (
            select q.* from pgq.queue q where v_queues is null or q.queue_id = any (v_queues)
        ), lease as materialized (
            select l.queue_id, count(distinct l.lease_id) * 100 / v_lease as size,
                   min(l.claimed_at) as oldest
            from pgq.lease l tablesample system (v_lease) group by 1
        ), expired as materialized (
            select l.queue_id, count(distinct l.lease_id) as size
            from pgq.lease l
            where l.lease_id < pgq._lease_second(v_now) and l.until <= v_now group by 1
        ), unending as materialized (
            select l.queue_id, count(distinct l.lease_id) as leases, sum(l.size) as size,
                   min(l.claimed_at) as oldest
            from pgq.lease l where l.key is not null and l.until = 'infinity' group by 1
        ), lane as materialized (
            select l.queue_id, count(*) as size from pgq.lane l group by 1
        ), waiter as materialized (
            select w.queue_id, count(*) as size from pgq.waiter w where w.until > v_now group by 1
        ), outcome as materialized (
            select o.queue_id,
                   sum(o.size) filter (where o.event in ('nack', 'timeout', 'bury')
                                        and o.reason is null)
                       as retries,
                   sum(o.size) filter (where o.event = 'timeout') as timeouts,
                   sum(o.size) filter (where o.event = 'expire') as expired,
                   sum(o.size) filter (where o.event = 'release') as released,
                   sum(o.size) filter (where o.event = 'replay') as replayed,
                   sum(o.size) filter (where o.event = 'discard') as discarded,
                   sum(o.size) filter (where o.event in ('cancel', 'purge', 'replace'))
                       as cancelled,
                   sum(o.size) filter (where o.event = 'move') as moved
            from pgq.outcome o group by 1
        ), dead as materialized (
            select o.queue_id, o.reason, sum(o.size) as size
            from pgq.outcome o where o.reason is not null group by 1, 2
        ), filter as materialized (
            select h.queue_id, sum(h.claims) as claims, sum(h.tested) as tested,
                   sum(h.matched) as matched
            from pgq.filter_hit h group by 1
        ), hit as materialized (
            select h.binding_id, sum(h.matches) as matches from pgq.binding_hit h group by 1
        )
        select x.name, jsonb_build_object('queue', q.name), coalesce(x.value, 0)
        from visible q
        join pgq._queue_stats() s on s.queue = q.name
        left join lease l on l.queue_id = q.queue_id
        left join expired e on e.queue_id = q.queue_id
        left join unending u on u.queue_id = q.queue_id
        left join lane n on n.queue_id = q.queue_id
        left join waiter w on w.queue_id = q.queue_id
        left join outcome o on o.queue_id = q.queue_id
        left join filter f on f.queue_id = q.queue_id
        cross join lateral (values
            ('pgq_ready_messages', s.ready::float8),
            ('pgq_scheduled_messages', s.scheduled),
            ('pgq_leased_messages', s.leased),
            ('pgq_waiting_messages', s.waiting),
            ('pgq_dead_messages', s.dead),
            ('pgq_counts_exact', s.exact::int),
            ('pgq_oldest_ready_seconds', greatest(extract(epoch from s.oldest_age), 0)),
            ('pgq_oldest_dead_seconds', extract(epoch from v_now - (
                select min(d.failed_at) from pgq.letter d where d.queue_id = q.queue_id))),
            ('pgq_paused', s.paused::int),
            ('pgq_published_messages_per_second', s.published_per_second),
            ('pgq_acked_messages_per_second', s.acked_per_second),
            ('pgq_failed_messages_per_second', s.failed_per_second),
            ('pgq_leases', round(l.size)),
            ('pgq_oldest_lease_seconds', extract(epoch from v_now - l.oldest)),
            ('pgq_expired_leases', e.size),
            ('pgq_unending_leases', u.leases),
            ('pgq_unending_leased_messages', u.size),
            ('pgq_oldest_unending_lease_seconds', extract(epoch from v_now - u.oldest)),
            ('pgq_lanes', n.size),
            ('pgq_lanes_full', q.lanes_full::int),
            ('pgq_waiters', w.size),
            ('pgq_retries_total', o.retries),
            ('pgq_lease_expiries_total', o.timeouts),
            ('pgq_expired_messages_total', o.expired),
            ('pgq_released_messages_total', o.released),
            ('pgq_replayed_messages_total', o.replayed),
            ('pgq_discarded_messages_total', o.discarded),
            ('pgq_cancelled_messages_total', o.cancelled),
            ('pgq_moved_messages_total', o.moved),
            ('pgq_filter_claims_total', f.claims),
            ('pgq_filter_tested_messages_total', f.tested),
            ('pgq_filter_matched_messages_total', f.matched)) x (name, value)
        -- A rate that was not counted is missing, not 0.
        where x.value is not null or x.name !~ '_per_second$'
        union all
        select 'pgq_dead_letters_total', jsonb_build_object('queue', q.name, 'reason', r.reason),
               coalesce(d.size, 0)
        from visible q
        cross join unnest(array['processing_error', 'timeout', 'max_attempts', 'expired',
                                'rejected']) r (reason)
        left join dead d on d.queue_id = q.queue_id and d.reason = r.reason
        union all
        select 'pgq_subscription_matches_total',
               jsonb_build_object('queue', q.name, 'pattern', b.pattern), coalesce(h.matches, 0)
        from visible q
        join pgq.binding b on b.queue_id = q.queue_id and b.counted
        left join hit h on h.binding_id = b.binding_id;
    if v_queues is not null then
        return;
    end if;

    v_retention := pgq._log_retention();
    return query
        select x.name, x.labels, coalesce(x.value, 0)
        from (values
            ('pgq_info', jsonb_build_object('version', pgq.version()), 1::float8),
            ('pgq_in_recovery', '{}', pg_is_in_recovery()::int),
            ('pgq_published_messages_total', '{}', pg_sequence_last_value('pgq.message_id')),
            ('pgq_claims_total', '{}', coalesce(pg_sequence_last_value('pgq.lease_id'), 0)
                + coalesce(pg_sequence_last_value('pgq.checked_lease_id') - 6291455, 0)),
            ('pgq_era', '{}', pg_sequence_last_value('pgq.era_number')),
            ('pgq_retention_seconds', '{}', extract(epoch from v_retention)))
            x (name, labels, value)
        union all
        select x.name, jsonb_build_object('slot', s.slot::text) || x.labels, coalesce(x.value, 0)
        from generate_series(0, 2) s (slot)
        left join pgq.era e on e.slot = s.slot and e.emptied_at is null
        left join pgq.era n on n.number = e.number + 1
        cross join lateral (values
            ('pgq_era_bytes', '{"part": "message"}'::jsonb,
                pg_total_relation_size(format('pgq.message_%s', s.slot)::regclass)::float8),
            ('pgq_era_bytes', '{"part": "journal"}',
                pg_total_relation_size(format('pgq.journal_%s', s.slot)::regclass)),
            ('pgq_era_age_seconds', '{}', extract(epoch from v_now - e.started_at)),
            ('pgq_era_overdue_seconds', '{}', greatest(0, extract(epoch from
                v_now - (n.started_at + v_retention + case when e.archived_at is null
                    then coalesce((select max(pgq._bounded(a.wait, pgq._limit('policy_years')))
                                   from pgq.archive a), '0')
                    else '0' end))))) x (name, labels, value)
        union all
        select x.name, jsonb_build_object('table', c.relname), coalesce(x.value, 0)
        from pg_class c
        cross join lateral (values
            ('pgq_table_bytes', pg_total_relation_size(c.oid)::float8),
            ('pgq_table_dead_rows', pg_stat_get_dead_tuples(c.oid))) x (name, value)
        where c.relnamespace = 'pgq'::regnamespace and c.relkind = 'r' and not c.relispartition;
    -- A standby cannot read an unlogged table.
    if not pg_is_in_recovery() then
        return query
            select x.name, '{}'::jsonb, coalesce(x.value, 0)
            from (select round(count(*) * 100 / v_staged) as size, min(t.staged_at) as oldest
                  from pgq.staged t tablesample system (v_staged)) t
            cross join lateral (values
                ('pgq_staged_messages', t.size),
                ('pgq_oldest_staged_seconds', extract(epoch from v_now - t.oldest)::float8))
                x (name, value);
    end if;
end
$$;
comment on function pgq._metrics(pgq.caller) is 'The metrics from pgq''s own tables.';
