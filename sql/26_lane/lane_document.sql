-- A label as a message, for filters. Each key on the path to a field has an object, even if the
-- field is missing: conditions that test for missing fields read it.
create or replace function pgq._lane_document(lane_keys text[], label jsonb) returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_document jsonb := '{"msg": {}, "headers": {}, "payload": {}}';
    v_path text[];
    v_value jsonb;
begin
    for i in 1 .. cardinality(lane_keys) loop
        continue when lane_keys[i] like '#%';
        v_path := case when lane_keys[i] like '%.%' then string_to_array(lane_keys[i], '.')
                  else array['headers', lane_keys[i]] end;
        for j in 2 .. cardinality(v_path) - 1 loop
            if v_document #> v_path[:j] is null then
                v_document := jsonb_set(v_document, v_path[:j], '{}');
            end if;
        end loop;
        v_value := label -> (i - 1);
        if v_value <> '[]' then
            v_document := jsonb_set(v_document, v_path, v_value);
        end if;
    end loop;
    return v_document;
end
$$;
comment on function pgq._lane_document(text[], jsonb) is 'A label in the form of a message.';
