-- Ranges of ids that cut a lease into parts of one size, for parallel readers.
create or replace function pgq.lease_parts(
    lease_id bigint, n int default 1, caller pgq.caller default current_user)
returns table (low bigint, high bigint, size bigint, attempt int, grouped boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_size bigint;
    v_attempt int;
    v_grouped boolean;
    v_parts bigint;
begin
    if not pgq._is_owner(caller) then
        perform pgq._require_lease(caller, lease_parts.lease_id);
    end if;
    if lease_parts.n is null or lease_parts.n < 1 then
        raise exception 'there must be at least one part'
            using errcode = 'invalid_parameter_value',
                  hint = 'About as many as there are readers is a good number.';
    end if;
    -- Locks the log until the transaction ends: a statement after this one has a newer snapshot,
    -- and finds the messages that were copied forward out of a truncated era.
    lock table pgq.message in access share mode;
    select sum(l.size), case when min(l.attempt) = max(l.attempt) then min(l.attempt) end,
           bool_or(l.grouped)
    into v_size, v_attempt, v_grouped
    from pgq.lease l where l.lease_id = lease_parts.lease_id;
    if v_size is null then
        perform pgq._lose_lease(lease_parts.lease_id);
    end if;
    v_parts := least(lease_parts.n, v_size);
    return query
        with run as (
            select lower(r) as low, upper(r) as high,
                   (sum(upper(r) - lower(r)) over (order by lower(r)))::bigint as after
            from pgq.lease l cross join lateral unnest(l.ids) r
            where l.lease_id = lease_parts.lease_id
        ),
        -- Part i begins with the message that has v_size * i / v_parts others before it.
        edge as (
            select v_size * i / v_parts as place, u.high + v_size * i / v_parts - u.after as id
            from run u
            cross join lateral generate_series(
                ((u.after - u.high + u.low) * v_parts + v_size - 1) / v_size,
                (u.after * v_parts + v_size - 1) / v_size - 1) i
        )
        select e.id,
               coalesce(lead(e.id) over (order by e.id), (select max(u.high) from run u)),
               coalesce(lead(e.place) over (order by e.id), v_size) - e.place,
               v_attempt, v_grouped
        from edge e order by e.id;
end
$$;
comment on function pgq.lease_parts(bigint, int, pgq.caller) is
    'Divides a lease into at most n parts of about the same size, for parallel readers of '
    'pgq.leased_message. A part is a range of ids from low (inclusive) to high (exclusive), with '
    'the number of messages of the lease in it. attempt: that of all messages; null if they '
    'differ. grouped = false: no message has a group key. Call it at the beginning of a READ '
    'COMMITTED transaction: it keeps the messages readable until the transaction ends.';
