-- The same without waiting: false if somebody else is at it.
create or replace function pgq._try_turn(what text) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from pgq.turn t where t.what = _try_turn.what for update skip locked;
    return found;
end
$$;
comment on function pgq._try_turn(text) is 'Whether no other transaction does the same.';
