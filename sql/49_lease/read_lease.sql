-- The only reader of messages for claims, named claims, streams and parallel readers, in three
-- steps: of a range of ids, of a set of ids, of a lease. The planner inlines all of them.

-- A caller that knows the slot of all messages passes it: the executor then prepares one partition
-- instead of three.
create or replace function pgq._read_range(
    lease_id bigint, attempt int, until timestamptz, first bigint, behind bigint, slot int
) returns setof pgq.claimed
language sql stable
begin atomic
    select _read_range.lease_id, m.id, m.topic, m.priority, _read_range.attempt, m.headers,
           m.payload, m.sender, m.recipient, m.reply_to, m.correlation_id, m.group_key,
           m.published_at, m.expires_at, nullif(until, 'infinity')
    from pgq.message m
    where m.id >= first and m.id < behind
      and m.era >= coalesce(slot, 0) and m.era <= coalesce(slot, 2)
    order by m.id;
end;
comment on function pgq._read_range(bigint, int, timestamptz, bigint, bigint, int) is
    'The messages of a range of ids, as a lease delivers them.';

-- In order of the ids. A range without any message is an error.
create or replace function pgq._read_ids(
    lease_id bigint, attempt int, until timestamptz, ids int8multirange, slot int default null
) returns setof pgq.claimed
language sql stable
begin atomic
    select _read_ids.lease_id, coalesce(m.id, pgq._refuse_missing(_read_ids.lease_id)), m.topic,
           m.priority, m.attempt, m.headers, m.payload, m.sender, m.recipient, m.reply_to,
           m.correlation_id, m.group_key, m.published_at, m.expires_at, m.lease_until
    from unnest(_read_ids.ids) r
    left join lateral pgq._read_range(
        _read_ids.lease_id, _read_ids.attempt, until, lower(r), upper(r), slot) m on true;
end;
comment on function pgq._read_ids(bigint, int, timestamptz, int8multirange, int) is
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
