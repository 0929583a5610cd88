create or replace function pgmq._check_batch(msgs jsonb[], headers jsonb[]) returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(cardinality(msgs), 0) = 0 then
        raise exception 'a batch needs messages'
            using errcode = 'invalid_parameter_value', hint = 'Send at least one.';
    elsif cardinality(headers) <> cardinality(msgs) then
        raise exception '% headers for % messages', cardinality(headers), cardinality(msgs)
            using errcode = 'invalid_parameter_value',
                  hint = 'Use null for messages without headers.';
    end if;
end
$$;
comment on function pgmq._check_batch(jsonb[], jsonb[]) is
    'Raises 22023 unless there are messages, and headers for each or for none.';
