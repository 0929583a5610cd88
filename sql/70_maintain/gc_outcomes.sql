-- Adds up the counters of outcomes, and deletes those of dropped queues.
create or replace function pgq._gc_outcomes(most int) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_count int;
begin
    with gone as (
        delete from pgq.outcome o
        where o.ctid = any (array(
            select i.ctid from pgq.outcome i limit most for update skip locked))
        returning o.*
    ), added as (
        insert into pgq.outcome (queue_id, event, reason, size)
        select g.queue_id, g.event, g.reason, sum(g.size)
        from gone g join pgq.queue q on q.queue_id = g.queue_id
        group by 1, 2, 3
    )
    select count(*)::int into v_count from gone;
    return v_count;
end
$$;
comment on function pgq._gc_outcomes(int) is 'Adds up the counters of outcomes.';
