-- Whether a message passes a compiled filter that has lists of suffixes. The texts that end with
-- one of them are found first: a search needs them reversed, and a jsonpath cannot do that.
create or replace function pgq._test_suffixes(
    path jsonpath, scope text, headers jsonb, payload jsonb, topic text, priority int, sender text,
    recipient text, reply_to text, correlation_id text, group_key text, attempt int,
    published_at timestamptz, expires_at timestamptz, id bigint, now timestamptz)
returns boolean
language plpgsql stable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_reads constant text[] := string_to_array(scope, E'\n');
    v_target constant jsonb := case v_reads[1]
        when 'headers' then coalesce(headers, '{}')
        when 'message' then pgq._message_document(headers, payload, topic, priority, sender,
            recipient, reply_to, correlation_id, group_key, attempt, published_at, expires_at, id)
        else coalesce(payload, 'null') end;
    v_vars constant jsonb := case v_reads[1]
        when 'content' then jsonb_build_object('headers', headers)
        when 'message' then jsonb_build_object('now', extract(epoch from now))
        else '{}' end;
    v_texts jsonb;
    v_found jsonb := '{}';
begin
    for i in 2 .. cardinality(v_reads) by 3 loop
        v_texts := jsonb_path_query_array(v_target, v_reads[i + 2]::jsonpath, v_vars, true);
        for j in 0 .. jsonb_array_length(v_texts) - 1 loop
            if jsonb_path_match('null', path, jsonb_build_object('list', v_reads[i], 'found', null,
                    'text', reverse(right(v_texts ->> j, v_reads[i + 1]::int))), true) then
                v_found := jsonb_set(v_found, v_reads[i:i], coalesce(v_found -> v_reads[i], '[]')
                    || jsonb_build_array(v_texts -> j));
            end if;
        end loop;
    end loop;
    return jsonb_path_match(v_target, path, v_vars || jsonb_build_object(
        'list', '', 'text', null, 'found', v_found), true);
end
$$;
comment on function pgq._test_suffixes(jsonpath, text, jsonb, jsonb, text, int, text, text, text,
    text, text, int, timestamptz, timestamptz, bigint, timestamptz) is
    'Whether a message passes a compiled filter that has lists of suffixes.';
