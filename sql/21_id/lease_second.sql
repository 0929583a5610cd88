-- Tokens of leases. A token starts with the second in which its lease ends, so that the primary
-- index finds expired leases: 30 bits of seconds since 2025, 23 bits of a sequence, together exact
-- in a JavaScript number. The last 2^20 seconds of that range belong to leases without an end. From
-- 2058 on all tokens begin with the second before these; _lease_second_end is right also then.
create or replace function pgq._lease_second(moment timestamptz) returns bigint
language sql stable parallel safe
return least(greatest(floor(date_part('epoch', moment) - 1735689600), 0), 1072693247)::bigint << 23;
comment on function pgq._lease_second(timestamptz) is
    'The first lease token of the second of that moment.';

-- Leases that have ended by that moment have tokens below this one.
create or replace function pgq._lease_second_end(moment timestamptz) returns bigint
language sql stable parallel safe
return pgq._lease_second(moment) + (1::bigint << 23);
comment on function pgq._lease_second_end(timestamptz) is
    'The first lease token after the second of that moment.';

create or replace function pgq._lease_token(until timestamptz) returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lease_id bigint;
begin
    if until = 'infinity' then
        return (1072693248::bigint << 23) + nextval('pgq.endless_lease_id');
    end if;
    -- The sequence starts again after 2 million claims: skip numbers that are still in use.
    loop
        v_lease_id := pgq._lease_second(until) + nextval('pgq.checked_lease_id');
        exit when not exists (select from pgq.lease l where l.lease_id = v_lease_id);
    end loop;
    return v_lease_id;
end
$$;
comment on function pgq._lease_token(timestamptz) is
    'A new token, for a lease that lasts until the given time.';

-- A token for a lease of one row. The sequence starts again after 6 million claims. A lease of a
-- minute ends before that, so it needs no lookup; a longer one gets a number that is looked up. The
-- planner inlines it.
create or replace function pgq._row_token(now timestamptz, until timestamptz) returns bigint
language sql volatile
return case when until <= now + interval '1 min'
       then pgq._lease_second(until) + nextval('pgq.lease_id')
       else pgq._lease_token(until) end;
comment on function pgq._row_token(timestamptz, timestamptz) is
    'A new token, for a lease of one row that lasts until the given time.';
