-- Moves the unfinished messages of a slot into the current era, at most that many; returns how
-- many were moved. Moving changes the partition key only: ids, sets and leases stay as they are.
create or replace function pgq._carry_forward(slot int, most int) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_low bigint;
    v_high bigint;
    v_ids int8multirange;
    v_moved int;
begin
    select min(m.id), max(m.id) into v_low, v_high
    from pgq.message m where m.era = _carry_forward.slot;
    if v_low is null then
        return 0;
    end if;
    v_ids := pgq._first_ids(
        pgq._unfinished(int8multirange(int8range(v_low, v_high + 1))), most);
    update pgq.message m
    set era = pg_sequence_last_value('pgq.era_number') % 3
    from unnest(v_ids) r
    where m.era = _carry_forward.slot and m.id >= lower(r) and m.id < upper(r);
    get diagnostics v_moved = row_count;
    return v_moved;
end
$$;
comment on function pgq._carry_forward(int, int) is
    'Moves unfinished messages of a slot into the current era.';
revoke all on function pgq._carry_forward(int, int) from public;
