-- Objects that another role plants in public and in pg_temp have no effect: each would fail with
-- QH001 if pgq used it.
begin;
select no_plan();

create role hostile_role;
select pgq.create_queue('h', lane_keys => '{k}', max_attempts => 2), pgq.create_queue('other');
select pgq.subscribe('h', 'h.*'), pgq.subscribe('h', '*.part', '{"k": {"$like": "v%"}}');
select pgq.grant_queue('h', 'hostile_role', 'admin');

-- functions of PostgreSQL that pgq uses, with the same parameters
do $plant$
declare
    v_function record;
    v_schema text;
begin
    create temp table planted (what text);
    foreach v_schema in array array['public', 'pg_temp'] loop
        for v_function in
            select p.proname, oidvectortypes(p.proargtypes) as arguments,
                   case when p.proretset then 'setof ' else '' end
                       || format_type(p.prorettype, null) as result
            from pg_proc p
            where p.pronamespace = 'pg_catalog'::regnamespace and p.prokind in ('f', 'a')
              and p.proname in (
                  select w from pg_proc q cross join lateral regexp_split_to_table(
                      coalesce(pg_get_function_sqlbody(q.oid), q.prosrc), '[^a-z0-9_]+') w
                  where q.pronamespace = 'pgq'::regnamespace)
              and not exists (
                  select from pg_type t
                  where t.oid = any (p.proargtypes::oid[] || p.prorettype) and t.typtype = 'p')
        loop
            execute format(
                'create function %s.%I(%s) returns %s language plpgsql as '
                '$$begin raise exception %L using errcode = %L; end$$',
                v_schema, v_function.proname, v_function.arguments, v_function.result,
                'planted function', 'QH001');
            insert into planted values (v_function.proname);
        end loop;
    end loop;
end
$plant$;
select cmp_ok((select count(distinct what) from planted), '>', 60::bigint,
    'functions are planted');

-- operators
do $plant$
declare
    v_operator record;
    v_count int := 0;
begin
    for v_operator in
        select o.oprname, format_type(o.oprleft, null) as l, format_type(o.oprright, null) as r,
               format_type(o.oprresult, null) as result, o.oprleft
        from pg_operator o
        where o.oprnamespace = 'pg_catalog'::regnamespace
          and not exists (select from pg_type t
                          where t.oid in (o.oprleft, o.oprright, o.oprresult) and t.typtype = 'p')
    loop
        v_count := v_count + 1;
        execute format(
            'create function public.planted_operator_%s(%s) returns %s language plpgsql as '
            '$$begin raise exception %L using errcode = %L; end$$',
            v_count, concat_ws(', ', nullif(v_operator.l, '-'), v_operator.r), v_operator.result,
            'planted operator', 'QH001');
        execute format(
            'create operator public.%s (function = public.planted_operator_%s, %srightarg = %s)',
            v_operator.oprname, v_count,
            case when v_operator.oprleft <> 0 then format('leftarg = %s, ', v_operator.l) end,
            v_operator.r);
    end loop;
    insert into planted select 'operator' from generate_series(1, v_count);
end
$plant$;
select cmp_ok((select count(*) from planted where what = 'operator'), '>', 500::bigint,
    'operators are planted');

-- tables with the names of pgq's and of the catalogs that it reads, and types
do $plant$
declare
    v_name text;
begin
    for v_name in
        select relname from pg_class
        where relnamespace = 'pgq'::regnamespace and relkind in ('r', 'p', 'v')
        union values ('pg_roles'), ('pg_namespace'), ('pg_class'), ('pg_trigger')
    loop
        execute format('create temp table %I (planted text)', v_name);
        execute format('create table public.%I (planted text)', v_name);
    end loop;
    foreach v_name in array '{text,jsonb,int8multirange,timestamptz,tid,xid8,regrole}'::text[] loop
        execute format('create domain public.%I as pg_catalog.text check (false)', v_name);
    end loop;
end
$plant$;

-- Calls the functions of pgq as the owner or as a role with rights, with the worst search_path.
create function t.live(role name) returns pg_catalog.text language plpgsql
set search_path = pg_catalog, pg_temp as $$
declare
    -- Planted here, where t.outcome rolls them back: pgTAP would use them.
    v_hostile constant text := 'create domain pg_temp.text as pg_catalog.text check (false); '
        'create domain pg_temp.jsonb as pg_catalog.text check (false); '
        'create domain pg_temp.int4 as pg_catalog.text check (false); '
        'create domain pg_temp.timestamptz as pg_catalog.text check (false); '
        'set local search_path = pg_temp, public, pg_catalog; ';
    v_statement text;
    v_outcome text;
begin
    foreach v_statement in array array[
        $s$select pgq.publish('h', '1', '{"k": "v1"}', dedup_key => 'd', group_key => 'g')$s$,
        $s$select pgq.publish('h.part', '2', '{"k": "v2"}', delay => '0.001 s')$s$,
        $s$select pgq.publish_batch('h', '{1,2,3}', '{"{\"k\": \"v1\"}",null,null}')$s$,
        $s$insert into pgq.message (topic, payload) values ('h', '1'), ('h.x', '2')$s$,
        $s$select pgq.peek('h', '{"k": {"$like": "v%"}}')$s$,
        $s$select pgq.explain_filter('h', '{"k": {"$like": "v%"}}')$s$,
        $s$select pgq.nack(lease_id, error => 'e') from pgq.claim('h', '{"k": "v1"}')$s$,
        $s$select pgq.extend(lease_id) from pgq.claim('h', n => 3, key => 'k')$s$,
        $s$select pgq.bury(lease_id) from pgq.claim('h', n => 3, key => 'k') limit 1$s$,
        $s$select pgq.ack(lease_id) from pgq.claim('h') limit 1$s$,
        $s$select pgq.replay('h', dry_run => true), pgq.replay('h'), pgq.discard('h')$s$,
        $s$select pgq.wait_begin('h', 'w'), pgq.wait_end('h', 'w'), pgq.seen('h', 1)$s$,
        $s$select pgq.alter_queue('h', lane_keys => '{k,l}'), pgq.pause('h'), pgq.resume('h')$s$,
        $s$select pgq.subscribe('h', 'h.part', '{"a": 1}'), pgq.unsubscribe('h', 'h.part')$s$,
        $s$select pgq.matches_topic('a.*', 'a.b'), pgq.matches('{"a": [1, 2]}', '{"a": 1}')$s$,
        $s$select pgq.header_like('k', 'v%'), pgq.entity_filter('{a}', '{b}', true)$s$,
        $s$select pgq.history(1), pgq.replies('c')$s$,
        $s$select * from pgq.queue_stats$s$,
        $s$select * from pgq.message_state$s$,
        $s$select * from pgq.subscription$s$,
        $s$select * from pgq.filter_stats$s$,
        $s$select * from pgq.dead_letter$s$,
        $s$select * from pgq.rights$s$
    ] || case when role = current_user then array[
        $s$select pgq.create_queue('new'), pgq.drop_queue('new')$s$,
        $s$select pgq.grant_queue('other', 'hostile_role', 'publish')$s$,
        $s$call pgq.maintain()$s$,
        $s$select pgq."check"()$s$] end
    loop
        v_outcome := t.outcome(role::text, v_hostile || v_statement);
        if v_outcome <> 'ok' then
            return v_statement || ': ' || v_outcome;
        end if;
    end loop;
    return 'untouched';
end
$$;
select is(t.live(current_user), 'untouched', 'the owner uses no planted object');
select is(t.live('hostile_role'), 'untouched', 'a role with rights uses no planted object');
-- Control: without the search_path of pgq, the planted objects are used.
select is(
    t.outcome(current_user, $$set local search_path = pg_temp, public, pg_catalog;
                              select length('a')$$), 'QH001',
    'a planted function is called without the search_path of pgq');
select is(
    t.outcome(current_user, $$set local search_path = pg_temp, public, pg_catalog;
                              select 1 + 1$$), 'QH001',
    'a planted operator is called without the search_path of pgq');

-- A cast to the type of a parameter runs as the caller, before the function of pgq starts.
create schema hostile;
grant all on schema hostile to hostile_role;
set local role hostile_role;
create type hostile.bait as (a pg_catalog.int4);
create table hostile.ran_as (who pg_catalog.text);
create function hostile.spring(hostile.bait) returns pg_catalog.jsonb language plpgsql as $$
begin
    insert into hostile.ran_as values (current_user);
    return '1';
end
$$;
create cast (hostile.bait as pg_catalog.jsonb) with function hostile.spring(hostile.bait)
    as implicit;
select pgq.publish('h', row(1)::hostile.bait);
reset role;
select is((select string_agg(who, ' ') from hostile.ran_as), 'hostile_role',
    'a planted cast runs as the caller, without more rights');

select is_empty('select * from pgq.check()', 'the stored state is sound');
select * from finish();
rollback;
