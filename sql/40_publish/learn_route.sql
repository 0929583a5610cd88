-- Finds the bindings that match a topic and remembers them; QU005 if there are none.
create or replace function pgq._learn_route(topic text) returns int[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_bindings int[];
    v_version bigint;
begin
    perform pgq._check_topic(topic);
    -- One snapshot for both: an answer must not carry a later version than its bindings.
    select array_agg(b.binding_id order by b.queue_id, b.binding_id), min(r.version)
    into v_bindings, v_version
    from pgq.routing r
    join pgq.binding b on (b.regex is null and b.pattern = topic) or topic ~ b.regex;
    if v_bindings is null then
        raise exception 'no queue receives topic "%"', topic
            using errcode = 'QU005',
                  hint = 'Create one with pgq.create_queue(name) or pgq.subscribe(name, pattern).';
    end if;
    insert into pgq.route (topic, version, binding_ids)
    values (_learn_route.topic, v_version, v_bindings);
    return v_bindings;
end
$$;
comment on function pgq._learn_route(text) is 'The bindings that match a topic, or QU005.';
revoke all on function pgq._learn_route(text) from public;
