-- Takes selected messages, at most n, out of group backlogs, scheduled rows and ready rows; leased
-- ones stay. The caller ends or moves them, and advances groups whose heads are gone.
create or replace function pgq._withdraw(selection pgq._selection, n bigint default null)
returns setof pgq._withdrawn
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_set pgq._withdrawn;
    v_left bigint := n;
begin
    if n is null then
        -- Messages move from group backlogs and from scheduled rows to ready rows: in this order
        -- none is missed.
        return query select * from pgq._withdraw_line(selection, null);
        return query select * from pgq._withdraw_scheduled(selection, null);
        return query select * from pgq._withdraw_ready(selection, null);
        return;
    end if;
    -- With a limit, the next to be delivered come first.
    for v_set in select * from pgq._withdraw_ready(selection, v_left) loop
        v_left := v_left - v_set.size;
        return next v_set;
    end loop;
    if v_left > 0 then
        for v_set in select * from pgq._withdraw_scheduled(selection, v_left) loop
            v_left := v_left - v_set.size;
            return next v_set;
        end loop;
    end if;
    if v_left > 0 then
        return query select * from pgq._withdraw_line(selection, v_left);
    end if;
end
$$;
comment on function pgq._withdraw(pgq._selection, bigint) is
    'Takes messages out of group backlogs, scheduled rows and ready rows.';
