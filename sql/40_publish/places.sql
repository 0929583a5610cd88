-- The keys of the anchors whose filters a message may match: places and areas of its fields, and
-- the names of headers that only few filters test.
create or replace function pgq._places(
    fields pgq._field[], patterns text[], message pgq.message,
    out places bigint[], out areas box[], out names bigint[])
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_field pgq._field;
    v_values jsonb[];
    v_value jsonb;
    v_type text;
    v_size int;
begin
    foreach v_field in array fields loop
        -- null stands for a field that is missing
        v_values := case v_field.scope
            when 'headers' then array[message.headers -> v_field.path[1]]
            when 'payload' then pgq._field_values(v_field.paths, message.payload)
            else array[case v_field.path[1]
                when 'topic' then to_jsonb(message.topic)
                when 'priority' then to_jsonb(message.priority)
                when 'sender' then to_jsonb(message.sender)
                when 'recipient' then to_jsonb(message.recipient)
                when 'reply_to' then to_jsonb(message.reply_to)
                when 'correlation_id' then to_jsonb(message.correlation_id)
                when 'group_key' then to_jsonb(message.group_key) end] end;
        if v_field.several and cardinality(v_values) > 1 then
            places := places || (v_field.field # 3);
        end if;
        foreach v_value in array v_values loop
            if v_value is null then
                if v_field.missing then
                    places := places || (v_field.field # 2);
                end if;
                continue;
            end if;
            v_type := jsonb_typeof(v_value);
            if v_field.equal then
                places := places || jsonb_hash_extended(v_value, v_field.field);
            end if;
            if v_field.there then
                places := places || (v_field.field # 1);
            end if;
            if v_type = 'string' and v_field.sizes is not null then
                foreach v_size in array v_field.sizes loop
                    places := places || hashtextextended(
                        left(v_value #>> '{}', v_size) collate "C", v_field.field);
                end loop;
            end if;
            if v_type = 'number' and v_field.ranged then
                areas := areas || pgq._area(
                    v_field.field, false, pgq._number_place(v_value::numeric));
            elsif v_type = 'string' and v_field.texts then
                areas := areas || pgq._area(
                    v_field.field, true, pgq._text_place(v_value #>> '{}'));
            end if;
        end loop;
    end loop;
    if patterns <> '{}' then
        names := array(
            select pgq._field_hash(p, 'headers', h)
            from unnest(patterns) p, jsonb_object_keys(message.headers) h
            except
            select f.field from unnest(fields) f);
    end if;
end
$$;
comment on function pgq._places(pgq._field[], text[], pgq.message) is
    'The keys of anchors whose filters a message may match.';
