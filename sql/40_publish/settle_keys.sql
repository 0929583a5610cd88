-- Which of these messages go to a queue that replaces or postpones by dedup key. An earlier message
-- that was delivered already stays as it is, and the new one is delivered too.
create or replace function pgq._settle_keys(queue pgq.queue, ids bigint[], now timestamptz)
returns bigint[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_window interval := pgq._bounded(queue.dedup_window, pgq._limit('policy_years'));
    v_replace boolean := queue.dedup = 'replace';
    v_set record;
    v_stays int;
    v_id bigint;
    v_due timestamptz;
    v_key pgq.dedup;
    v_old pgq._withdrawn;
    v_gone int8multirange[] := '{}';
    v_all int8multirange;
begin
    if v_window <= interval '0' then
        return ids;  -- with such a window every message is the first, as everywhere
    end if;
    -- All transactions take keys in the same order, so that two batches cannot deadlock. Each key
    -- once: the row of a key becomes slow if it changes often in a transaction.
    for v_set in
        select m.topic, m.dedup_key, array_agg(m.id order by m.id) as ids,
               array_agg(greatest(m.deliver_at, now) order by m.id) as dues
        from unnest(_settle_keys.ids) i join pgq.message m on m.id = i
        where m.dedup_key is not null group by 1, 2 order by 1, 2
    loop
        -- Of several messages with a key, replace keeps the last and postpone the first.
        v_stays := case when v_replace then cardinality(v_set.ids) else 1 end;
        v_id := v_set.ids[v_stays];
        v_due := v_set.dues[v_stays];
        v_key := pgq._lock_key(
            queue.queue_id, v_set.topic, v_set.dedup_key, v_id, v_due, v_due + v_window);
        v_old := null;
        if v_key.until > now then
            select * into v_old
            from pgq._take_waiting(queue.queue_id, v_key.message_id, v_key.due_at);
        end if;
        if v_old.ids is not null and v_replace then
            perform pgq._replace(queue, v_old, v_id, now);
        elsif v_old.ids is not null then
            v_due := pgq._postpone(
                queue, v_old, pgq._set_of(v_set.ids),
                (select max(d) from unnest(v_set.dues) d), now);
            v_gone := v_gone || int8multirange(int8range(v_id, v_id + 1));
            v_id := v_key.message_id;
        end if;
        if cardinality(v_set.ids) > 1 then
            v_old := null;
            v_old.ids := pgq._set_of(array_remove(v_set.ids, v_set.ids[v_stays]));
            v_gone := v_gone || v_old.ids;
            if v_replace then
                perform pgq._replace(queue, v_old, v_id, now);
            end if;
        end if;
        update pgq.dedup d set message_id = v_id, due_at = v_due, until = v_due + v_window
        where v_key.message_id is not null and d.queue_id = queue.queue_id
          and d.topic = v_set.topic and d.dedup_key = v_set.dedup_key;
    end loop;
    if v_gone = '{}' then
        return ids;
    end if;
    select range_agg(g) into v_all from unnest(v_gone) g;
    return array(select i from unnest(_settle_keys.ids) i where not v_all @> i);
end
$$;
comment on function pgq._settle_keys(pgq.queue, bigint[], timestamptz) is
    'Which messages go to a queue that replaces or postpones by dedup key.';
