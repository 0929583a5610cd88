-- Moves the unfinished messages of a slot into the current era, at most that many; returns how
-- many were moved. Moving changes the partition key only: ids, sets and leases stay as they are.
create or replace function pgq._carry_forward(slot int, most int) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_low bigint;
    v_high bigint;
    v_range int8range;
    v_count int;
    v_moved int := 0;
begin
    select min(m.id), max(m.id) into v_low, v_high
    from pgq.message m where m.era = _carry_forward.slot;
    if v_low is null then
        return 0;
    end if;
    -- Range after range, each by the index: joined with all ranges at once the slot would be read
    -- from end to end for each of them, which takes minutes at the commit of a consumer.
    for v_range in
        select unnest(pgq._first_ids(
            pgq._unfinished(int8multirange(int8range(v_low, v_high + 1))), most))
    loop
        update pgq.message m
        set era = pg_sequence_last_value('pgq.era_number') % 3
        where m.era = _carry_forward.slot and m.id >= lower(v_range) and m.id < upper(v_range);
        get diagnostics v_count = row_count;
        v_moved := v_moved + v_count;
    end loop;
    return v_moved;
end
$$;
comment on function pgq._carry_forward(int, int) is
    'Moves unfinished messages of a slot into the current era.';
revoke all on function pgq._carry_forward(int, int) from public;
