-- Copies messages into the dead letters. The caller removes them from their rows in the same
-- transaction: if this fails, they stay there.
create or replace function pgq._bury_set(
    queue_id int, ids int8multirange, attempt int, reason text, error text, details jsonb,
    failures jsonb, holder text, client inet, now timestamptz
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_replays jsonb := jsonb_path_query_array(
        coalesce(failures, '[]'), '$[*] ? (@.outcome == "replay").at');
    v_count int;
begin
    insert into pgq.letter (
        queue_id, message_id, reason, error, details, attempts, failures, holder, client,
        failed_at, replay_count, replayed_at, topic, priority, headers, payload, sender,
        recipient, reply_to, correlation_id, group_key, dedup_key, deliver_at, expires_at,
        published_at)
    select _bury_set.queue_id, m.id, _bury_set.reason, _bury_set.error, _bury_set.details,
           _bury_set.attempt, coalesce(_bury_set.failures, '[]'), _bury_set.holder,
           _bury_set.client, now, jsonb_array_length(v_replays), (v_replays ->> -1)::timestamptz,
           m.topic, m.priority, m.headers, m.payload, m.sender, m.recipient, m.reply_to,
           m.correlation_id, m.group_key, m.dedup_key, m.deliver_at, m.expires_at, m.published_at
    from unnest(_bury_set.ids) r
    join pgq.message m on m.id >= lower(r) and m.id < upper(r);
    get diagnostics v_count = row_count;
    perform pgq._wake_results(_bury_set.ids);
    if v_count < pgq._set_size(_bury_set.ids) then
        perform pgq._refuse_snapshot();
    end if;
end
$$;
comment on function pgq._bury_set(
    int, int8multirange, int, text, text, jsonb, jsonb, text, inet, timestamptz) is
    'Copies messages into the dead letters.';
