-- Adds or drops one lane key of a queue that chooses them itself.
create or replace function pgq._choose_lanes(queue pgq.queue, now timestamptz) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_names text[] := array(select ltrim(k, '#') from unnest(queue.lane_keys) k);
    v_choice pgq.lane_choice;
begin
    -- Drop: no filter of the last day tests it, or all messages have the same value.
    select queue.queue_id, u.key, false, case when w.key is null
           then 'no filter has tested it for a day'
           else format('filters on it tested %s messages, and all messages have one value',
                       w.tested) end, _choose_lanes.now
    into v_choice
    from unnest(v_names, queue.lane_keys) u (key, kept)
    join pgq.lane_choice c on c.queue_id = queue.queue_id and c.key = u.key and c.used
    left join pgq._lane_wishes(queue, now) w on w.key = u.key
    where w.key is null and c.chosen_at < _choose_lanes.now - interval '1 day'
       or w.tested - w.matched >= pgq._limit('auto_tests') and u.kept not like '#%'
          and (select count(distinct l.label -> (array_position(v_names, u.key) - 1)) <= 1
               from pgq.lane l
               where l.queue_id = queue.queue_id and l.lane_keys = queue.lane_keys)
    order by w.key is null limit 1;
    if found then
        v_names := array_remove(array_remove(queue.lane_keys, v_choice.key), '#' || v_choice.key);
    elsif cardinality(v_names) < 4 then
        select queue.queue_id, w.key, true,
               format('filters on it tested %s messages for %s matches', w.tested, w.matched),
               _choose_lanes.now
        into v_choice
        from pgq._lane_wishes(queue, now) w
        where w.tested - w.matched >= pgq._limit('auto_tests') and w.tested >= 4 * w.matched
          and w.key <> all (v_names)
          and not exists (select from unnest(v_names) n
                          where starts_with(n, w.key || '.') or starts_with(w.key, n || '.'))
          and not exists (select from pgq.lane_choice c
                          where c.queue_id = queue.queue_id and c.key = w.key and not c.used
                            and c.chosen_at > _choose_lanes.now - interval '1 day')
        order by w.named > 0 desc, w.tested - w.matched desc, w.key limit 1;
        if not found then
            return false;
        end if;
        v_names := coalesce(queue.lane_keys, '{}') || v_choice.key;
    else
        return false;
    end if;
    if not pgq._set_lane_keys(queue, v_names) then
        return false;
    end if;
    insert into pgq.lane_choice values (v_choice.*)
    on conflict on constraint lane_choice_pkey do update
    set used = excluded.used, reason = excluded.reason, chosen_at = excluded.chosen_at;
    return true;
end
$$;
comment on function pgq._choose_lanes(pgq.queue, timestamptz) is
    'Adds or drops a lane key of a queue with lane_keys {auto}.';
