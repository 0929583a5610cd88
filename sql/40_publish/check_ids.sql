-- Refuses ids and slots that an INSERT has chosen itself, unless they are as valid as the defaults:
-- taken from the sequence, used once, in an era that is open.
create or replace function pgq._check_ids(low bigint, high bigint, slots smallint[]) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_next smallint := ((pg_sequence_last_value('pgq.era_number') + 1) % 3)::smallint;
begin
    if low < 1 or high > coalesce(pg_sequence_last_value('pgq.message_id'), 0) then
        raise exception 'message id % is not one of the sequence pgq.message_id',
            case when low < 1 then low else high end
            using errcode = 'invalid_parameter_value',
                  hint = 'Leave the id out. A number of your own belongs into a header, '
                      'correlation_id or dedup_key.';
    elsif v_next = any (slots) then
        raise exception 'era % is not open', v_next
            using errcode = 'invalid_parameter_value', hint = 'Leave the era out.';
    end if;
    -- Each slot has its own primary key. The ids of two slots hardly ever overlap.
    if (cardinality(slots) > 1 or exists (
            select from pgq.message m
            where m.id >= low and m.id <= high and m.era <> slots[1]))
       and exists (
            select from pgq.message m join pgq.message o on o.id = m.id and o.era <> m.era
            where m.id >= low and m.id <= high)
    then
        raise exception 'a message with an id from % to % is in the log already', low, high
            using errcode = 'unique_violation', hint = 'Leave the id out.';
    end if;
end
$$;
comment on function pgq._check_ids(bigint, bigint, smallint[]) is
    'Rejects ids and slots that an INSERT gives, unless they are valid.';
