-- True if this message is the first of its topic with the key, within the window.
create or replace function pgq._first_of_key(topic text, dedup_key text, message_id bigint)
returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_window interval;
    v_now timestamptz := pgq.now();
begin
    select r.dedup_window into v_window from pgq.route r
    where r.topic = _first_of_key.topic and r.version = (select s.version from pgq.routing s)
    limit 1;
    if not found then
        select r.dedup_window into v_window from pgq._learn_route(topic) r;
    end if;
    -- Waits for another transaction that publishes the key, until it is known who was first.
    insert into pgq.dedup as d (topic, dedup_key, message_id, until)
    values (_first_of_key.topic, _first_of_key.dedup_key, _first_of_key.message_id,
            v_now + v_window)
    on conflict on constraint dedup_pkey do update
    set message_id = excluded.message_id, until = excluded.until
    where d.until <= v_now or d.message_id = excluded.message_id;
    return found;
end
$$;
comment on function pgq._first_of_key(text, text, bigint) is
    'True if the message is the first of its topic with this dedup key.';
revoke all on function pgq._first_of_key(text, text, bigint) from public;
