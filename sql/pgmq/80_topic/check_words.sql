-- Topics of pgmq: a table of patterns, and a copy of the message for each queue that matches.
-- Subscriptions of pgq store a message once, but interpret # and partial words differently.
create or replace function pgmq._check_words(words text, what text, allowed text) returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_problem text := case
        when coalesce(words, '') = '' then 'is missing'
        when length(words) > 255 then 'is longer than 255 characters'
        when words !~ allowed then 'has a character that is not allowed'
        when words ~ E'^\\.' or words ~ E'\\.$' then 'begins or ends with a dot'
        when words ~ E'\\.\\.' then 'has two dots in a row'
        when words ~ '[*#][*#]' then 'has two wildcards in a row'
    end;
begin
    if v_problem is not null then
        raise exception '% "%" %', what, left(words, 40), v_problem
            using errcode = 'invalid_parameter_value',
                  hint = 'Use words of letters, digits, _ and -, separated by single dots.';
    end if;
end
$$;
comment on function pgmq._check_words(text, text, text) is
    'Raises 22023 unless the text is a list of words.';
