-- Removes rows that nobody needs any more, a bounded number of each kind; returns whether there may
-- be more.
create or replace function pgq._tidy_tables(now timestamptz) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_most constant int := pgq._limit('maintain_messages');
    v_counts int[] := '{}';
    v_count int;
begin
    delete from pgq.result_waiter w where w.until < _tidy_tables.now;
    delete from pgq.waiter w where w.until < _tidy_tables.now - interval '1 min';
    delete from pgq.handled h
    where h.ctid = any (array(
        select i.ctid from pgq.handled i where i.handled_at < _tidy_tables.now - interval '7 days'
        limit v_most for update skip locked));
    get diagnostics v_count = row_count;
    v_counts := v_counts || v_count;
    delete from pgq.staged s
    where s.ctid = any (array(
        select i.ctid from pgq.staged i where i.staged_at < _tidy_tables.now - interval '1 day'
        limit v_most for update skip locked));
    get diagnostics v_count = row_count;
    v_counts := v_counts || v_count;
    delete from pgq.dedup d
    where d.ctid = any (array(
        select e.ctid from pgq.dedup e where e.until <= _tidy_tables.now
        limit v_most for update skip locked));
    get diagnostics v_count = row_count;
    v_counts := v_counts || v_count || pgq._tidy_bindings(v_most) || pgq._tidy_outcomes(v_most)
        || pgq._tidy_filters(_tidy_tables.now, v_most);
    -- The routing cache: topics that never come back must not fill it.
    if (select count(*) > 20000 from pgq.route) then
        delete from pgq.route r
        where r.ctid = any (array(
            select s.ctid from pgq.route s limit 10000 for update skip locked));
    end if;
    v_count := pgq._tidy_anchors(pgq._limit('tidy_anchors'));
    return v_most <= any (v_counts) or v_count >= pgq._limit('tidy_anchors');
end
$$;
comment on function pgq._tidy_tables(timestamptz) is 'Removes rows that nobody needs any more.';
