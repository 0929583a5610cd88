-- Changes the lane keys of a queue during maintenance. Does nothing while another transaction
-- changes the queue.
create or replace function pgq._set_lane_keys(queue pgq.queue, lane_keys text[]) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    update pgq.queue q
    set lane_keys = nullif(_set_lane_keys.lane_keys, '{}'), lanes_full = false,
        unlaned_rows = q.unlaned_rows or q.lane_keys is null, unlaned_xid = null,
        unlaned_rank = null
    where q.ctid = any (array(
        select p.ctid from pgq.queue p
        where p.queue_id = queue.queue_id and p.auto_lanes
          and p.lane_keys is not distinct from queue.lane_keys for update skip locked));
    if not found then
        return false;
    end if;
    perform pgq._rerouted();
    return true;
end
$$;
comment on function pgq._set_lane_keys(pgq.queue, text[]) is
    'Changes the lane keys of a queue.';

-- How many messages filters have tested in a queue under its current lane keys, by the fields that
-- could prune these tests. A field prunes best if the filter names its values (named).
create or replace function pgq._lane_wishes(queue pgq.queue, now timestamptz)
returns table (key text, tested bigint, matched bigint, named bigint)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        select k.key, sum(f.tested)::bigint, sum(f.matched)::bigint,
               count(*) filter (where pgq._filter_values(f.tree, k.key) is not null)
        from (
            select sum(h.tested) as tested, sum(h.matched) as matched,
                   pgq._filter_parse(d.document) as tree
            from pgq.filter_hit h join pgq.filter d on d.filter_id = h.filter_id
            where h.queue_id = queue.queue_id and h.used_at > _lane_wishes.now - interval '1 day'
              and d.lane_keys is not distinct from queue.lane_keys
            group by d.filter_id
            order by 1 desc limit 100
        ) f
        cross join lateral pgq._filter_fields(f.tree) k (key)
        where exists (
            select from pgq._filter_project(f.tree, array[k.key]) w where w.tree <> 'true')
        group by 1;
end
$$;
comment on function pgq._lane_wishes(pgq.queue, timestamptz) is
    'How many messages filters have tested in a queue, by the fields that could prune the tests.';

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
