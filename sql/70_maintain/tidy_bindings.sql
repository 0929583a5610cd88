-- Adds up the statistics of subscriptions.
create or replace function pgq._tidy_bindings() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    with gone as (
        delete from pgq.binding_hit h
        where h.ctid = any (array(
            select i.ctid from pgq.binding_hit i limit 100000 for update skip locked))
        returning h.*
    )
    insert into pgq.binding_hit (binding_id, matches, last_at)
    select g.binding_id, sum(g.matches), max(g.last_at)
    from gone g join pgq.binding b on b.binding_id = g.binding_id
    group by 1;
end
$$;
comment on function pgq._tidy_bindings() is 'Adds up the statistics of subscriptions.';
revoke all on function pgq._tidy_bindings() from public;
