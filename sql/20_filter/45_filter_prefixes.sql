-- The current item (@), a string, starts with one of these texts: a binary search.
create or replace function pgq._filter_prefixes(texts text[])
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_kept text[] := '{}';
    v_last text;
    v_text text;
begin
    for v_text in
        select t.text from unnest(texts) as t (text) order by convert_to(t.text, 'UTF8')
    loop
        -- a prefix makes longer prefixes that start with it superfluous
        if starts_with(v_text, v_last) is not true then
            v_last := v_text;
            v_kept := v_kept || to_json(v_text)::text;
        end if;
    end loop;
    return pgq._filter_search(v_kept, 'starts with');
end
$$;
comment on function pgq._filter_prefixes(text[]) is
    'The jsonpath condition of a string starting with one of these texts.';
