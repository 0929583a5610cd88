-- Copies unfinished messages of a slot forward into the current era; returns whether the slot had
-- none, so that it may be truncated. Ends at the deadline, but not before it has copied some: it
-- takes a while to find them. Only the partition key changes: ids, sets and leases stay.
create or replace function pgq._copy_forward(slot int, deadline timestamptz) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_low bigint;
    v_high bigint;
    v_range int8range;
    v_copied int := 0;
begin
    select min(m.id), max(m.id) into v_low, v_high
    from pgq.message m where m.era = _copy_forward.slot;
    if v_low is null then
        return true;
    end if;
    -- One range after the other, each by the index: a join with all ranges at once would read the
    -- whole slot for each of them.
    for v_range in
        select unnest(pgq._unfinished(int8multirange(int8range(v_low, v_high + 1))))
    loop
        if v_copied >= pgq._limit('copy_ranges') and clock_timestamp() >= deadline then
            return false;  -- the other ranges are not copied yet
        end if;
        update pgq.message m
        set era = pg_sequence_last_value('pgq.era_number') % 3
        where m.era = _copy_forward.slot and m.id >= lower(v_range) and m.id < upper(v_range);
        if found then
            v_copied := v_copied + 1;
        end if;
    end loop;
    return v_copied = 0;
end
$$;
comment on function pgq._copy_forward(int, timestamptz) is
    'Copies unfinished messages of a slot forward into the current era.';
