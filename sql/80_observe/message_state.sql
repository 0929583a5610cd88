-- The state of every undelivered message; a message in none of these states is done.
create or replace view pgq.message_state with (security_barrier) as
select s.id, q.name as queue, s.state, s.attempt, s.since, s.until, s.holder, s.lease_id
from (
    select generate_series(lower(r), upper(r) - 1) as id, d.queue_id, 'ready' as state, d.attempt,
           null::timestamptz as since, d.expires_at as until, null::text as holder,
           null::bigint as lease_id
    from pgq.ready d cross join unnest(d.ids) r
    union all
    select generate_series(lower(r), upper(r) - 1), c.queue_id,
           case when c.attempt = 0 then 'delayed' else 'retrying' end, c.attempt,
           null, c.due_at, null, null
    from pgq.scheduled c cross join unnest(c.ids) r
    union all
    select generate_series(lower(r), upper(r) - 1), l.queue_id, 'leased', l.attempt, l.claimed_at,
           nullif(l.until, 'infinity'), l.holder, l.lease_id
    from pgq.lease l cross join unnest(l.ids) r
    union all
    select g.message_id, g.queue_id, 'waiting', 0, null, null, null, null
    from pgq.group_line g
    union all
    select d.message_id, d.queue_id, 'dead', d.attempts, d.failed_at, null, d.holder, null
    from pgq.letter d
) s
join pgq._visible_queue q on q.queue_id = s.queue_id;
comment on view pgq.message_state is
    'Every unfinished message and its state: ready, delayed, retrying, leased, dead, or waiting '
    'for its turn in an ordering group. This view reads all messages; for one message use '
    'pgq.history(id).';
comment on column pgq.message_state.attempt is 'Deliveries so far, including the current one.';
comment on column pgq.message_state.since is 'When the message was claimed or failed.';
comment on column pgq.message_state.until is 'When it expires or is due, or its lease expires.';
revoke all on table pgq.message_state from public;
