-- What all specs share. Specs print payloads and counts, never ids or lease tokens: those vary.

-- A clock that stands still until a spec moves it. A sequence, because what it says has to be the
-- same for all sessions at once, whatever their snapshots.
create sequence public.clock minvalue 0;
select setval('public.clock', 0);
create or replace function pgq.now() returns timestamptz
language sql volatile parallel safe
return timestamptz '2030-01-01 00:00:00+00'
    + pg_sequence_last_value('public.clock'::regclass) * interval '1 s';

create function public.wait(seconds int) returns text
language sql volatile
return case when setval('public.clock', pg_sequence_last_value('public.clock') + seconds) > 0
    then 'later' end;

-- Publishes messages one by one, all of a type; a batch is one set.
create function public.fill(queue text, type text, variadic payloads text[]) returns bigint
language sql volatile
begin atomic
    select count(pgq.publish(queue, to_jsonb(p), jsonb_build_object('type', type)))
    from unnest(payloads) p;
end;
create function public.fill_batch(queue text, types text[], payloads text[]) returns bigint
language sql volatile
begin atomic
    select count(*) from pgq.publish_batch(
        queue, array(select to_jsonb(p) from unnest(payloads) p),
        array(select jsonb_build_object('type', t) from unnest(types) t));
end;

-- Publishes with a dedup key, and tells which message that key has now.
create function public.published_once(payload text, dedup_key text) returns text
language plpgsql volatile
as $$
declare
    v_id bigint := pgq.publish('q', to_jsonb(payload), dedup_key => dedup_key);
begin
    return (select m.payload #>> '{}' from pgq.message m where m.id = v_id);
end
$$;

-- A filter for one type.
create function public.typed(type text) returns jsonb
language sql immutable
return jsonb_build_object('type', type);

-- Claims, and remembers the token in the session.
create function public.take(
    queue text, n int default 1, filter jsonb default null, key text default null)
returns table (payload text, attempt int)
language plpgsql volatile
as $$
declare
    v_message pgq.claimed;
begin
    for v_message in select * from pgq.claim(queue, filter, n, key => key) loop
        perform set_config('spec.lease', v_message.lease_id::text, false);
        payload := v_message.payload #>> '{}';
        attempt := v_message.attempt;
        return next;
    end loop;
end
$$;

create function public.lease() returns bigint
language sql stable
return current_setting('spec.lease')::bigint;

-- The ids of messages that a queue still has, by payload.
create function public.ids(variadic payloads text[]) returns bigint[]
language sql stable
return array(select m.id from pgq.message m join pgq.message_state s using (id)
             where m.payload #>> '{}' = any (payloads));

-- What a statement returns, or the SQLSTATE it fails with: messages of errors name tokens.
create function public.outcome(statement text) returns text
language plpgsql volatile
as $$
declare
    v_result text;
begin
    execute statement into v_result;
    return v_result;
exception
    when sqlstate 'QU001' or sqlstate 'QU003' or sqlstate 'QU005' then
        return sqlstate;
end
$$;

-- Whether this session has a low watermark of the queue q.
create function public.noted() returns boolean
language sql volatile
return (select current_setting('pgq.low_' || q.queue_id, true) ~ '^[0-9a-f]{32}#\('
        from pgq.queue q where q.name = 'q');

create view public.state as
select m.payload #>> '{}' as payload, s.queue, s.state, s.attempt
from pgq.message_state s join pgq.message m using (id)
order by s.queue, m.id;

-- How many messages stand in an era that could be empty: one before the last.
create function public.old_messages() returns bigint
language sql stable
return (select count(*) from pgq.message m join pgq.era e on e.slot = m.era
        where e.number < pg_sequence_last_value('pgq.era_number') - 1);

-- Each permutation begins with an empty log.
alter table pgq.message disable trigger keep_log;
alter table pgq.message_0 disable trigger keep_log;
alter table pgq.message_1 disable trigger keep_log;
alter table pgq.message_2 disable trigger keep_log;

-- Ends a permutation: returns the defects of the stored state and removes everything.
create function public.finish() returns table (problem text)
language plpgsql volatile
as $$
begin
    return query select c.problem from pgq.check() c;
    perform pgq.drop_queue(q.name, true) from pgq.queue q;
    delete from pgq.message;
    delete from pgq.filter;
    delete from pgq.filter_scan;
    delete from pgq.filter_hit;
    delete from pgq.dedup;
end
$$;
