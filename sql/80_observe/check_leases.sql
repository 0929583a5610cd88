-- Invariants of leases: a lease id or key belongs to one claim, and its group flag is right.
create or replace function pgq._check_leases()
returns table (problem text, queue_id int, detail text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
begin
    return query
        -- The parts of one claim differ only in what they hold; a lease with a part 0 has no other.
        select 'a token belongs to two leases', min(l.queue_id),
               format('lease %s, %s parts, held by %s', l.lease_id, count(*),
                      string_agg(distinct coalesce(l.holder, 'nobody'), ', '))
        from pgq.lease l group by l.lease_id
        having count(distinct (l.queue_id, l.claimed_at, l.key, l.holder, l.client)) > 1
            or count(*) > 1 and min(l.part) = 0 or count(*) > count(distinct l.part)
        union all
        select distinct 'the group flag of a lease is wrong', l.queue_id,
               format('lease %s', l.lease_id)
        from pgq.lease l cross join unnest(l.ids) i
        join pgq.message m on m.id >= lower(i) and m.id < upper(i)
        where l.grouped <> (m.group_key is not null)
        union all
        select 'a name belongs to two claims', l.queue_id, format('key %s', l.key)
        from pgq.lease l where l.key is not null
        group by l.queue_id, l.key having count(distinct l.lease_id) > 1
        union all
        select distinct 'a stream holds a batch that it has finished', s.queue_id,
               format('lease %s, key %s', l.lease_id, l.key)
        from pgq.stream s
        join pgq.lease l on l.queue_id = s.queue_id
            and l.key ~ ('^stream ' || pgq._regex_quote(s.consumer) || ' [0-9]{1,18}$')
        where substring(l.key from '[0-9]+$')::bigint <= s.batch;
end
$$;
comment on function pgq._check_leases() is 'Verifies that a lease id or key is of one claim.';
