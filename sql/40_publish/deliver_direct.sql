-- Delivers messages that need nothing special to a queue with lanes. Takes them from its arguments:
-- to read them from the log would cost a quarter of a batch.
create or replace function pgq._deliver_direct(
    queue pgq.queue, ids bigint[], payloads jsonb[], headers jsonb[], topic text, priority int,
    sender text, recipient text, reply_to text, correlation_id text
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_hashed text := substr(queue.lane_keys[pgq._hashed_key(queue.lane_keys)], 2);
    -- A queue whose only key is hashed has one label.
    v_labeled boolean := v_hashed is null or cardinality(queue.lane_keys) > 1;
    v_message pgq.message;
    v_label jsonb := '[[], [], [], []]';
    v_hashes int[];
    v_flat boolean := cardinality(ids) = 1;
    v_set record;
begin
    if v_flat and (v_labeled or strpos(v_hashed, '.') > 0) then
        v_message := row(
            null, null, topic, priority, coalesce(headers[1], '{}'), payloads[1], sender,
            recipient, reply_to, correlation_id, null, null, null, null, null, null)::pgq.message;
        if v_labeled then
            v_label := pgq._lane_label(v_message, queue.lane_keys);
        end if;
        if v_hashed is not null then
            v_hashes := array[pgq._lane_hash(pgq._lane_value(v_message, v_hashed))];
        end if;
    elsif v_flat then
        v_hashes := array[pgq._lane_hash(coalesce(headers[1] -> v_hashed, '[]'))];
    elsif not v_labeled and strpos(v_hashed, '.') = 0 then
        v_hashes := array(
            select pgq._lane_hash(coalesce(u.header -> v_hashed, '[]'))
            from (select unnest(_deliver_direct.ids) as id,
                         unnest(_deliver_direct.headers) as header) u);
        v_flat := (select count(distinct u.h) > cardinality(_deliver_direct.ids) / 2
                   from (select unnest(v_hashes) as h) u);
        if not v_flat then
            perform pgq._add_laned(queue, v_label, _deliver_direct.priority, false, 0, null, null,
                                   false, _deliver_direct.ids, v_hashes);
            return;
        end if;
    end if;
    if v_flat then
        -- A row for each message. Mostly the lane is there: without the call of pgq._lane a publish
        -- takes 5 % less.
        insert into pgq.ready (queue_id, lane_id, rank, attempt, size, xid, grouped, hash, ids)
        select queue.queue_id,
               coalesce((select l.lane_id from pgq.lane l
                         where l.queue_id = queue.queue_id and l.label = v_label
                           and l.lane_keys = queue.lane_keys and l.idle is null
                         order by l.lane_id limit 1),
                        pgq._lane(queue.queue_id, queue.lane_keys, queue.lanes_full, v_label)),
               pgq._rank(_deliver_direct.priority, false, u.id), 0, 1, pg_current_xact_id(), false,
               u.hash, int8multirange(int8range(u.id, u.id + 1))
        from (select unnest(_deliver_direct.ids) as id, unnest(v_hashes) as hash) u;
        return;
    end if;
    for v_set in
        select case when v_labeled then pgq._lane_label(n.m, queue.lane_keys)
               else '[[], [], [], []]' end as label,
               array_agg(n.id order by n.id) as ids,
               array_agg(case when v_hashed is not null then
                   pgq._lane_hash(pgq._lane_value(n.m, v_hashed)) end order by n.id) as hashes
        from (
            select u.id, row(
                       null, null, _deliver_direct.topic, _deliver_direct.priority,
                       coalesce(u.header, '{}'), u.payload, _deliver_direct.sender,
                       _deliver_direct.recipient, _deliver_direct.reply_to,
                       _deliver_direct.correlation_id, null, null, null, null, null, null
                   )::pgq.message as m
            from unnest(_deliver_direct.ids, payloads, _deliver_direct.headers)
                u (id, payload, header)
        ) n
        group by 1
    loop
        perform pgq._add_laned(queue, v_set.label, _deliver_direct.priority, false, 0, null, null,
                               false, v_set.ids, v_set.hashes);
    end loop;
end
$$;
comment on function pgq._deliver_direct(
    pgq.queue, bigint[], jsonb[], jsonb[], text, int, text, text, text, text) is
    'Delivers messages without special properties to a queue with lanes.';
