-- The n oldest dead letters of a queue whose message matches a filter and whose cause of death
-- matches another. If they are to be taken, they are locked, and those that another transaction has
-- locked are left out.
create or replace function pgq._dead_letters(
    queue_id int, filter jsonb, cause jsonb, n int, taken boolean
) returns bigint[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_filter pgq.filter;
    v_cause pgq.filter;
    v_now timestamptz := pgq.now();
    v_found bigint[];
begin
    if n < 1 then
        raise exception 'n must be positive, not %', n
            using errcode = 'invalid_parameter_value', hint = 'Leave it out for all of them.';
    end if;
    v_filter := pgq._find_filter(coalesce(filter, '{}'), null);
    v_cause := pgq._cause_filter(cause);
    v_found := array(
        select d.dead_letter_id from pgq.letter d
        where d.queue_id = _dead_letters.queue_id
          and pgq._test_filter(
              v_filter.path, v_filter.scope, d.headers, d.payload, d.topic, d.priority, d.sender,
              d.recipient, d.reply_to, d.correlation_id, d.group_key, d.attempts, d.published_at,
              d.expires_at, d.message_id, v_now)
          and (cause is null or pgq._test_filter(
              v_cause.path, v_cause.scope, pgq._cause_of(d), null, null, null, null, null, null,
              null, null, null, null, null, null, v_now))
        order by d.failed_at, d.dead_letter_id limit n);
    if taken then
        v_found := array(
            select d.dead_letter_id from pgq.letter d
            where d.dead_letter_id = any (v_found) for update skip locked);
    end if;
    return v_found;
end
$$;
comment on function pgq._dead_letters(int, jsonb, jsonb, int, boolean) is
    'The dead letters of a queue that match a filter and a cause.';
