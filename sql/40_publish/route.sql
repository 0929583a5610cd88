-- The one way into every queue: routes the messages of an INSERT or COPY.
create or replace function pgq._route() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_now timestamptz := pgq.now();
    v_message record;
    v_batch record;
    v_key record;
    v_topics text[];
    v_topic text;
    v_sizes int[];
    v_sorted bigint[];
    v_ids bigint[];
    v_version bigint;
    v_queue_ids int[];
    v_binding_ids int[];
    v_laned_ids int[];
    v_waited boolean;
    v_old boolean;
    v_match record;
    v_queue pgq.queue;
    v_binding record;
    v_group record;
    v_doubles bigint[] := '{}';
    v_matches bigint;
    v_done int := 0;
    v_special text;
    v_grouped_ids bigint[] := '{}';
    v_grouped_queues int[] := '{}';
begin
    -- One message, or the first of many, with what is known of its topic, in one go.
    select n.id, n.topic, n.priority, n.headers, n.group_key, n.dedup_key, n.expires_at,
           case when n.deliver_at > v_now then n.deliver_at end as due_at, n.publisher,
           exists (select from new_message offset 1) as many,
           n.priority not between -1000 and 1000 or jsonb_typeof(n.headers) <> 'object'
           or n.headers @? '$.*.type() ? (@ == "array" || @ == "object")' as refused,
           r.queue_ids, r.binding_ids, r.version, exists (select from pgq.waiter) as waited
    into v_message
    from new_message n
    left join pgq.route r
        on r.topic = n.topic and r.version = (select s.version from pgq.routing s)
    limit 1;
    if not found then
        return null;
    end if;
    -- First of all, because what follows tells who receives the topic, or that nobody does. Who
    -- inserts by itself is the publisher of all messages; here current_user is the owner.
    if v_message.publisher <> current_user and not pgq._is_owner(v_message.publisher) then
        perform pgq._require_topic(v_message.publisher, t.topic)
        from (select distinct n.topic from new_message n) t;
    end if;
    if v_message.refused then
        perform pgq._refuse_message(v_message.priority, v_message.headers);
    end if;
    if v_message.many then
        -- One look at each message, for all that most batches have nothing of. Those that are alike
        -- and stand together need no second one to be sorted into sets.
        select min(n.topic) as first, max(n.topic) as last,
               bool_or(n.dedup_key is not null) as keyed, bool_or(n.headers ? 'route') as suggested,
               min(n.priority) < -1000 or max(n.priority) > 1000 as refused,
               coalesce(bool_or(n.deliver_at = 'infinity'), false) as stored,
               min(n.id) as low, max(n.id) as high, min(n.priority) as priority,
               min(n.topic) = max(n.topic) and min(n.priority) = max(n.priority)
               and max(n.id) - min(n.id) + 1 = count(*)
               and not bool_or(n.dedup_key is not null or n.deliver_at is not null
                               or n.expires_at is not null or n.group_key is not null) as alike
        into v_batch
        from new_message n;
        -- Headers repeat, and comparing them is cheaper than looking into them.
        perform pgq._refuse_message(0, h.headers)
        from (select n.headers from new_message n group by n.headers offset 0) h
        where jsonb_typeof(h.headers) <> 'object'
           or h.headers @? '$.*.type() ? (@ == "array" || @ == "object")';
        if v_batch.refused then
            perform pgq._refuse_message(n.priority, n.headers) from new_message n;
        end if;
    end if;

    -- What is only to be stored was put here by pgq itself, or by somebody who wants no delivery.
    if v_message.due_at = 'infinity' and not v_message.many then
        return null;
    end if;

    v_old := current_setting('transaction_isolation') <> 'read committed';
    if v_old then
        perform pgq._refuse_old_routing();
    end if;

    -- One message has a path of its own: what publish() does not write itself is mostly of this
    -- kind, and each statement that is not run is a good part of its cost.
    if not v_message.many then
        if v_message.dedup_key is not null
           and not pgq._first_of_key(v_message.topic, v_message.dedup_key, v_message.id)
        then
            return null;
        end if;
        v_queue_ids := v_message.queue_ids;
        v_binding_ids := v_message.binding_ids;
        v_version := v_message.version;
        v_waited := v_old or v_message.waited;
        if v_message.dedup_key is not null then
            v_version := null;  -- to wait for the key's owner may have taken a while
        end if;
        loop
            if v_version is null then
                select r.queue_ids, r.binding_ids, r.version, true
                into v_queue_ids, v_binding_ids, v_version, v_waited
                from pgq.route r
                where r.topic = v_message.topic
                  and r.version = (select s.version from pgq.routing s)
                limit 1;
                if not found then
                    select r.queue_ids, r.binding_ids, r.version, true
                    into v_queue_ids, v_binding_ids, v_version, v_waited
                    from pgq._learn_route(v_message.topic) r;
                end if;
            end if;
            exit when v_binding_ids = '{}';
            select array_agg(distinct b.queue_id) filter (where q.lane_keys is null) as plain,
                   array_agg(distinct b.queue_id) filter (where q.lane_keys is not null) as laned,
                   array_agg(b.binding_id) filter (where b.counted) as counted,
                   (select s.version from pgq.routing s) as version
            into v_match
            from new_message n
            cross join pgq.binding b join pgq.queue q on q.queue_id = b.queue_id
            where b.binding_id = any (v_binding_ids)
              and pgq._test_filter(
                  b.path, b.scope, n.headers, n.payload, n.topic, n.priority, n.sender,
                  n.recipient, n.reply_to, n.correlation_id, n.group_key, 1, n.published_at,
                  n.expires_at, n.id, v_now);
            -- Bindings that have changed since the route was read are not those of the route: one
            -- that has taken the place of another would be missed.
            if v_match.version <> v_version then
                v_version := null;
                continue;
            end if;
            v_queue_ids := v_queue_ids || v_match.plain;
            v_laned_ids := v_match.laned;
            if v_match.counted is not null then
                insert into pgq.binding_hit (binding_id, matches, last_at)
                select c, 1, v_now from unnest(v_match.counted) c;
            end if;
            exit;
        end loop;
        if v_message.group_key is not null then
            for v_queue in
                select q.* from pgq.queue q
                where q.queue_id = any (v_queue_ids || v_laned_ids) order by q.queue_id
            loop
                perform pgq._admit_heads(
                    v_queue, pgq._join_groups(v_queue.queue_id, array[v_message.id], null), null,
                    v_now);
            end loop;
        elsif v_message.due_at is not null then
            insert into pgq.scheduled (queue_id, due_at, attempt, size, ids)
            select q.queue_id, v_message.due_at, 0, 1,
                   int8multirange(int8range(v_message.id, v_message.id + 1))
            from unnest(v_queue_ids || v_laned_ids) q (queue_id);
        else
            insert into pgq.ready (
                queue_id, rank, attempt, size, xid, expires_at, grouped, ids)
            select q.queue_id, pgq._rank(v_message.priority, false, v_message.id), 0, 1,
                   pg_current_xact_id(), v_message.expires_at, false,
                   int8multirange(int8range(v_message.id, v_message.id + 1))
            from unnest(v_queue_ids) q (queue_id);
            if v_laned_ids is not null then
                insert into pgq.ready (
                    queue_id, lane_id, rank, attempt, size, xid, expires_at, grouped, ids)
                select q.queue_id,
                       pgq._lane(q.queue_id, q.lane_keys, q.lanes_full,
                                 pgq._lane_label(v_message.headers, q.lane_keys)),
                       pgq._rank(v_message.priority, false, v_message.id), 0, 1,
                       pg_current_xact_id(), v_message.expires_at, false,
                       int8multirange(int8range(v_message.id, v_message.id + 1))
                from pgq.queue q where q.queue_id = any (v_laned_ids);
            end if;
        end if;
        v_special := case when v_binding_ids = '{}' and v_message.group_key is null
                          and v_message.dedup_key is null and v_message.due_at is null
                          then '' else 'on' end;
        if v_special is distinct from current_setting('pgq.special', true) then
            v_special := set_config('pgq.special', v_special, false);
        end if;
        if v_waited then
            perform pgq._wake(q) from unnest(v_queue_ids || v_laned_ids) q;
        end if;
        if v_message.headers ? 'route' then
            perform pgq._suggest(v_message.id, v_queue_ids || v_laned_ids);
        end if;
        return null;
    end if;

    -- Keys are taken in one order by everybody, so that two batches cannot wait for each other.
    if v_batch.keyed then
        for v_key in
            select n.id, n.topic, n.dedup_key from new_message n
            where n.dedup_key is not null and n.deliver_at is distinct from 'infinity'
            order by n.topic, n.dedup_key, n.id
        loop
            if not pgq._first_of_key(v_key.topic, v_key.dedup_key, v_key.id) then
                v_doubles := v_doubles || v_key.id;
            end if;
        end loop;
    end if;

    v_topics := array[v_batch.first];
    if v_batch.alike then
        if v_message.binding_ids = '{}' then
            -- Most batches: one topic, whose queues are known and want all of it.
            perform pgq._add_range(q.queue_id, null, v_batch.priority, false, 0, null, null, false,
                                   v_batch.low, v_batch.high, q.set_size),
                    pgq._wake(q.queue_id)
            from pgq.queue q
            where q.queue_id = any (v_message.queue_ids)
              and v_message.version = (select s.version from pgq.routing s);
            if found then
                v_topics := '{}';
            end if;
        end if;
    elsif v_batch.first <> v_batch.last or v_batch.stored then
        v_topics := array(
            select distinct n.topic from new_message n
            where n.deliver_at is distinct from 'infinity' order by 1);
    end if;
    if cardinality(v_topics) > 16 then
        -- To look at all messages for each of many topics would take as long as that sounds: those
        -- of a topic are read by their ids.
        v_sizes := array(
            select count(*)::int from new_message n
            where n.deliver_at is distinct from 'infinity' group by n.topic order by n.topic);
        v_sorted := array(
            select n.id from new_message n
            where n.deliver_at is distinct from 'infinity' order by n.topic, n.id);
    end if;
    for i in 1 .. cardinality(v_topics) loop
        v_topic := v_topics[i];
        if v_sizes is not null then
            v_ids := v_sorted[v_done + 1 : v_done + v_sizes[i]];
            v_done := v_done + v_sizes[i];
        end if;
        <<topic>>
        loop
            select r.queue_ids, r.binding_ids, r.version
            into v_queue_ids, v_binding_ids, v_version
            from pgq.route r
            where r.topic = v_topic and r.version = (select s.version from pgq.routing s)
            limit 1;
            if not found then
                select r.queue_ids, r.binding_ids, r.version
                into v_queue_ids, v_binding_ids, v_version
                from pgq._learn_route(v_topic) r;
            end if;
            for v_binding in
                -- Headers repeat: a filter that none of them passes is done with at once.
                with h as materialized (
                    select distinct coalesce(n.headers, '{}') as headers
                    from new_message n where n.topic = v_topic
                )
                select q as queue, b.paths, b.scopes, b.counted, b.bindings,
                       (select s.version from pgq.routing s) as version
                from (
                    select c.queue_id,
                           case when bool_and(c.path is not null) then array_agg(c.path) end
                               as paths,
                           array_agg(c.scope) as scopes,
                           array_agg(c.binding_id) filter (where c.counted) as counted,
                           count(*) as bindings
                    from pgq.binding c
                    where c.binding_id = any (v_binding_ids)
                      and (c.path is null or c.scope <> 'headers' or v_ids is not null or exists (
                          select from h where jsonb_path_match(h.headers, c.path, '{}', true)))
                    group by c.queue_id
                    union all
                    select p.queue_id, null, null, null, 1 from unnest(v_queue_ids) p (queue_id)
                ) b
                join pgq.queue q on q.queue_id = b.queue_id
                order by q.queue_id
            loop
                -- Nothing has been done yet: all rows are of one snapshot.
                continue topic when v_binding.version <> v_version;
                v_queue := v_binding.queue;
                v_matches := 0;
                if v_batch.alike and v_binding.paths is null and v_queue.lane_keys is null then
                    perform pgq._add_range(
                        v_queue.queue_id, null, v_batch.priority, false, 0, null, null, false,
                        v_batch.low, v_batch.high, v_queue.set_size);
                    v_matches := v_batch.high - v_batch.low + 1;
                end if;
                for v_group in
                    select n.priority, n.expires_at,
                           case when n.deliver_at > v_now then n.deliver_at end as due_at,
                           case when v_queue.lane_keys is not null then
                               pgq._lane_label(n.headers, v_queue.lane_keys)
                           end as label,
                           n.group_key is not null as grouped,
                           array_agg(n.id order by n.id) as ids
                    from (
                        select x.* from new_message x
                        where v_matches = 0 and v_ids is null and x.topic = v_topic
                        union all
                        select m.* from unnest(v_ids) u (id) join pgq.message m on m.id = u.id
                    ) n
                    where n.deliver_at is distinct from 'infinity'
                      and (cardinality(v_doubles) = 0 or n.id <> all (v_doubles))
                      and (v_binding.paths is null or exists (
                          select from unnest(v_binding.paths, v_binding.scopes) f (path, scope)
                          where pgq._test_filter(
                              f.path, f.scope, n.headers, n.payload, n.topic, n.priority, n.sender,
                              n.recipient, n.reply_to, n.correlation_id, n.group_key, 1,
                              n.published_at, n.expires_at, n.id, v_now)))
                    group by 1, 2, 3, 4, 5
                loop
                    v_matches := v_matches + cardinality(v_group.ids);
                    if v_group.grouped then
                        v_grouped_ids := v_grouped_ids || v_group.ids;
                        v_grouped_queues := v_grouped_queues
                            || array_fill(v_queue.queue_id, array[cardinality(v_group.ids)]);
                    elsif v_group.due_at is not null then
                        insert into pgq.scheduled (queue_id, due_at, attempt, size, ids)
                        values (v_queue.queue_id, v_group.due_at, 0, cardinality(v_group.ids),
                                pgq._set_of(v_group.ids));
                    else
                        perform pgq._add_ready(
                            v_queue.queue_id,
                            case when v_group.label is not null then
                                pgq._lane(v_queue.queue_id, v_queue.lane_keys, v_queue.lanes_full,
                                          v_group.label)
                            end,
                            v_group.priority, false, 0, v_group.expires_at, null, false,
                            v_group.ids, v_queue.set_size);
                    end if;
                end loop;
                continue when v_matches = 0;
                perform pgq._wake(v_queue.queue_id);
                if v_binding.bindings = 1 and v_binding.counted is not null then
                    insert into pgq.binding_hit (binding_id, matches, last_at)
                    values (v_binding.counted[1], v_matches, v_now);
                elsif v_binding.counted is not null then
                    insert into pgq.binding_hit (binding_id, matches, last_at)
                    select b.binding_id, count(*), v_now
                    from pgq.binding b
                    cross join (
                        select x.* from new_message x where v_ids is null and x.topic = v_topic
                        union all
                        select m.* from unnest(v_ids) u (id) join pgq.message m on m.id = u.id
                    ) n
                    where b.binding_id = any (v_binding.counted)
                      and n.deliver_at is distinct from 'infinity'
                      and (cardinality(v_doubles) = 0 or n.id <> all (v_doubles))
                      and pgq._test_filter(
                          b.path, b.scope, n.headers, n.payload, n.topic, n.priority, n.sender,
                          n.recipient, n.reply_to, n.correlation_id, n.group_key, 1, n.published_at,
                          n.expires_at, n.id, v_now)
                    group by 1;
                end if;
            end loop;
            exit topic when found or v_version = (select s.version from pgq.routing s);
        end loop;
    end loop;
    -- Ordering groups last: the messages of all topics in the order of their ids; and queue after
    -- queue, so that two batches cannot wait for each other.
    if v_grouped_queues <> '{}' then
        for v_queue in
            select q.* from pgq.queue q
            where q.queue_id = any (v_grouped_queues) order by q.queue_id
        loop
            perform pgq._admit_heads(
                v_queue,
                pgq._join_groups(v_queue.queue_id, array(
                    select g.id from unnest(v_grouped_queues, v_grouped_ids) g (queue_id, id)
                    where g.queue_id = v_queue.queue_id), null),
                null, v_now);
        end loop;
    end if;
    if v_batch.suggested then
        perform pgq._suggest(n.id, null) from new_message n
        where n.headers ? 'route' and n.deliver_at is distinct from 'infinity'
          and (cardinality(v_doubles) = 0 or n.id <> all (v_doubles));
    end if;
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
