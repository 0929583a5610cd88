-- The state of the queues. Counts are exact while a queue has few rows; for a large backlog some
-- pages are sampled, so that a query takes milliseconds whatever the backlog.
create or replace function pgq._queue_stats(caller pgq.caller default current_user)
returns table (queue text, mode text, paused boolean, ready bigint, scheduled bigint,
               leased bigint, waiting bigint, dead bigint, exact boolean, oldest_age interval,
               next_due_at timestamptz, published_per_second float8, acked_per_second float8,
               failed_per_second float8, relay text, rate_seconds float8, estimated text[])
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
-- The first 501 rows of a queue are found by index, without reading those of other queues.
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_queues int[] := pgq._visible_queues(caller);
    v_now timestamptz := pgq.now();
    -- A table of few pages is sampled whole.
    v_ready real := (100.0 * least(1, 50 / greatest(
        pg_relation_size('pgq.ready') / current_setting('block_size')::float8, 1)))::real;
    v_lease real := (100.0 * least(1, 50 / greatest(
        pg_relation_size('pgq.lease') / current_setting('block_size')::float8, 1)))::real;
    v_scheduled real := (100.0 * least(1, 50 / greatest(
        pg_relation_size('pgq.scheduled') / current_setting('block_size')::float8, 1)))::real;
begin
    return query
        with ready_sample as materialized (
            select r.queue_id, sum(r.size) * 100 / v_ready as size
            from pgq.ready r tablesample system (v_ready) repeatable (0)
            group by 1
        ), lease_sample as materialized (
            select l.queue_id, sum(l.size) * 100 / v_lease as size
            from pgq.lease l tablesample system (v_lease) repeatable (0)
            group by 1
        ), scheduled_sample as materialized (
            select s.queue_id, sum(s.size) * 100 / v_scheduled as size
            from pgq.scheduled s tablesample system (v_scheduled) repeatable (0)
            group by 1
        )
        select q.name, q.mode, q.paused,
               case when r.many then coalesce(
                   (select s.size from ready_sample s where s.queue_id = q.queue_id), r.size)
                   else r.size end::bigint,
               case when c.many then coalesce(
                   (select s.size from scheduled_sample s where s.queue_id = q.queue_id), c.size)
                   else c.size end::bigint,
               case when l.many then coalesce(
                   (select s.size from lease_sample s where s.queue_id = q.queue_id), l.size)
                   else l.size end::bigint,
               g.size,
               (select count(*) from pgq.letter y where y.queue_id = q.queue_id),
               not (r.many or c.many or l.many or g.size > 10000),
               v_now - (select m.published_at from pgq.message m
                        where m.id = pgq._oldest_ready(q.queue_id)),
               (select min(s.due_at) from pgq.scheduled s where s.queue_id = q.queue_id),
               f.received, f.acked, f.failed,
               (select case when not bool_and(coalesce(s.owner is not null and s.until > v_now,
                                                       false)) then 'silent'
                            when bool_or(x.circuit = 'open') then 'open'
                            when bool_or(x.circuit = 'half-open') then 'half-open'
                            when count(*) > 0 then 'closed' end
                from pgq.relay x
                left join pgq.stream s on s.queue_id = x.queue_id and s.consumer = x.relay
                where x.queue_id = q.queue_id),
               f.seconds,
               array_remove(array[case when r.many then 'ready' end,
                                  case when c.many then 'scheduled' end,
                                  case when l.many then 'leased' end,
                                  case when g.size > 10000 then 'waiting' end], null)
        from pgq.queue q
        left join pgq._rates() f on f.queue_id = q.queue_id
        cross join lateral (
            select coalesce(sum(x.size), 0) as size, count(*) > 500 as many
            from (select y.size from pgq.ready y where y.queue_id = q.queue_id limit 501) x
        ) r
        cross join lateral (
            select coalesce(sum(x.size), 0) as size, count(*) > 500 as many
            from (select y.size from pgq.scheduled y where y.queue_id = q.queue_id limit 501) x
        ) c
        cross join lateral (
            select coalesce(sum(x.size), 0) as size, count(*) > 500 as many
            from (select y.size from pgq.lease y where y.queue_id = q.queue_id limit 501) x
        ) l
        cross join lateral (
            -- A lower bound: 10001 means that there are more.
            select count(*) as size
            from (select from pgq.group_line y where y.queue_id = q.queue_id limit 10001) x
        ) g
        where v_queues is null or q.queue_id = any (v_queues)
        order by q.name;
end
$$;
comment on function pgq._queue_stats(pgq.caller) is 'The state of the queues.';

create or replace view pgq.queue_stats as select * from pgq._queue_stats();
comment on view pgq.queue_stats is
    'The state of the queues: how many messages are ready, scheduled, leased and dead, the age of '
    'the oldest ready message, and rates over the last one to two minutes. The view is cheap, '
    'whatever the backlog: above 500 rows a count is an estimate from a sample. The estimate '
    'stays the same while nothing changes, and the column estimated names such counts. Dead '
    'letters are always counted.';
comment on column pgq.queue_stats.exact is 'No count is an estimate.';
comment on column pgq.queue_stats.estimated is
    'The counts that are estimates; waiting: there are more than 10,000.';
comment on column pgq.queue_stats.rate_seconds is
    'The window of the rates in seconds. It ends now, or with the last count of maintain().';
comment on column pgq.queue_stats.waiting is 'Waiting for their turn in an ordering group.';
comment on column pgq.queue_stats.published_per_second is
    'Messages that the queue received: of its own topic, and by its subscriptions. Null: there is '
    'no recent count, because maintain() does not run.';
comment on column pgq.queue_stats.acked_per_second is
    'Null: there is no recent count, or the audit log of the queue records failures only.';
comment on column pgq.queue_stats.relay is
    'The worst state of the queue''s relays: silent (no sign of life), or the circuit breaker is '
    'open, half-open or closed. Null: the queue has no relays. See pgq.relays.';
revoke all on table pgq.queue_stats from public;
