-- Raises a notice with the number of selected messages that stay because they are leased.
create or replace function pgq._say_leased(selection pgq._selection, verb text) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_count bigint := pgq._count_selected(selection, '{lease}');
begin
    if v_count > 0 then
        raise notice '% leaves % leased messages as they are', verb, v_count
            using hint = 'pgq.leases lists who holds them; pgq.release(lease_id) gives them back.';
    end if;
end
$$;
comment on function pgq._say_leased(pgq._selection, text) is
    'Raises a notice with the number of selected messages that are leased.';
