-- AMQP topic pattern -> anchored regular expression; QU004 for an invalid pattern.
create or replace function pgq._topic_regex(pattern text)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_word text;
    v_last text;
    v_regex text := '';
begin
    if length(pattern) > 1024 then
        perform pgq._filter_error('the topic pattern is too long', 'the topic pattern',
            'A topic pattern has at most 1024 characters.');
    end if;
    foreach v_word in array string_to_array(pattern, '.') loop
        if v_word = '' then
            perform pgq._filter_error('the topic pattern has an empty word', 'the topic pattern '
                || left(to_json(pattern)::text, 80),
                'Words are separated by single dots: orders.created, orders.*, orders.#');
        elsif v_word not in ('*', '#') and v_word ~ '[*#]' then
            perform pgq._filter_error('a wildcard must be a whole word', 'the topic pattern '
                || left(to_json(pattern)::text, 80),
                'Write * for one word or # for any number of words: orders.*, orders.#');
        end if;
        -- a # directly after a # adds nothing; a # in front includes the dot after it
        if v_word = '#' then
            v_regex := v_regex || case
                when v_last is null then E'(?:[^.]+\\.)*'
                when v_last = '#' then ''
                else E'(?:\\.[^.]+)*' end;
        else
            v_regex := v_regex
                || case when v_last is null or v_regex = E'(?:[^.]+\\.)*' then '' else E'\\.' end
                || case when v_word = '*' then '[^.]+' else pgq._regex_quote(v_word) end;
        end if;
        v_last := v_word;
    end loop;
    if v_last is null then
        perform pgq._filter_error('the topic pattern is empty', 'the topic pattern',
            'Write # to match every topic.');
    end if;
    return case when v_regex = E'(?:[^.]+\\.)*' then '^' else '^' || v_regex || '$' end;
end
$$;
comment on function pgq._topic_regex(text) is
    'The regular expression of a topic pattern: * is one word, # is zero or more words.';
