-- The messages of a lease, in delivery order.
create or replace function pgq.leased(lease_id bigint) returns setof pgq.claimed
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
begin
    if not exists (select from pgq.lease l where l.lease_id = leased.lease_id) then
        raise exception 'lease % is lost', coalesce(leased.lease_id::text, 'null')
            using errcode = 'QU003',
                  hint = 'It was ended, or it expired and its messages are with another consumer.';
    end if;
    return query
        select l.lease_id, m.id, m.topic, m.priority, l.attempt, m.headers, m.payload, m.sender,
               m.recipient, m.reply_to, m.correlation_id, m.group_key, m.published_at,
               m.expires_at, l.until
        from pgq.lease l
        cross join lateral unnest(l.ids) r
        join pgq.message m on m.id >= lower(r) and m.id < upper(r)
        where l.lease_id = leased.lease_id
        order by m.priority desc, m.id;
end
$$;
comment on function pgq.leased(bigint) is
    'The messages that a lease holds, again: for parallel readers and for recovery. Takes nothing.';
revoke all on function pgq.leased(bigint) from public;
