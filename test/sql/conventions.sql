-- Rules for every object of pgq, checked in the catalog.
begin;
select no_plan();

create temp view routine as
select p.oid, p.oid::regprocedure::text as name, p.proname, p.prosecdef, p.proconfig, p.proacl,
       p.prosqlbody is not null as bound, l.lanname as language, p.proargnames,
       coalesce(pg_get_function_sqlbody(p.oid), p.prosrc) as body
from pg_proc p join pg_language l on l.oid = p.prolang
where p.pronamespace = 'pgq'::regnamespace;

create temp view relation as
select c.oid, c.oid::regclass::text as name, c.relname, c.relkind, c.relispartition, c.relacl,
       c.relowner
from pg_class c
where c.relnamespace = 'pgq'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S', 'c');

select cmp_ok((select count(*) from routine), '>', 100::bigint,
    'the catalog has functions to check');

-- functions
select is_empty(
    $$select name from routine where obj_description(oid, 'pg_proc') is null$$,
    'every function has a comment');
select is_empty(
    $$select name from routine
      where not bound
        and not coalesce('search_path=pg_catalog, pg_temp' = any (proconfig), false)
        and proname <> 'maintain'  -- a procedure that commits cannot$$,
    'every function pins its search_path, unless its names are resolved when it is created');
select is_empty(
    $$select name from routine
      where prosecdef
        and not coalesce('search_path=pg_catalog, pg_temp' = any (proconfig), false)$$,
    'every SECURITY DEFINER function pins its search_path with pg_temp last');
select is_empty(
    $$select name from routine where has_function_privilege('public', oid, 'execute')$$,
    'PUBLIC can execute nothing');
select is_empty(
    $$select name from routine where body ~ 'advisory'$$,
    'no function uses an advisory lock, which any role could hold');
select is_empty(
    $$select name from routine
      where regexp_replace(body, '--[^\n]*|''[^'']*''', '', 'g') ~* '\mexecute\M'
        and proname not in ('_set_access', '_close_types', '_filter_cases')$$,
    'no function builds SQL, except to grant privileges to a role and to choose a collation that '
    'the server has: filters and names are parameters');
select is_empty(
    $$select name from routine where language not in ('plpgsql', 'sql')$$,
    'everything is written in SQL and PL/pgSQL');
select is_empty(
    $$select name from routine where prosecdef and proname like '\_%'
        and proname not in ('_route', '_maintain', '_queue_stats', '_metrics', '_findings')$$,
    'internal functions run with the rights of the caller, except those of triggers and views');
-- Functions of filters read no queue. The exceptions below are granted by name, or check rights
-- themselves.
select is_empty(
    $$select name from routine
      where prosecdef and not coalesce('caller' = any (proargnames), false)
        and body ~ '\mpgq\.(_?queue|binding|message|ready|lease|scheduled|dead_letter|journal)\M'
        and proname not in ('create_queue', '_maintain', 'check', '_route', 'read_log',
                            'publish_staged', 'archive_next', 'archived')$$,
    'every SECURITY DEFINER function that reads queues has the parameter caller');
select is_empty(
    $$select name, body from routine
      where 'caller' = any (proargnames) and prosecdef and proname <> '_queue_stats'
        and body !~ ('pgq\._(is_owner|queue_for|schedule_for|visible_queues|check_claim|publish)'
                     '\(\s*caller')$$,
    'every SECURITY DEFINER function that has the parameter caller checks it');
select is_empty(
    $$select r.name, a.name
      from routine r
      cross join lateral unnest(r.proargnames) a (name)
      join pg_class c on c.relnamespace = 'pgq'::regnamespace and c.relkind in ('r', 'p', 'v')
          and r.body ~ ('\mpgq\.' || c.relname || '\M(?!\()')
      join pg_attribute t on t.attrelid = c.oid and t.attnum > 0 and t.attname = a.name
      where r.language = 'sql'$$,
    'no function in SQL has a parameter with the name of a column that it reads');
select is_empty(
    $$select name from routine, unnest(proargnames) a where a ~ '^(p|v|in|arg)_'$$,
    'no parameter has a prefix such as p_');

-- tables, views, sequences, types
select is_empty(
    $$select name from relation where relkind in ('r', 'p', 'v', 'm') and not relispartition
        and obj_description(oid, 'pg_class') is null$$,
    'every table and every view has a comment');
select is_empty(
    $$select name from relation where relkind = 'S'
        and obj_description(oid, 'pg_class') is null
        and not exists (select from pg_depend d where d.objid = relation.oid
                        and d.classid = 'pg_class'::regclass and d.deptype = 'i')$$,
    'every sequence has a comment, except those of identity columns');
select is_empty(
    $$select relation.name, a.privilege_type
      from relation
      cross join lateral aclexplode(coalesce(
          relacl, acldefault(case relkind when 'S' then 's' else 'r' end::"char", relowner))) a
      where a.grantee = 0 and relkind <> 'c'$$,
    'PUBLIC has no right to any table, view or sequence');
select is_empty(
    $$select c.name, t.attname from relation c
      join pg_attribute t on t.attrelid = c.oid and t.attnum > 0
      where t.attacl is not null$$,
    'no privilege is granted on a single column');
select is_empty(
    $$select t.typname from pg_type t left join pg_class c on c.oid = t.typrelid
      where t.typnamespace = 'pgq'::regnamespace and has_type_privilege('public', t.oid, 'usage')
        and t.typtype in ('c', 'd') and coalesce(c.relkind, 'c') = 'c'$$,
    'PUBLIC cannot use the types, except the row types of tables and views');
select is_empty(
    $$select t.typname from pg_type t left join pg_class c on c.oid = t.typrelid
      where t.typnamespace = 'pgq'::regnamespace and (c.relkind = 'c' or t.typtype = 'd')
        and obj_description(t.oid, 'pg_type') is null$$,
    'every type has a comment');
select is_empty(
    $$select c.oid::regclass from pg_class c
      where c.relnamespace = 'pgq'::regnamespace and c.relkind = 'r' and c.relpersistence = 'p'
        and not (c.relreplident in ('f', 'i') or c.relreplident = 'd' and exists (
            select from pg_index i where i.indrelid = c.oid and i.indisprimary))$$,
    'every table has a replica identity');
select ok(not has_schema_privilege('public', 'pgq', 'usage'), 'PUBLIC cannot enter the schema');
select ok(not has_schema_privilege('public', 'pgq', 'create'), 'PUBLIC cannot add to the schema');
select is_empty(
    $$select name from relation where relkind in ('r', 'p') and relname ~ 's$'$$,
    'tables have singular names');
select is_empty(
    $$select c.conname from pg_constraint c
      join pg_class r on r.oid = c.conrelid
      where c.connamespace = 'pgq'::regnamespace and c.contype <> 'n' and not r.relispartition
        and c.conname !~ ('^' || r.relname || '_')$$,
    'constraints are named after their table');
select is_empty(
    $$select r.name, t.attname from relation r
      join pg_attribute t on t.attrelid = r.oid and t.attnum > 0 and not t.attisdropped
      where r.relkind in ('r', 'p') and t.attname ~ '_at$'
        and t.atttypid <> 'timestamptz'::regtype$$,
    'every column whose name ends in _at is a timestamptz');

-- the contract: names, order, types and defaults that users write in their code
create temp view offered as  -- publish and publish_batch have overloads for json
select distinct on (r.proname) r.oid, r.proname as name
from routine r order by r.proname, (r.name ~ 'json\M');
create temp table promised (name text, parameters text, result text);
insert into promised values
    ('create_queue', 'queue text, lane_keys text[] DEFAULT NULL::text[], '
        'lease interval DEFAULT ''00:00:30''::interval, max_attempts integer DEFAULT 3, '
        'backoff interval DEFAULT ''00:00:01''::interval, '
        'max_backoff interval DEFAULT ''00:05:00''::interval, '
        'retention interval DEFAULT ''1 day''::interval, mode text DEFAULT ''queue''::text',
        'boolean'),
    ('alter_queue', 'queue text', 'void'),
    ('drop_queue', 'queue text', 'boolean'),
    ('pause', 'queue text', 'boolean'),
    ('resume', 'queue text', 'boolean'),
    ('publish', 'topic text, payload jsonb, headers jsonb DEFAULT ''{}''::jsonb, '
        'priority integer DEFAULT 0, delay interval DEFAULT NULL::interval, '
        'expires_in interval DEFAULT NULL::interval, sender text DEFAULT NULL::text, '
        'recipient text DEFAULT NULL::text, reply_to text DEFAULT NULL::text, '
        'correlation_id text DEFAULT NULL::text, group_key text DEFAULT NULL::text, '
        'dedup_key text DEFAULT NULL::text', 'bigint'),
    ('publish_batch', 'topic text, payloads jsonb[], headers jsonb[] DEFAULT NULL::jsonb[], '
        'priority integer DEFAULT 0, delay interval DEFAULT NULL::interval', 'SETOF bigint'),
    ('claim', 'topic text, filter jsonb DEFAULT NULL::jsonb, n integer DEFAULT 1, '
        'lease interval DEFAULT NULL::interval, key text DEFAULT NULL::text',
        'SETOF pgq.claimed'),
    ('ack', 'lease_id bigint, ids bigint[] DEFAULT NULL::bigint[]', 'integer'),
    ('nack', 'lease_id bigint, ids bigint[] DEFAULT NULL::bigint[], '
        'delay interval DEFAULT NULL::interval, error text DEFAULT NULL::text, '
        'details jsonb DEFAULT NULL::jsonb', 'integer'),
    ('release', 'lease_id bigint, ids bigint[] DEFAULT NULL::bigint[], '
        'delay interval DEFAULT ''00:00:00''::interval', 'integer'),
    ('bury', 'lease_id bigint, ids bigint[] DEFAULT NULL::bigint[], '
        'error text DEFAULT NULL::text, details jsonb DEFAULT NULL::jsonb', 'integer'),
    ('extend', 'lease_id bigint, lease interval DEFAULT NULL::interval',
        'timestamp with time zone'),
    ('peek', 'queue text, filter jsonb DEFAULT NULL::jsonb, n integer DEFAULT 10',
        'SETOF pgq.message'),
    ('leased', 'lease_id bigint', 'SETOF pgq.claimed'),
    ('replay', 'queue text, filter jsonb DEFAULT NULL::jsonb, n integer DEFAULT NULL::integer, '
        'dry_run boolean DEFAULT false', 'integer'),
    ('discard', 'queue text, filter jsonb DEFAULT NULL::jsonb, n integer DEFAULT NULL::integer',
        'integer'),
    ('purge', 'topic text, filter jsonb DEFAULT NULL::jsonb, dry_run boolean DEFAULT false',
        'bigint'),
    ('cancel', 'topic text, ids bigint[] DEFAULT NULL::bigint[], '
        'filter jsonb DEFAULT NULL::jsonb, dedup_key text DEFAULT NULL::text, '
        'dry_run boolean DEFAULT false', 'bigint'),
    ('move', 'topic text, to_topic text, filter jsonb DEFAULT NULL::jsonb, '
        'n integer DEFAULT NULL::integer, dry_run boolean DEFAULT false', 'bigint'),
    ('reschedule', 'queue text, ids bigint[] DEFAULT NULL::bigint[], '
        'filter jsonb DEFAULT NULL::jsonb', 'bigint'),
    ('matches', 'filter jsonb, headers jsonb, payload jsonb DEFAULT NULL::jsonb', 'boolean'),
    ('compile_filter', 'filter jsonb', null),
    ('explain_filter', 'queue text, filter jsonb', 'TABLE(item text, value text)'),
    ('header_equals', 'key text, value text', 'jsonb'),
    ('header_in', 'key text, "values" text[]', 'jsonb'),
    ('header_not_equals', 'key text, value text', 'jsonb'),
    ('header_like', 'key text, pattern text', 'jsonb'),
    ('all_of', '', 'jsonb'),
    ('any_of', '', 'jsonb'),
    ('history', 'message_id bigint', null),
    ('version', '', 'text'),
    ('now', '', 'timestamp with time zone'),
    ('maintain', '', null);

select is(
    (select string_agg(starts_with(pg_get_function_arguments(r.oid), p.parameters)::text, ' ')
     from offered r where r.name = p.name),
    'true', format('pgq.%s has the parameters that were promised', p.name))
from promised p order by p.name;
select is(
    (select pg_get_function_result(r.oid) from offered r where r.name = p.name),
    p.result, format('pgq.%s returns what was promised', p.name))
from promised p where p.result is not null order by p.name;
select is_empty(
    $$select p.name from promised p join offered using (name) join pg_proc f using (oid)
      where f.provariadic = 0 and f.pronargs - f.pronargdefaults
          <> regexp_count(p.parameters, '[a-z_"]+ [a-z\[\]]+(?=,|$)')$$,
    'parameters after the promised ones have defaults');
select is_empty(
    $$select r.name, a.name from routine r join pg_proc f using (oid)
      cross join unnest(f.proargnames[:f.pronargs]) a (name)
      where r.proname !~ '^_' and (
          a.name in ('subscriber', 'queue_name')
          or a.name = 'topic' and r.proname not in (
              -- functions about topics; claim, purge, cancel and move take a queue
              'purge', 'cancel', 'move', 'publish', 'publish_batch', 'schedule', 'matches',
              'matches_topic', 'read_log', 'log_range', 'log_parts', 'log_lock', 'writer_epoch',
              'claim'))$$,
    'the parameter for the name of a queue is called queue, except in claim and similar functions');
select columns_are('pgq', 'claimed', array[
    'lease_id', 'id', 'topic', 'priority', 'attempt', 'headers', 'payload', 'sender', 'recipient',
    'reply_to', 'correlation_id', 'group_key', 'published_at', 'expires_at', 'lease_until'],
    'a claim returns the promised columns');
select is_empty(
    $$select unnest('{queue_stats,message_state}'::text[])
      except select relname::text from relation where relkind = 'v'$$,
    'the promised views exist');
select has_view('pgq'::name, 'dead_letter'::name, 'the view dead_letter exists');
select is((select provolatile from pg_proc where oid = 'pgq.peek'::regproc), 's',
    'peek is stable: it changes nothing');
select is(pgq.version(), (select extversion from pg_extension where extname = 'pgq'),
    'version() returns the version that is installed');

select is_empty('select * from pgq.check()', 'nothing is broken in an installation without queues');
select * from finish();
rollback;
