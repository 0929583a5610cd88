-- Raises 22023 unless these are lane keys: fields, named as in filters.
create or replace function pgq._check_lane_keys(lane_keys text[]) returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_names text[] := array(select ltrim(k, '#') from unnest(lane_keys) k);
    v_name text;
    v_problem text;
    v_hint text;
begin
    foreach v_name in array v_names loop
        if v_name = 'auto' and cardinality(v_names) > 1 then
            v_problem := 'auto must be the only lane key';
            v_hint := 'Write ''{auto}'', or the keys; a header of this name is headers.auto.';
        elsif v_name is null or v_name = '' then
            v_problem := 'a lane key must be the name of a field';
            v_hint := 'Name a header, a field such as payload.region, or msg.recipient.';
        elsif v_name like 'msg.%' then
            if v_name !~ '^msg[.](topic|sender|recipient|reply_to|correlation_id|group_key)$' then
                v_problem := format('lane key "%s" is not possible', left(v_name, 64));
                v_hint := 'These fields of msg can be lane keys: topic, sender, recipient, '
                    'reply_to, correlation_id and group_key.';
            end if;
        elsif v_name not like 'payload.%' and v_name like '%.%' then
            v_problem := format('lane key "%s" names no field', left(v_name, 64));
            v_hint := format('A header has no parts; a field of the payload is payload.%s.',
                             left(v_name, 64));
        elsif v_name ~ '(^|[.])([.]|[$]|$)' or cardinality(string_to_array(v_name, '.')) > 17
                or exists (select from unnest(string_to_array(v_name, '.')) k
                           where length(k) > 128) then
            v_problem := format('lane key "%s" is not possible', left(v_name, 64));
            v_hint := 'Dots separate up to 16 keys of 1 to 128 characters that do not begin '
                'with $.';
        end if;
    end loop;
    case
        when v_problem is not null then
            null;
        when cardinality(v_names) > 4 then
            v_problem := 'a queue has at most 4 lane keys';
            v_hint := 'Choose the fields that most filters test.';
        when (select count(distinct k) < count(*) from unnest(v_names) k) then
            v_problem := 'lane keys must differ from each other';
            v_hint := 'Name each field once.';
        when exists (select from unnest(v_names) a, unnest(v_names) b
                     where starts_with(a, b || '.')) then
            v_problem := 'a lane key lies below another';
            v_hint := 'A lane key is a field with a single value, not an object.';
        when (select count(*) > 1 from unnest(lane_keys) k where k like '#%') then
            v_problem := 'a queue has at most one hashed lane key';
            v_hint := 'Put # before the key that has very many values.';
        else
            return;
    end case;
    raise exception '%', v_problem using errcode = 'invalid_parameter_value', hint = v_hint;
end
$$;
comment on function pgq._check_lane_keys(text[]) is 'Raises 22023 unless the lane keys are valid.';
