-- Locates all messages up to an id: in archived copies of eras, or in the live log.
create or replace function pgq.log_parts(
    high bigint, topic text default null, caller pgq.caller default current_user
) returns table (era bigint, path text, started_at timestamptz, messages bigint, low bigint,
                 up_to bigint, ids int8multirange)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
    v_archived bigint := (select max(e.high) from pgq.archive_era e);
    v_live int8multirange;
begin
    if not pgq._is_owner(caller) then
        perform pgq._require(caller, 'consume', log_parts.topic);
    end if;
    -- Small ids in the live log: messages that were copied forward, committed late, or replayed.
    select coalesce(range_agg(int8range(m.id, m.id + 1)), '{}') into v_live
    from pgq.message m
    where m.id <= v_archived
      and m.era <> all (array(select e.slot from pgq.era e
                              where e.archived_at is not null and e.emptied_at is null));
    return query
        select e.era, e.path, e.started_at, e.messages, e.low, least(e.high, log_parts.high),
               -- A message that is in several places is read from the last one.
               int8multirange(int8range(e.low, e.high + 1)) * (v_live + coalesce((
                   select range_agg(o.old) from pgq.archive_era o
                   where o.era > e.era and o.old <> '{}' and o.old && int8range(e.low, e.high + 1)
               ), '{}'))
        from pgq.archive_era e
        where e.low is not null and e.low <= log_parts.high
        union all
        -- Eras that were truncated without a copy, after the archive had begun.
        select n, null, null, null, null, null, null
        from generate_series(
            (select min(e.era) from pgq.archive_era e),
            (select min(e.number) from pgq.era e
             where e.emptied_at is null and e.archived_at is null) - 1) n
        where not exists (select from pgq.archive_era e where e.era = n)
        order by 1;
    return query
        select null::bigint, null::text, null::timestamptz, null::bigint,
               coalesce(v_archived, 0) + 1, log_parts.high, v_live;
end
$$;
comment on function pgq.log_parts(bigint, text, pgq.caller) is
    'The locations of all messages with ids up to high, in one snapshot. A row for the copy of '
    'each era: read all messages of the copy except those in ids, which are also in a later '
    'location. The last row, without an era, is the live log: read the messages from low on, and '
    'the messages with smaller ids that are in ids. A row with an era and no low is an era that '
    'was truncated before it was copied. If high comes from pgq.log_range and the publishing '
    'transactions have ended, this returns every message once.';
