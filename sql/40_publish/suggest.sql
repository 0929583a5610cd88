-- Honours the header "route": queues that accept suggestions and are named there, at most 8, get
-- the message too, unless they received it anyway. It comes from outside: what names no such
-- queue is passed over in silence.
create or replace function pgq._suggest(message_id bigint, received int[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := pgq.now();
    v_message pgq.message;
    v_queue pgq.queue;
begin
    select m.* into strict v_message from pgq.message m where m.id = _suggest.message_id;
    for v_queue in
        select q.* from pgq.queue q
        where q.suggestions and q.mode = 'queue'
          and q.name = any (
              (string_to_array(
                  replace(left(v_message.headers ->> 'route', 2048), ' ', ''), ','))[1:8])
          and q.queue_id <> all (coalesce(received, '{}'))
          and not exists (
              select from pgq.binding b
              where b.queue_id = q.queue_id
                and (b.regex is null and b.pattern = v_message.topic or v_message.topic ~ b.regex)
                and pgq._test_filter(
                    b.path, b.scope, v_message.headers, v_message.payload, v_message.topic,
                    v_message.priority, v_message.sender, v_message.recipient,
                    v_message.reply_to, v_message.correlation_id, v_message.group_key, 1,
                    v_message.published_at, v_message.expires_at, v_message.id, v_now))
        order by q.queue_id
    loop
        if v_message.group_key is not null then
            perform pgq._admit_heads(
                v_queue, pgq._join_groups(v_queue.queue_id, array[v_message.id], null), null,
                v_now);
        elsif v_message.deliver_at > v_now then
            insert into pgq.scheduled (queue_id, due_at, attempt, size, ids)
            values (v_queue.queue_id, v_message.deliver_at, 0, 1,
                    int8multirange(int8range(v_message.id, v_message.id + 1)));
            perform pgq._wake(v_queue.queue_id);
        else
            perform pgq._enqueue(
                v_queue, int8multirange(int8range(v_message.id, v_message.id + 1)), 0, null,
                false, back => false);
        end if;
    end loop;
end
$$;
comment on function pgq._suggest(bigint, int[]) is
    'Delivers a message to queues that its header "route" suggests and that accept suggestions.';
revoke all on function pgq._suggest(bigint, int[]) from public;
