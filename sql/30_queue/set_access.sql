-- Gives a role the privileges that its rights need, and takes away those that they do not.
create or replace function pgq._set_access(role regrole) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_name name;
    v_rights text[] := array(
        select distinct r.right from pgq.queue_right r where r.role = _set_access.role);
    v_any constant text[] := '{publish,consume,admin}';
    v_publish constant text[] := '{publish,admin}';
    v_consume constant text[] := '{consume,admin}';
    v_admin constant text[] := '{admin}';
    v_access record;
begin
    -- An old snapshot does not show all rights. A privilege that is left without one does nothing.
    if current_setting('transaction_isolation') <> 'read committed' then
        return;
    end if;
    select a.rolname into v_name from pg_roles a where a.oid = _set_access.role;
    if not found then
        return;  -- dropped, and its privileges with it
    end if;
    for v_access in
        select p.privileges, p.rights && v_rights as needed
        from (values
            (v_any, 'usage on schema pgq'),
            (v_any, 'select on pgq.rights'),
            (v_any, 'execute on function pgq.version, pgq.now, pgq.matches, pgq.matches_topic, '
                'pgq.compile_filter, pgq.header_equals, pgq.header_in, pgq.header_not_equals, '
                'pgq.header_like, pgq.all_of, pgq.any_of, pgq.addressed_to, pgq.entity_filter'),
            (v_publish, 'execute on function pgq.publish, pgq.publish_batch, pgq.reply'),
            -- For INSERT and COPY. Not the id, the era, the time, the publisher: those are given.
            (v_publish, 'insert (topic, priority, headers, payload, sender, recipient, reply_to, '
                'correlation_id, group_key, dedup_key, deliver_at, expires_at) on pgq.message'),
            (v_publish, 'usage on sequence pgq.message_id'),
            (v_publish, 'select on sequence pgq.era_number'),
            (v_consume, 'execute on function pgq.claim, pgq.ack, pgq.nack, pgq.bury, pgq.extend, '
                'pgq.release, pgq.leased, pgq.peek, pgq.wait_begin, pgq.wait_end, pgq.signal, '
                'pgq.seen, pgq.explain_filter, pgq.history, pgq.replies, pgq._queue_stats, '
                'pgq.metrics, pgq._metrics, pgq.hold, pgq.named_lease, pgq.lease_slices, '
                'pgq.lease_parts, pgq.backlog, pgq.peek_slice, '
                'pgq.stream_begin, pgq.stream_claim, pgq.stream_batch, pgq.stream_finish, '
                'pgq.stream_end, pgq.relay_report'),
            (v_consume, 'select on pgq.queue_stats, pgq.message_state, pgq.dead_letter, '
                'pgq.leased_message, pgq.subscription, pgq.filter_stats, pgq.relays, '
                'pgq._visible_queue, pgq._metric'),
            (v_admin, 'execute on function pgq.alter_queue, pgq.drop_queue, pgq.pause, pgq.resume, '
                'pgq.subscribe, pgq.unsubscribe, pgq.unsubscribe_all, pgq.alter_subscription, '
                'pgq.replay, pgq.discard')
        ) p (rights, privileges)
    loop
        execute format(
            case when v_access.needed then 'grant %s to %I' else 'revoke %s from %I' end,
            v_access.privileges, v_name);
    end loop;
end
$$;
comment on function pgq._set_access(regrole) is
    'Gives a role the privileges that its rights need, and no others.';
revoke all on function pgq._set_access(regrole) from public;
