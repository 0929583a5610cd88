-- The value of a lane key in a message: a scalar, [] if it is missing, {} if it is an object, if an
-- array is there or on the path, or if a policy would read a dotted key ("a.b") as this one (a.b).
create or replace function pgq._lane_field(payload jsonb, key text) returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_path constant text[] := string_to_array(substr(key, 9), '.');
    v_last constant int := cardinality(v_path);
    v_value jsonb := payload;
begin
    for i in 1 .. v_last loop
        if jsonb_typeof(v_value) <> 'object' then
            return case jsonb_typeof(v_value) when 'array' then '{}'::jsonb else '[]' end;
        end if;
        for j in i + 1 .. v_last loop
            if v_value ? array_to_string(v_path[i:j], '.') then
                return '{}'::jsonb;
            end if;
        end loop;
        v_value := v_value -> v_path[i];
        if v_value is null then
            return '[]'::jsonb;
        end if;
    end loop;
    return case when jsonb_typeof(v_value) in ('array', 'object') then '{}' else v_value end;
end
$$;
comment on function pgq._lane_field(jsonb, text) is 'The value of a lane key in a payload.';

-- The planner inlines it: a header costs no more than reading it.
create or replace function pgq._lane_value(m pgq.message, key text) returns jsonb
language sql stable parallel safe
return case
    when key is null or key like '#%' then '[]'
    when strpos(key, '.') = 0 then coalesce(m.headers -> key, '[]')
    when starts_with(key, 'payload.') then pgq._lane_field(m.payload, key)
    else coalesce(to_jsonb(
        case key
            when 'msg.topic' then m.topic
            when 'msg.sender' then m.sender
            when 'msg.recipient' then m.recipient
            when 'msg.reply_to' then m.reply_to
            when 'msg.correlation_id' then m.correlation_id
            when 'msg.group_key' then m.group_key end), 'null') end;
comment on function pgq._lane_value(pgq.message, text) is 'The value of a lane key in a message.';
