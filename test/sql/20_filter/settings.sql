-- Session settings do not change the meaning of a pattern or a filter: compiled filters and
-- routes are shared with other sessions.
begin;
select set_config(name, 'off', true)  -- version 19 has only one meaning for literals
from pg_settings
where name in ('escape_string_warning', 'standard_conforming_strings')
  and current_setting('server_version_num')::int < 190000;
set local plpgsql.extra_errors = 'all';
set local datestyle = 'German, DMY';
set local intervalstyle = 'sql_standard';
set local timezone = 'Pacific/Kiritimati';
set local quote_all_identifiers = on;
select no_plan();

select is(pgq.matches_topic('a.*', 'a.b'), true, 'a topic pattern matches');
select is(pgq.matches_topic('a.*', 'axb'), false, 'a dot in a topic pattern matches only a dot');
select is(pgq.matches_topic('a.#', 'axb'), false,
    'a dot before a wildcard for several words matches only a dot');
select is(pgq.matches_topic('#.a', 'xa'), false,
    'a dot after a wildcard for several words matches only a dot');
select throws_ok($$select pgq.create_queue('a b')$$, '22023', null, 'a topic has no spaces');
select throws_ok($$select pgq.subscribe('a', 'a b.*')$$, '22023', null,
    'a topic pattern has no spaces');
select is(pgq.matches(f, '{"k": "a_b"}'), m,
    format('%s %s a_b', f, case when m then 'matches' else 'does not match' end))
from (values
    ('{"k": {"$like": "a_b"}}'::jsonb, true), ('{"k": {"$like": "a%"}}', true),
    (jsonb_build_object('k', jsonb_build_object('$like', E'a\\_b')), true),
    (jsonb_build_object('k', jsonb_build_object('$like', E'a\\%b')), false),
    ('{"k": [{"wildcard": "a*"}]}', true), ('{"k": [{"wildcard": "*.b"}]}', false),
    ('{"k": [{"equals-ignore-case": "A_B"}]}', true),
    ('{"k": [{"equals-ignore-case": "AxB"}]}', false),
    ('{"k": {"$regex": "^a.b$"}}', true)) c (f, m);
select is(pgq.matches('{"msg.published_at": {"$gte": "2030-01-31"}}', '{}',
                      published_at => '2030-01-30 23:00:00+00'), false,
    'a date begins at midnight UTC');

-- A PL/pgSQL function is parsed at its first use, with the settings of that session.
select is_empty(
    $$select p.oid::regprocedure, m[2]
      from pg_proc p
      join pg_language l on l.oid = p.prolang and l.lanname = 'plpgsql'
      cross join lateral regexp_matches(
          regexp_replace(p.prosrc, '--[^\n]*', '', 'g'),
          '(E?)''((?:[^'']|'''')*)''', 'g') m
      where p.pronamespace = 'pgq'::regnamespace and m[1] = '' and strpos(m[2], chr(92)) > 0$$,
    'no function has a literal whose backslashes depend on a setting');
select * from finish();
rollback;
