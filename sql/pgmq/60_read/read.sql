-- Reading. A read is a claim for vt seconds. Messages that timed out return in several ready rows,
-- and pgq delivers each alone, so a read that meets redeliveries claims until it has enough.
-- With a vt of 0 the read could claim a message twice, so it holds its messages until it has all.
create or replace function pgmq.read(
    queue_name text, vt int, qty int, conditional jsonb default '{}'
) returns setof pgmq.message_record
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_filter jsonb := pgmq._filter(conditional);
    v_lease interval := make_interval(secs => case when vt > 0 then vt else 60 end);
    v_left int := coalesce(qty, 1000000);
    v_again boolean;
    v_ids bigint[];
    v_lease_id bigint;
    v_message pgq.claimed;
begin
    while v_left > 0 loop
        v_again := false;
        for v_message in
            select * from pgq.claim(queue_name, v_filter, n => v_left, lease => v_lease)
        loop
            if vt <= 0 then
                v_ids := v_ids || v_message.id;
                v_message.lease_until :=
                    v_message.lease_until - v_lease + make_interval(secs => vt);
            end if;
            return next row(
                v_message.id, v_message.attempt, v_message.published_at,
                v_message.lease_until - make_interval(secs => vt), v_message.lease_until,
                nullif(v_message.payload, 'null'), pgmq._headers_out(v_message.headers)
            )::pgmq.message_record;
            v_left := v_left - 1;
            v_again := v_message.attempt > 1;
            v_lease_id := v_message.lease_id;
        end loop;
        exit when not v_again;
    end loop;
    if v_lease_id is not null then
        perform set_config(pgmq._note(queue_name), v_lease_id::text, false);
    end if;
    if v_ids is not null then
        perform pgmq.set_vt(queue_name, v_ids, vt);
    end if;
end
$$;
comment on function pgmq.read(text, int, int, jsonb) is
    'Reads up to qty messages that contain the condition; nobody else sees them for vt seconds.';
