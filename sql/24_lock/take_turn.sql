-- Waits until nobody else does this, and keeps others waiting until the transaction ends.
create or replace function pgq._take_turn(what text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from pgq.turn t where t.what = _take_turn.what for update;
end
$$;
comment on function pgq._take_turn(text) is 'Waits until no other transaction does the same.';
