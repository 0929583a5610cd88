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
    -- An old snapshot does not show all rights. A privilege without a right does no harm.
    if current_setting('transaction_isolation') <> 'read committed' then
        return;
    end if;
    select a.rolname into v_name from pg_roles a where a.oid = _set_access.role;
    if not found then
        return;  -- dropped, and its privileges with it
    end if;
    perform pgq._close_types();
    for v_access in
        select p.privileges, p.rights && v_rights as needed
        from (values
            (v_any, 'usage on schema pgq'),
            (v_any, 'select on pgq.rights'),
            (v_any, 'execute on function pgq.result, pgq.wait_result'),
            (v_any, 'execute on function pgq.version, pgq.now, pgq.matches, pgq.matches_topic, '
                'pgq.compile_filter, pgq.header_equals, pgq.header_in, pgq.header_not_equals, '
                'pgq.header_like, pgq.all_of, pgq.any_of, pgq.addressed_to, pgq.entity_filter'),
            (v_publish, 'execute on function pgq.reply, pgq.publish_staged, pgq.writer_epoch, '
                'pgq.schedule, pgq.unschedule, pgq.pause_schedule, pgq.resume_schedule, '
                'pgq.publish(text, jsonb, jsonb, int, interval, interval, text, text, text, '
                'text, text, text, timestamptz, pgq.caller), '
                'pgq.publish(varchar, json, jsonb, int, interval, interval, text, text, text, '
                'text, text, text, timestamptz), '
                'pgq.publish_batch(text, jsonb[], jsonb[], int, interval, interval, text, text, '
                'text, text, text, text[], timestamptz, pgq.caller), '
                'pgq.publish_batch(varchar, json[], jsonb[], int, interval, interval, text, '
                'text, text, text, text, text[], timestamptz)'),
            (v_publish, 'select on pgq.schedules'),
            -- Consumers stage rows too, for tables of their own.
            (v_any, 'execute on function pgq.discard_staged, pgq.take_staged, pgq.commit_batch'),
            (v_any, 'insert (token, position, topic, priority, headers, payload, sender, '
                'recipient, reply_to, correlation_id, group_key, dedup_key, deliver_at, '
                'expires_at) on pgq.staged'),
            -- For INSERT and COPY. Not the id, the era, the time, the publisher: pgq sets these.
            (v_publish, 'insert (topic, priority, headers, payload, sender, recipient, reply_to, '
                'correlation_id, group_key, dedup_key, deliver_at, expires_at) on pgq.message'),
            (v_publish, 'usage on sequence pgq.message_id'),
            (v_publish, 'select on sequence pgq.era_number'),
            (v_consume, 'execute on function pgq.claim, pgq.ack, pgq.nack, pgq.bury, pgq.extend, '
                'pgq.release, pgq.leased, pgq.peek, pgq.messages, pgq.wait_begin, pgq.wait_end, '
                'pgq.channel, pgq.seen, pgq.explain_filter, pgq.history, pgq.replies, '
                'pgq._queue_stats, pgq.finish, '
                'pgq.metrics, pgq._metrics, pgq.findings, pgq._findings, pgq._server_findings, '
                'pgq._span, pgq.hold, pgq.named_lease, '
                'pgq.lease_parts, pgq.backlog, pgq.peek_slice, '
                'pgq.stream_begin, pgq.stream_bind, pgq.stream_claim, pgq.stream_batch, '
                'pgq.stream_finish, pgq.stream_end, pgq.stream_read, '
                'pgq.relay_report, pgq.log_range, pgq.read_log, pgq.log_parts, pgq.log_lock, '
                'pgq.dead_letter_ids'),
            (v_consume, 'select on pgq.queue_stats, pgq.queue_traffic, '
                'pgq.message_state, pgq.dead_letter, '
                'pgq.leased_message, pgq.subscription, pgq.filter_stats, pgq.relays, pgq.streams, '
                'pgq.limits, '
                'pgq._visible_queue, pgq._metric'),
            (v_admin, 'execute on function pgq.alter_queue, pgq.drop_queue, pgq.pause, pgq.resume, '
                'pgq.subscribe, pgq.unsubscribe, pgq.unsubscribe_all, pgq.alter_subscription, '
                'pgq.replay, pgq.discard, pgq.purge, pgq.cancel, pgq.move, pgq.reschedule')
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
