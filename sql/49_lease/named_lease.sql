-- The token of a named claim, for ack, nack, bury, extend, release and leased by name.
create or replace function pgq.named_lease(
    queue text, key text, caller pgq.caller default current_user
) returns bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', named_lease.queue);
    v_lease_id bigint;
begin
    select l.lease_id into v_lease_id from pgq.lease l
    where l.queue_id = v_queue.queue_id and l.key = named_lease.key
    order by l.part limit 1;
    if not found then
        raise exception 'queue "%" has no claim named "%"', named_lease.queue,
            coalesce(named_lease.key, 'null')
            using errcode = 'QU003',
                  hint = 'It was ended, or it expired and its messages are with another consumer.';
    end if;
    return v_lease_id;
end
$$;
comment on function pgq.named_lease(text, text, pgq.caller) is
    'The lease of a named claim, to call ack, nack, bury, extend, release and leased by name: '
    'select pgq.ack(pgq.named_lease(''orders'', ''job-42'')). QU003 if there is none.';
