-- Deletes rows that are no longer needed, a bounded number of each kind; returns whether there may
-- be more.
create or replace function pgq._gc_tables(now timestamptz) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_most constant int := pgq._limit('maintain_messages');
    v_counts int[] := '{}';
    v_count int;
begin
    delete from pgq.result_waiter w where w.until < _gc_tables.now;
    delete from pgq.waiter w where w.until < _gc_tables.now - interval '1 min';
    delete from pgq.handled h
    where h.ctid = any (array(
        select i.ctid from pgq.handled i where i.handled_at < _gc_tables.now - interval '7 days'
        limit v_most for update skip locked));
    get diagnostics v_count = row_count;
    v_counts := v_counts || v_count;
    delete from pgq.staged s
    where s.ctid = any (array(
        select i.ctid from pgq.staged i where i.staged_at < _gc_tables.now - interval '1 day'
        limit v_most for update skip locked));
    get diagnostics v_count = row_count;
    v_counts := v_counts || v_count;
    delete from pgq.dedup d
    where d.ctid = any (array(
        select e.ctid from pgq.dedup e where e.until <= _gc_tables.now
        limit v_most for update skip locked));
    get diagnostics v_count = row_count;
    v_counts := v_counts || v_count || pgq._gc_bindings(v_most) || pgq._gc_outcomes(v_most)
        || pgq._gc_filters(_gc_tables.now, v_most);
    -- Bound the routing cache: topics that are not published again must not fill it.
    if (select count(*) > 20000 from pgq.route) then
        delete from pgq.route r
        where r.ctid = any (array(
            select s.ctid from pgq.route s limit 10000 for update skip locked));
    end if;
    v_count := pgq._gc_anchors(pgq._limit('gc_anchors'));
    return v_most <= any (v_counts) or v_count >= pgq._limit('gc_anchors');
end
$$;
comment on function pgq._gc_tables(timestamptz) is 'Deletes rows that are no longer needed.';
