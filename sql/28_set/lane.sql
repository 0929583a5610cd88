-- The lane with that label, made if new. Too many lanes, or too long a label: the mixed lane.
create or replace function pgq._lane(
    queue_id int, lane_keys text[], lanes_full boolean, label jsonb
) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_label jsonb := case when pg_column_size(label) <= 512 then label end;
    v_lane_id int;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        -- An old snapshot may show a lane that has been removed: 40001 then.
        begin
            perform from pgq.lane l
            where l.queue_id = _lane.queue_id and l.lane_keys = _lane.lane_keys
              and (l.label = v_label or l.label is null) and l.idle is null
            for share;
            raise exception using errcode = 'QU000';
        exception
            when sqlstate 'QU000' then
                null;  -- the locks are given up
        end;
    end if;
    if v_label is not null then
        select l.lane_id into v_lane_id from pgq.lane l
        where l.queue_id = _lane.queue_id and l.label = v_label and l.lane_keys = _lane.lane_keys
          and l.idle is null
        order by l.lane_id limit 1;
        if found then
            return v_lane_id;
        end if;
        if not lanes_full and (
            select count(*) >= 1000 from pgq.lane l where l.queue_id = _lane.queue_id)
        then
            -- Whoever gets the row says so to all publishers to come; nobody waits for it.
            perform from pgq.queue q
            where q.queue_id = _lane.queue_id and not q.lanes_full for update skip locked;
            if found then
                update pgq.queue q set lanes_full = true where q.queue_id = _lane.queue_id;
                raise warning 'queue % has more than 1000 lanes', _lane.queue_id
                    using hint = 'Lane keys are for headers with few values: messages with new '
                        'values share one mixed lane and are tested one by one.';
            end if;
            v_label := null;
        elsif lanes_full then
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
    insert into pgq.lane (queue_id, lane_keys, label, headers)
    select _lane.queue_id, _lane.lane_keys, v_label,
           case when v_label is not null then (
               select coalesce(jsonb_object_agg(k, v_label -> (i - 1)::int), '{}')
               from unnest(_lane.lane_keys) with ordinality u (k, i)
               where v_label -> (i - 1)::int <> '[]')
           end
    returning lane_id into v_lane_id;
    return v_lane_id;
end
$$;
comment on function pgq._lane(int, text[], boolean, jsonb) is 'The lane with that label.';
revoke all on function pgq._lane(int, text[], boolean, jsonb) from public;
