-- Waits until nobody else does this, and keeps those away who would until the transaction ends;
-- others who share it may go on.
create or replace function pgq._share_turn(what text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from pgq.turn t where t.what = _share_turn.what for share;
end
$$;
comment on function pgq._share_turn(text) is
    'Keeps others from doing this until the transaction ends.';
