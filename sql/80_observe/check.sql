-- Verifies the invariants of the stored state; every row returned is a defect. All parts read with
-- the snapshot of the caller's statement, because they are stable.
create or replace function pgq."check"() returns table (problem text, queue text, detail text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
begin
    return query
        select c.problem, coalesce(q.name, 'number ' || c.queue_id), c.detail
        from (
            select * from pgq._check_sets()
            union all select * from pgq._check_log()
            union all select * from pgq._check_ready()
            union all select * from pgq._check_leases()
            union all select * from pgq._check_groups()
            union all
            select 'a stream belongs to no queue', s.queue_id, s.consumer
            from pgq.stream s
            where not exists (select from pgq.queue q where q.queue_id = s.queue_id)
            union all
            select 'a relay belongs to no queue', r.queue_id, r.relay
            from pgq.relay r
            where not exists (select from pgq.queue q where q.queue_id = r.queue_id)
            union all
            select 'the current era is archived', null, format('era %s', e.number)
            from pgq.era e
            where e.archived_at is not null
              and e.number >= pg_sequence_last_value('pgq.era_number')
            union all
            select 'there is more than one archive', null, format('%s rows', count(*))
            from pgq.archive a having count(*) > 1
            union all
            select 'a right is void: its role is gone or may not use pgq', r.queue_id,
                   format('%s to %s', r.right, r.role)
            from pgq.queue_right r
            where not exists (
                select from pg_namespace n cross join lateral aclexplode(n.nspacl) a
                where n.nspname = 'pgq' and a.grantee = r.role and a.privilege_type = 'USAGE')
        ) c
        left join pgq.queue q on q.queue_id = c.queue_id;
end
$$;
comment on function pgq."check"() is
    'Verifies the invariants of the stored state: each queue that receives a message holds it in '
    'one place or has ended it; sets, leases, groups and lanes are consistent; no row is '
    'orphaned. Returns a row for each defect. Reads all tables: for tests and diagnosis.';
