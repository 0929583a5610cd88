-- Checks the arguments of a claim that are not the most common ones.
create or replace function pgq._check_claim(
    caller name, topic text, n int, lease interval, done bigint
) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_owner boolean := pgq._is_owner(caller);
begin
    if not v_owner then
        perform pgq._require(caller, 'consume', topic);
        if done is not null then
            perform pgq._require_lease(caller, done);
        end if;
    end if;
    perform pgq._queue(topic, v_owner);  -- QU001 comes before the errors below
    if n is null or n not between 1 and 1000000 then
        raise exception 'n must be between 1 and 1000000, not %', coalesce(n::text, 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'n is the most messages that one claim takes.';
    end if;
    if lease <= interval '0' then
        raise exception 'lease must be longer than zero'
            using errcode = 'invalid_parameter_value',
                  hint = 'Leave it out to use the queue''s lease.';
    end if;
end
$$;
comment on function pgq._check_claim(name, text, int, interval, bigint) is
    'Checks the rights and the arguments of a claim.';
