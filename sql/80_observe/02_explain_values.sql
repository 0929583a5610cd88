-- Fields and values of a filter that none of the newest messages of a queue has, with suggestions.
-- Reads 10,000 messages of the log at most.
create or replace function pgq._explain_values(queue pgq.queue, tree jsonb) returns setof text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_field text;
    v_path text[];
    v_values jsonb;
    v_seen record;
    v_near text;
begin
    for v_field in select f from pgq._filter_fields(tree) f order by 1 loop
        v_path := string_to_array(v_field, '.');
        v_values := pgq._filter_values(tree, v_field);
        continue when v_values is not null and v_values @> '[null]';
        select count(*) as messages, count(*) filter (where v.value <> '[]') as present,
               bool_or(v.value = '{}' or v_values is null
                       or exists (select from jsonb_array_elements(v_values) e (value)
                                  where e.value = v.value)) as found,
               jsonb_agg(distinct v.value) filter (
                   where v.value not in ('{}', '[]', 'null')) as "values",
               jsonb_agg(distinct p.parent) filter (
                   where jsonb_typeof(p.parent) = 'object') as parents
        into v_seen
        from (
            select m.* from (
                select e.* from pgq.message e order by e.id desc limit 10000) m
            where exists (select from pgq.binding b
                          where b.queue_id = queue.queue_id
                            and (b.regex is null and b.pattern = m.topic or m.topic ~ b.regex))
            limit 1000
        ) m
        cross join lateral (select coalesce(nullif(
            pgq._lane_value(m::pgq.message, v_field),
            case when v_field like 'msg.%' then 'null'::jsonb end), '[]') as value) v
        cross join lateral (select case
            when v_field not like '%.%' then m.headers
            when v_field like 'payload.%' then m.payload #> v_path[2 : cardinality(v_path) - 1]
            end as parent) p;
        continue when v_seen.messages = 0 or v_seen.found and v_seen.present > 0;
        v_near := null;
        if v_seen.present = 0 then
            select k.key into v_near
            from jsonb_array_elements(v_seen.parents) o (parent)
            cross join lateral jsonb_object_keys(o.parent) k (key)
            where pgq._is_near(k.key, v_path[cardinality(v_path)]) limit 1;
            return next format('none of the last %s messages has the field %s', v_seen.messages,
                v_field) || coalesce('; did you mean ' || (
                    select array_to_string(v_path[: cardinality(v_path) - 1] || v_near, '.')
                    where v_near is not null) || '?', '');
        else
            select s.value::text into v_near
            from jsonb_array_elements(v_seen."values") s (value),
                 jsonb_array_elements(v_values) w (value)
            where pgq._is_near(s.value #>> '{}', w.value #>> '{}') limit 1;
            return next format('none of the last %s messages has had such a value in %s',
                v_seen.messages, v_field) || coalesce('; did you mean ' || v_near || '?', '');
        end if;
    end loop;
end
$$;
comment on function pgq._explain_values(pgq.queue, jsonb) is
    'Fields and values of a filter that no recent message has, with suggestions.';
