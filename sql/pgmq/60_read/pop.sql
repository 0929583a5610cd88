create or replace function pgmq.pop(queue_name text, qty int default 1)
returns setof pgmq.message_record
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lease_id bigint;
    v_left int := qty;
    v_again boolean;
    v_message pgq.claimed;
begin
    while v_left > 0 loop
        v_again := false;
        for v_message in select * from pgq.claim(queue_name, n => v_left) loop
            return next row(
                v_message.id, v_message.attempt - 1, v_message.published_at, null,
                v_message.published_at, nullif(v_message.payload, 'null'),
                pgmq._headers_out(v_message.headers))::pgmq.message_record;
            v_left := v_left - 1;
            v_again := v_message.attempt > 1;
            v_lease_id := v_message.lease_id;
        end loop;
        if v_lease_id is not null then
            perform pgq.ack(v_lease_id);
            v_lease_id := null;
        end if;
        exit when not v_again;
    end loop;
end
$$;
comment on function pgmq.pop(text, int) is 'Reads up to qty messages and deletes them.';
