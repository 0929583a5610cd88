-- Records the state of a relay's destination; without a destination, deletes the relay's record.
create or replace function pgq.relay_report(
    queue text, relay text, destination text default null, circuit text default 'closed',
    error text default null, caller pgq.caller default current_user
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', relay_report.queue);
begin
    if relay is null or relay = '' or length(relay) > 200 then
        raise exception 'a relay needs a name of at most 200 characters'
            using errcode = 'invalid_parameter_value',
                  hint = 'It is the name of its stream, and stays the same when it is restarted.';
    end if;
    if circuit is null or circuit not in ('closed', 'open', 'half-open') then
        raise exception 'a circuit is closed, open or half-open, not %',
            coalesce(circuit, 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'To have the relay forgotten leave out the destination.';
    end if;
    if destination is null then
        delete from pgq.relay r
        where r.queue_id = v_queue.queue_id and r.relay = relay_report.relay;
        return;
    end if;
    insert into pgq.relay as r (queue_id, relay, destination, circuit, error, changed_at)
    values (v_queue.queue_id, relay_report.relay, left(relay_report.destination, 1000),
            relay_report.circuit, left(relay_report.error, 2000), pgq.now())
    on conflict on constraint relay_pkey do update
    set destination = excluded.destination, circuit = excluded.circuit, error = excluded.error,
        changed_at = case when r.circuit = excluded.circuit then r.changed_at
                          else excluded.changed_at end;
end
$$;
comment on function pgq.relay_report(text, text, text, text, text, pgq.caller) is
    'Records what a relay reports of its destination (named without its password): whether the '
    'circuit breaker is closed, open or half-open, and the last error. pgq.relays and '
    'pgq.queue_stats show it. Without a destination the record of the relay is deleted.';
