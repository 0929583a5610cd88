"""What ``pgq doctor`` looks for: each check is a query whose rows are what it has found.

A row has a verdict (problem, or unknown if the caller is not allowed to know), what it is about,
what was found, and the cure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, LiteralString

__all__ = ["CHECKS", "DEEP", "Check"]


@dataclass(frozen=True)
class Check:
    """A question to the database; `title` is what is so if there is no row."""

    name: str
    title: str
    query: LiteralString


_VERSION: Final = """
select 'problem', 'pgq',
       format('the database has version %%s, this client is %%s', pgq.version(), %(version)s::text),
       case when string_to_array(pgq.version(), '.')::int[]
                 < string_to_array(%(version)s::text, '.')::int[]
            then 'pgq install' else format('pip install pgq-client==%%s', pgq.version()) end
 where pgq.version() <> %(version)s::text
union all
select 'problem', 'extension pgq',
       format('the catalog says %%s, the code is %%s', e.extversion, pgq.version()),
       'alter extension pgq update'
  from pg_extension e
 where e.extname = 'pgq' and e.extversion <> pgq.version()
"""

# A transaction that has an id holds the horizon as a snapshot does.
_SNAPSHOT: Final = """
(select 'problem',
        format('process %%s (%%s, %%s)', a.pid, a.usename, nullif(a.application_name, '')),
        format('holds the oldest snapshot since %%s, %%s: %%s',
               date_trunc('second', a.xact_start), a.state, left(a.query, 60)),
        format('select pg_terminate_backend(%%s); set idle_in_transaction_session_timeout, and '
               'claim, work and ack in short transactions', a.pid)
   from pg_stat_activity a
  where a.datname = current_database() and a.pid <> pg_backend_pid()
    and coalesce(a.backend_xmin, a.backend_xid) is not null
    and a.xact_start < clock_timestamp() - %(snapshot_age)s::interval
  order by age(coalesce(a.backend_xmin, a.backend_xid)) desc, a.xact_start
  limit 3)
union all
select 'problem', format('prepared transaction %%s (%%s)', p.gid, p.owner),
       format('holds back vacuum since %%s', date_trunc('second', p.prepared)),
       format('commit prepared %%1$L, or rollback prepared %%1$L', p.gid)
  from pg_prepared_xacts p
 where p.database = current_database()
   and p.prepared < clock_timestamp() - %(snapshot_age)s::interval
union all
select 'problem', format('replication slot %%s', s.slot_name),
       'nobody uses it, and it holds back vacuum',
       format('select pg_drop_replication_slot(%%L)', s.slot_name)
  from pg_replication_slots s
 where coalesce(s.xmin, s.catalog_xmin) is not null and not s.active
union all
select 'unknown', 'sessions of other roles', 'they cannot be seen',
       format('grant pg_read_all_stats to %%I', current_user)
 where not pg_has_role('pg_read_all_stats', 'usage')
"""

# Without acknowledgements in the journal only the age of what waits can tell.
_GROWTH: Final = """
select 'problem', format('queue %%s', s.queue),
       format('%%s messages are ready, the oldest since %%s; per second %%s came and %%s were '
              'acknowledged', s.ready, date_trunc('second', s.oldest_age),
              round(s.published_per_second::numeric, 1), round(s.acked_per_second::numeric, 1)),
       case when s.paused then format('pgq resume %%s', s.queue)
            else 'more consumers, larger batches, or does a filter leave messages to nobody?' end
  from pgq.queue_stats s
  join pgq.queue q on q.name = s.queue
 where s.mode = 'queue' and s.ready >= 1000
   and case when q.journal = 'all' then s.published_per_second > s.acked_per_second
            else s.oldest_age > interval '5 min' end
"""

_LANES: Final = """
select 'problem', format('queue %%s', q.name),
       format('%%s values of %%s have a lane each%%s', count(*), array_to_string(q.lane_keys, ', '),
              case when q.lanes_full
                   then '; that is the most, and further values share one' else '' end),
       format('choose keys with few values: select pgq.alter_queue(%%L, lane_keys => ''{...}'')',
              q.name)
  from pgq.queue q
  join pgq.lane l on l.queue_id = q.queue_id
 where l.idle is null or l.idle = '0'
 group by q.queue_id
having q.lanes_full or count(*) >= 500
"""

_LEASES: Final = """
select 'problem', format('queue %%s', q.name),
       format('%%s messages came back in the last 15 min because the lease of %%s ended; last '
              'held by %%s', sum(j.size), q.lease, (array_agg(j.holder order by j.at desc))[1]),
       format('do workers die? Else: select pgq.alter_queue(%%L, lease => %%L), smaller batches, '
              'or extend', q.name, 4 * q.lease)
  from pgq._journal_tail() j
  join pgq.queue q on q.queue_id = j.queue_id
 where j.event = 'timeout' and j.at > pgq.now() - interval '15 min'
 group by q.queue_id
union all
select 'problem', format('queue %%s', q.name),
       format('%%s leases ended at %%s or later, and nobody has taken their messages back',
              count(*), date_trunc('second', min(l.until))),
       'pgq maintain; does any consumer run?'
  from pgq.lease l
  join pgq.queue q on q.queue_id = l.queue_id
 where l.until < pgq.now() - interval '1 min'
 group by q.queue_id
"""

_ERAS: Final = """
with policy as (
    select span + greatest(span / 10, interval '10 min') as patience
      from (select coalesce(max(q.retention), interval '1 day') as span from pgq.queue q) s
), cure (text) as (
    values ('pgq maintain, about every minute; it says why if it cannot; a long transaction that '
            'reads the log is in the way')
)
select 'problem', format('era %%s', e.number),
       format('it began at %%s and should have ended: the log grows',
              date_trunc('second', e.started_at)), c.text
  from pgq.era e, policy p, cure c
 where e.number = (select s.last_value from pgq.era_number s)
   and e.started_at + p.patience < pgq.now()
   and exists (select from pgq.message m where m.era = e.slot)
union all
select 'problem', format('era %%s', e.number),
       format('it ended at %%s and its messages are still there',
              date_trunc('second', n.started_at)), c.text
  from pgq.era e
  join pgq.era n on n.number = e.number + 1, policy p, cure c
 where e.emptied_at is null and n.started_at + p.patience < pgq.now()
union all
select 'problem', 'the log', 'no era has begun: there were neither claims nor upkeep', c.text
  from policy p, cure c
 where not exists (select from pgq.era)
   and (select m.published_at from pgq.message m order by m.id limit 1) + p.patience < pgq.now()
"""

_AUTOVACUUM: Final = """
select 'problem', format('setting %%s', s.name), 'it is off: tables and indexes grow',
       format('alter system set %%I = on; select pg_reload_conf()', s.name)
  from pg_settings s
 where s.name in ('autovacuum', 'track_counts') and s.setting = 'off'
union all
select 'problem', format('table %%s', c.oid::regclass), 'autovacuum is off for it',
       format('alter table %%s reset (autovacuum_enabled)', c.oid::regclass)
  from pg_class c
 where c.relnamespace = 'pgq'::regnamespace
   and exists (select from unnest(c.reloptions) o
               where o ~* '^autovacuum_enabled=(f|n|0|of)')
"""

# Whoever may call a part of what publishers or consumers need lacks the rest.
_GRANTS: Final = """
with work (kind, names) as (
    values ('publish', '{publish,publish_batch}'::text[]),
           ('consume', '{claim,peek,leased,ack,nack,bury,release,extend,'
                       'wait_begin,wait_end,signal}')
), role as (
    select r.rolname from pg_roles r where r.rolname = coalesce(%(role)s::text, current_user)
    union
    select r.rolname
      from pg_namespace n, aclexplode(n.nspacl) a
      join pg_roles r on r.oid = a.grantee
     where n.nspname = 'pgq' and %(role)s::text is null
       and r.rolname <> 'pg_monitor'  -- it looks at metrics, and nothing else
), held as (
    select r.rolname, w.kind, p.oid, n.oid as schema,
           has_function_privilege(r.rolname, p.oid, 'execute') as granted
      from role r, work w, pg_namespace n, pg_proc p
     where n.nspname = 'pgq' and p.pronamespace = n.oid and p.proname = any (w.names)
), lacking as (
    select h.rolname, h.kind, bool_or(h.granted) as some,
           array_agg(h.oid::regprocedure::text order by h.oid) filter (where not h.granted) as list
      from held h group by 1, 2
)
select 'problem', format('role %%s', r.rolname), 'it may not use the schema pgq',
       format('select pgq.grant_queue(%%L, %%L, %%L)', 'QUEUE', r.rolname, 'consume')
  from role r, pg_namespace n
 where n.nspname = 'pgq' and not has_schema_privilege(r.rolname, n.oid, 'usage')
union all
select 'problem', format('role %%s', l.rolname),
       format('to %%s it lacks %%s functions: %%s', l.kind, cardinality(l.list),
              array_to_string(l.list, ', ')),
       format('select pgq.grant_queue(%%L, %%L, %%L)', 'QUEUE', l.rolname, l.kind)
  from lacking l
 where l.list is not null
   and (l.some or %(role)s::text is not null
        or not exists (select from lacking o where o.rolname = l.rolname and o.some))
union all
select 'problem', format('role %%s', %(role)s::text), 'there is no such role',
       format('create role %%I', %(role)s::text)
 where %(role)s::text is not null and not exists (select from role)
"""

_RELAYS: Final = """
select 'problem', format('relay %%s of queue %%s', r.relay, r.queue),
       format('it was not heard of lately, and has not said that it ends (%%s)', r.destination),
       format('start it again; if it is not to come back: select pgq.relay_report(%%L, %%L)',
              r.queue, r.relay)
  from pgq.relays r
 where not coalesce(r.alive, false)
union all
select 'problem', format('relay %%s of queue %%s', r.relay, r.queue),
       format('%%s fails since %%s: %%s', r.destination, date_trunc('second', r.changed_at),
              left(r.error, 200)),
       'its messages wait; the relay goes on when the destination answers'
  from pgq.relays r
 where r.alive and r.circuit <> 'closed'
"""

_STATE: Final = """
select 'problem', format('queue %%s', c.queue_id), concat_ws(': ', c.problem, c.detail),
       'this is a defect of pgq: please report it'
  from pgq."check"() c
"""

CHECKS: Final = (
    Check("version", "client and database have the same version", _VERSION),
    Check("snapshot", "nobody holds an old snapshot", _SNAPSHOT),
    Check("growth", "no queue is growing", _GROWTH),
    Check("relays", "every relay lives, and its destination answers", _RELAYS),
    Check("lanes", "no queue has too many lanes", _LANES),
    Check("leases", "messages are done before their lease ends", _LEASES),
    Check("eras", "the log is emptied as it should be", _ERAS),
    Check("autovacuum", "autovacuum is on", _AUTOVACUUM),
    Check("grants", "roles have the rights that they need", _GRANTS),
)
DEEP: Final = Check("state", "the stored state is sound", _STATE)
