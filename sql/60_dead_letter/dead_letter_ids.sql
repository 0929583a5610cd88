-- Dead letters of a queue in the order of their end. Reads them by letter_failed_idx until n match.
-- The view pgq.dead_letter cannot: the planner sorts all rows of a security barrier view.
create or replace function pgq.dead_letter_ids(
    queue text,
    filter jsonb default null,
    cause jsonb default null,
    n int default 100,
    newest boolean default false,
    search text default null,
    before timestamptz default null,
    before_id bigint default null,
    caller pgq.caller default current_user
) returns setof bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
-- @worker
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', dead_letter_ids.queue);
    v_filter pgq.filter := pgq._find_filter(coalesce(filter, '{}'), null);
    v_cause pgq.filter := pgq._cause_filter(cause);
    v_now timestamptz := pgq.now();
begin
    if n < 1 then
        raise exception 'n must be positive, not %', n
            using errcode = 'invalid_parameter_value',
                  hint = 'Leave it out for 100, or pass null for all.';
    end if;
    return query
        select d.dead_letter_id
        from (
            -- One of the two reads nothing.
            (select l.*, pgq._cause_of(l) as died from pgq.letter l
             where not newest and l.queue_id = v_queue.queue_id
             order by l.failed_at, l.dead_letter_id)
            union all
            (select l.*, pgq._cause_of(l) as died from pgq.letter l
             where newest and l.queue_id = v_queue.queue_id
               and (l.failed_at, l.dead_letter_id)
                   < (coalesce(before, 'infinity'), coalesce(before_id, 9223372036854775807))
             order by l.failed_at desc, l.dead_letter_id desc)
        ) d
        where pgq._test_filter(
                  v_filter.path, v_filter.scope, d.headers, d.payload, d.topic, d.priority,
                  d.sender, d.recipient, d.reply_to, d.correlation_id, d.group_key, d.attempts,
                  d.published_at, d.expires_at, d.message_id, v_now)
          and (cause is null or pgq._test_filter(
                  v_cause.path, v_cause.scope, d.died, null, null, null, null, null, null,
                  null, null, null, null, null, null, v_now))
          and (search is null or position(lower(search) in lower(
                  concat_ws(' ', d.error, d.headers::text, d.payload::text))) > 0)
        limit n;
end
$$;
comment on function pgq.dead_letter_ids(
    text, jsonb, jsonb, int, boolean, text, timestamptz, bigint, pgq.caller) is
    'The dead_letter_id of at most n dead letters of a queue, the oldest first, that match the '
    'filter and the cause (see pgq.replay) and have the text search in error, headers or payload. '
    'With newest, the newest first, and with before and before_id (failed_at and dead_letter_id '
    'of the last one) those that ended before it. Reads only as many as it needs, where '
    'ORDER BY and LIMIT on the view pgq.dead_letter read all.';
