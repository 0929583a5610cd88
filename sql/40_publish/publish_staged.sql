-- Publishes the messages staged under these tokens, all or none; an epoch of a writer only once.
create or replace function pgq.publish_staged(
    tokens uuid[],
    size bigint default null,
    writer text default null,
    epoch bigint default null,
    query text default null,
    anew boolean default false,
    caller pgq.caller default current_user
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set work_mem = '64MB'
set jit = off
as $$
declare
    v_count bigint;
    v_token uuid;
    v_size bigint;
    v_first int;
    v_last int;
    v_publisher text;
begin
    if not pgq._is_owner(caller) then
        v_publisher := caller::text;  -- the trigger checks its rights
    end if;
    if (writer is null) <> (epoch is null) then
        raise exception 'writer and epoch belong together'
            using errcode = 'invalid_parameter_value',
                  hint = 'Give both, so that the same epoch is published once, or none of them.';
    end if;
    if writer is not null and not pgq._begin_epoch(writer, epoch, query, anew, caller) then
        delete from pgq.staged s where s.token = any (tokens);
        return 0::bigint;
    end if;
    -- Read by the index, which has them in order: sorting a million messages takes longer than
    -- publishing them.
    v_count := 0::bigint;
    foreach v_token in array tokens loop
        -- Another call that publishes the token waits here, and then finds nothing.
        perform from pgq.staged s where s.token = v_token order by s.position limit 1 for update;
        select coalesce(min(s.position), 0), coalesce(max(s.position), -1) into v_first, v_last
        from pgq.staged s where s.token = v_token;
        -- In portions that the route trigger can keep in memory.
        for v_low in v_first .. v_last by 50000 loop
            insert into pgq.message (
                topic, priority, headers, payload, sender, recipient, reply_to, correlation_id,
                group_key, dedup_key, deliver_at, expires_at, publisher)
            select s.topic, s.priority, s.headers, s.payload, s.sender, s.recipient, s.reply_to,
                   s.correlation_id, s.group_key, s.dedup_key, s.deliver_at, s.expires_at,
                   v_publisher
            from pgq.staged s
            where s.token = v_token and s.position >= v_low and s.position < v_low + 50000::bigint
            order by s.position;
            get diagnostics v_size = row_count;
            v_count := v_count + v_size;
        end loop;
    end loop;
    if v_count <> size then
        raise exception 'only % of % messages are staged', v_count, size
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'The server was restarted after a crash, or they were staged more than a '
                      'day ago. Stage them again.';
    end if;
    update pgq.writer w set size = v_count where w.writer = publish_staged.writer;
    if v_count < 10000 or not pgq._empty_staged(tokens) then
        delete from pgq.staged s where s.token = any (tokens);
        get diagnostics v_size = row_count;
        if v_size <> v_count then
            raise exception 'messages were staged under these tokens while they were published'
                using errcode = 'serialization_failure',
                      hint = 'A token belongs to one attempt of one writer.';
        end if;
    end if;
    return v_count;
end
$$;
comment on function pgq.publish_staged(
    uuid[], bigint, text, bigint, text, boolean, pgq.caller) is
    'Publishes the messages that were inserted into pgq.staged with these tokens, in one '
    'transaction, in the order of the tokens. Returns how many. With size: 55000 unless there are '
    'exactly that many. With a writer and an epoch, each epoch is published once: a call with the '
    'writer''s last epoch publishes nothing and returns 0. 55000 for an older epoch, and for '
    'another query than before unless it starts again. Roles other than the owner need the right '
    'to publish to the topics, and cannot use the writers of other roles.';
