-- The lane with that label, made if new. Too many lanes, too long a label, or a value that is not a
-- scalar: the overflow lane.
create or replace function pgq._lane(
    queue_id int, lane_keys text[], lanes_full boolean, label jsonb
) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_label jsonb := case when pg_column_size(label) <= 512 and not label @> '[{}]' then label end;
    v_lane_id int;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        -- An old snapshot may show a lane that has been removed: 40001 then. Locks one lane at a
        -- time, because maintain() may hold one and wait for another.
        for v_lane_id in
            select l.lane_id from pgq.lane l
            where l.queue_id = _lane.queue_id and l.lane_keys = _lane.lane_keys
              and (l.label = v_label or l.label is null) and l.idle is null
        loop
            begin
                perform from pgq.lane l where l.lane_id = v_lane_id for share;
                raise exception using errcode = 'QU000';
            exception
                when sqlstate 'QU000' then
                    null;  -- the lock is released
            end;
        end loop;
    end if;
    if v_label is not null then
        select l.lane_id into v_lane_id from pgq.lane l
        where l.queue_id = _lane.queue_id and l.label = v_label and l.lane_keys = _lane.lane_keys
          and l.idle is null
        order by l.lane_id limit 1;
        if found then
            return v_lane_id;
        end if;
        if lanes_full or (
            select count(*) >= pgq._limit('lanes') from pgq.lane l
            where l.queue_id = _lane.queue_id and l.lane_keys = _lane.lane_keys)
        then
            if not lanes_full then
                perform pgq._hash_lanes(queue_id, lane_keys);
            end if;
            v_label := null;
        end if;
    end if;
    if v_label is null then
        select l.lane_id into v_lane_id from pgq.lane l
        where l.queue_id = _lane.queue_id and l.label is null and l.lane_keys = _lane.lane_keys
          and l.idle is null
        order by l.lane_id limit 1;
        if found then
            return v_lane_id;
        end if;
    end if;
    insert into pgq.lane (queue_id, lane_keys, label, document)
    values (_lane.queue_id, _lane.lane_keys, v_label,
            case when v_label is not null then pgq._lane_document(_lane.lane_keys, v_label) end)
    returning lane_id into v_lane_id;
    return v_lane_id;
end
$$;
comment on function pgq._lane(int, text[], boolean, jsonb) is 'The lane with that label.';
