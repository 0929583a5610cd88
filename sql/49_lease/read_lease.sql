-- The messages of a set of ids, in order of their ids, as a lease delivers them: the only reader
-- for claims, named claims, streams and parallel readers. The planner inlines it. An id without a
-- message is an error.
create or replace function pgq._read_ids(
    lease_id bigint, attempt int, until timestamptz, ids int8multirange
) returns setof pgq.claimed
language sql stable
begin atomic
    select _read_ids.lease_id, coalesce(m.id, pgq._refuse_missing(_read_ids.lease_id)), m.topic,
           m.priority, _read_ids.attempt, m.headers, m.payload, m.sender, m.recipient, m.reply_to,
           m.correlation_id, m.group_key, m.published_at, m.expires_at, nullif(until, 'infinity')
    from unnest(_read_ids.ids) r
    left join lateral (
        select e.id, e.topic, e.priority, e.headers, e.payload, e.sender, e.recipient, e.reply_to,
               e.correlation_id, e.group_key, e.published_at, e.expires_at
        from pgq.message e where e.id >= lower(r) and e.id < upper(r) order by e.id
    ) m on true;
end;
comment on function pgq._read_ids(bigint, int, timestamptz, int8multirange) is
    'The messages of a set of ids, as a lease delivers them.';

-- The messages of a lease. Those of a lease of one row come in delivery order, because such a row
-- holds one priority and nested loops keep the order of their outer side. Others have to be sorted.
create or replace function pgq._read_lease(token bigint) returns setof pgq.claimed
language sql stable
begin atomic
    select m.* from pgq.lease l
    cross join lateral pgq._read_ids(l.lease_id, l.attempt, l.until, l.ids) m
    where l.lease_id = token;
end;
comment on function pgq._read_lease(bigint) is 'The messages of a lease.';
