-- A named claim that does not read its messages: the lease alone, without an end unless one is
-- given. For those who read it in slices.
create or replace function pgq.hold(
    topic text,
    key text,
    filter jsonb default null,
    n int default 1,
    lease interval default null,
    caller pgq.caller default current_user
) returns table (lease_id bigint, size bigint, lease_until timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', hold.topic);
begin
    if hold.key is null or hold.key = '' then
        raise exception 'a claim to be held needs a name'
            using errcode = 'invalid_parameter_value',
                  hint = 'Use a key that says whose it is, such as ''nightly-job 42''.';
    end if;
    perform set_config('pgq.unread', 'on', true);
    perform pgq.claim(hold.topic, hold.filter, hold.n,
                      coalesce(hold.lease, interval '100 years'), hold.key);
    perform set_config('pgq.unread', '', true);
    if hold.lease is null then
        update pgq.lease l set until = 'infinity'
        where l.queue_id = v_queue.queue_id and l.key = hold.key and l.until < 'infinity';
    end if;
    return query
        select l.lease_id, sum(l.size), nullif(min(l.until), 'infinity')
        from pgq.lease l
        where l.queue_id = v_queue.queue_id and l.key = hold.key
        group by l.lease_id;
end
$$;
comment on function pgq.hold(text, text, jsonb, int, interval, pgq.caller) is
    'Claims under a name without reading the messages, for those who read them in slices with '
    'pgq.leased: returns the lease and how many messages it holds, or no row if there are none to '
    'claim. The same key returns the same lease until it is acknowledged. Without a lease it has '
    'no end: pgq.leases lists what is held, pgq.release breaks it.';
revoke all on function pgq.hold(text, text, jsonb, int, interval, pgq.caller) from public;
