-- A regular expression that ignores case, with each letter that the database's own locale does not
-- know the case of replaced by its two cases: the locale C knows ASCII only. The cases are those of
-- Unicode, from a collation that the server has; without one the letters stay as they are.
create or replace function pgq._filter_cases(regex text)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_collation name;
    v_regex text;
begin
    if octet_length(regex) > length(regex) and getdatabaseencoding() = 'UTF8'
            and upper(chr(233)) = chr(233) then
        select c.collname into v_collation
        from pg_collation as c
        where c.collnamespace = 'pg_catalog'::regnamespace
            and c.collname in ('pg_c_utf8', 'und-x-icu', 'C.utf8')
            and c.collencoding in (-1, pg_char_to_encoding('UTF8'))
        order by c.collname = 'pg_c_utf8' desc, c.collname = 'und-x-icu' desc limit 1;
    end if;
    if v_collation is not null then
        execute format($statement$
            select string_agg(case
                    when octet_length(t.letter) = 1 or lower(t.letter collate %1$I) = t.letter
                        and upper(t.letter collate %1$I) = t.letter then t.letter
                    else '[' || t.letter || left(lower(t.letter collate %1$I), 1)
                        || left(upper(t.letter collate %1$I), 1) || ']' end,
                '' order by t.position)
            from regexp_split_to_table($1, '') with ordinality as t (letter, position)
            $statement$, v_collation)
        into v_regex using regex;
    end if;
    return coalesce(v_regex, regex);
end
$$;
comment on function pgq._filter_cases(text) is
    'A regular expression that ignores case, also of letters that the locale does not know.';
