-- Honours the header "route": queues that accept suggestions and are named there, at most 8, get
-- the message too, unless a binding of theirs receives it. The header comes from outside, so names
-- of other queues are ignored without an error.
create or replace function pgq._suggest(message_id bigint, now timestamptz) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_message pgq.message;
    v_queue pgq.queue;
    v_grouped bigint[];
begin
    select m.* into strict v_message from pgq.message m where m.id = _suggest.message_id;
    for v_queue in
        select q.* from pgq.queue q
        where q.suggestions and q.mode = 'queue'
          and q.name = any (
              (string_to_array(
                  replace(left(v_message.headers ->> 'route', 2048), ' ', ''), ','))[1:8])
          and not pgq._is_received(array[q.queue_id], v_message)
        order by q.queue_id
    loop
        v_grouped := pgq._deliver(v_queue, array[v_message.id], now);
        if v_grouped <> '{}' then
            perform pgq._join_queue(v_queue, v_grouped, now);
        end if;
        perform pgq._wake(v_queue.queue_id);
    end loop;
end
$$;
comment on function pgq._suggest(bigint, timestamptz) is
    'Delivers a message to the queues that its header "route" names and that accept suggestions.';
