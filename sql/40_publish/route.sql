-- The one way into every queue: routes the messages of an INSERT or COPY.
create or replace function pgq._route() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
    v_now timestamptz := pgq.now();
    v_message record;
    v_topic text;
    v_queue_ids int[];
    v_binding_ids int[];
    v_binding record;
    v_group record;
    v_lane_id int;
    v_routed int := 0;
    v_doubles bigint[] := '{}';
begin
    select n.*, exists (select from new_message offset 1) as many,
           n.priority not between -1000 and 1000 or jsonb_typeof(n.headers) <> 'object'
           or n.headers @? '$.*.type() ? (@ == "array" || @ == "object")' as refused,
           case when n.deliver_at > v_now then n.deliver_at end as due_at
    into v_message
    from new_message n limit 1;
    if not found then
        return null;
    end if;
    if v_message.refused or v_message.many then
        perform pgq._refuse_message(n.priority, n.headers)
        from new_message n
        where n.priority not between -1000 and 1000 or jsonb_typeof(n.headers) <> 'object'
           or n.headers <> '{}' and n.headers @? '$.*.type() ? (@ == "array" || @ == "object")';
    end if;

    -- What is only to be stored was put here by pgq itself, or by somebody who wants no delivery.
    if v_message.due_at = 'infinity' and not v_message.many then
        return null;
    end if;

    -- One message has a path of its own: most publishes are of this kind, and each statement that
    -- is not run is a good part of their cost.
    if not v_message.many then
        select r.queue_ids, r.binding_ids into v_queue_ids, v_binding_ids from pgq.route r
        where r.topic = v_message.topic and r.version = (select s.version from pgq.routing s)
        limit 1;
        if not found then
            select r.queue_ids, r.binding_ids into v_queue_ids, v_binding_ids
            from pgq._learn_route(v_message.topic) r;
        end if;
        if v_message.dedup_key is not null
           and not pgq._first_of_key(v_message.topic, v_message.dedup_key, v_message.id)
        then
            return null;
        end if;
        if v_message.due_at is null then
            insert into pgq.ready (
                queue_id, rank, attempt, size, xid, expires_at, grouped, ids)
            select q.queue_id, pgq._rank(v_message.priority, false, v_message.id), 0, 1,
                   pg_current_xact_id(), v_message.expires_at, false,
                   int8multirange(int8range(v_message.id, v_message.id + 1))
            from unnest(v_queue_ids) q (queue_id);
        else
            insert into pgq.scheduled (queue_id, due_at, attempt, size, ids)
            select q.queue_id, v_message.due_at, 0, 1,
                   int8multirange(int8range(v_message.id, v_message.id + 1))
            from unnest(v_queue_ids) q (queue_id);
        end if;
        if v_binding_ids = '{}' then
            return null;
        end if;
        for v_binding in
            select b.path, b.scope, q.queue_id, q.lane_keys, q.lanes_full
            from pgq.binding b join pgq.queue q on q.queue_id = b.queue_id
            where b.binding_id = any (v_binding_ids)
            order by q.queue_id
        loop
            continue when v_binding.queue_id = v_routed or not pgq._test_filter(
                v_binding.path, v_binding.scope, v_message.headers, v_message.payload,
                v_message.topic, v_message.priority, v_message.sender, v_message.recipient,
                v_message.reply_to, v_message.correlation_id, v_message.group_key, 1,
                v_message.published_at, v_message.expires_at, v_message.id, v_now);
            v_routed := v_binding.queue_id;
            if v_message.due_at is not null then
                insert into pgq.scheduled (queue_id, due_at, attempt, size, ids)
                values (v_binding.queue_id, v_message.due_at, 0, 1,
                        int8multirange(int8range(v_message.id, v_message.id + 1)));
                continue;
            end if;
            v_lane_id := null;
            if v_binding.lane_keys is not null then
                v_lane_id := pgq._lane(
                    v_binding.queue_id, v_binding.lane_keys, v_binding.lanes_full,
                    pgq._lane_label(v_message.headers, v_binding.lane_keys));
            end if;
            insert into pgq.ready (
                queue_id, lane_id, rank, attempt, size, xid, expires_at, grouped, ids)
            values (v_binding.queue_id, v_lane_id,
                    pgq._rank(v_message.priority, false, v_message.id), 0, 1,
                    pg_current_xact_id(), v_message.expires_at, false,
                    int8multirange(int8range(v_message.id, v_message.id + 1)));
        end loop;
        return null;
    end if;

    -- Keys are taken in one order by everybody, so that two batches cannot wait for each other.
    for v_message in
        select n.id, n.topic, n.dedup_key from new_message n
        where n.dedup_key is not null and n.deliver_at is distinct from 'infinity'
        order by n.topic, n.dedup_key, n.id
    loop
        if not pgq._first_of_key(v_message.topic, v_message.dedup_key, v_message.id) then
            v_doubles := v_doubles || v_message.id;
        end if;
    end loop;

    for v_topic in
        select distinct n.topic from new_message n where n.deliver_at is distinct from 'infinity'
    loop
        select r.queue_ids, r.binding_ids into v_queue_ids, v_binding_ids from pgq.route r
        where r.topic = v_topic and r.version = (select s.version from pgq.routing s)
        limit 1;
        if not found then
            select r.queue_ids, r.binding_ids into v_queue_ids, v_binding_ids
            from pgq._learn_route(v_topic) r;
        end if;
        for v_binding in
            select q.queue_id, q.lane_keys, q.lanes_full, q.set_size, b.paths, b.scopes
            from (
                select c.queue_id, array_agg(c.path) as paths, array_agg(c.scope) as scopes
                from pgq.binding c
                where c.binding_id = any (v_binding_ids)
                group by c.queue_id
                union all
                select p.queue_id, null, null from unnest(v_queue_ids) p (queue_id)
            ) b
            join pgq.queue q on q.queue_id = b.queue_id
        loop
            for v_group in
                select n.priority, n.expires_at,
                       case when n.deliver_at > v_now then n.deliver_at end as due_at,
                       case when v_binding.lane_keys is not null then
                           pgq._lane_label(n.headers, v_binding.lane_keys)
                       end as label,
                       array_agg(n.id order by n.id) as ids
                from new_message n
                where n.topic = v_topic
                  and n.deliver_at is distinct from 'infinity'
                  and (cardinality(v_doubles) = 0 or n.id <> all (v_doubles))
                  and (v_binding.paths is null or exists (
                      select from unnest(v_binding.paths, v_binding.scopes) f (path, scope)
                      where pgq._test_filter(
                          f.path, f.scope, n.headers, n.payload, n.topic, n.priority, n.sender,
                          n.recipient, n.reply_to, n.correlation_id, n.group_key, 1,
                          n.published_at, n.expires_at, n.id, v_now)))
                group by 1, 2, 3, 4
            loop
                if v_group.due_at is not null then
                    insert into pgq.scheduled (queue_id, due_at, attempt, size, ids)
                    values (v_binding.queue_id, v_group.due_at, 0, cardinality(v_group.ids),
                            pgq._set_of(v_group.ids));
                    continue;
                end if;
                perform pgq._add_ready(
                    v_binding.queue_id,
                    case when v_group.label is not null then
                        pgq._lane(v_binding.queue_id, v_binding.lane_keys,
                                  v_binding.lanes_full, v_group.label)
                    end,
                    v_group.priority, false, 0, v_group.expires_at, null, false,
                    v_group.ids, v_binding.set_size);
            end loop;
        end loop;
    end loop;
    return null;
end
$$;
comment on function pgq._route() is
    'Routes the messages of an INSERT or COPY to the queues that receive them.';
revoke all on function pgq._route() from public;

create or replace trigger route after insert on pgq.message
    referencing new table as new_message
    for each statement execute function pgq._route();
comment on trigger route on pgq.message is 'Any INSERT or COPY is a publish.';
