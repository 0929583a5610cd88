-- Raises the error for bad arguments of publish or publish_batch.
create or replace function pgq._refuse_publish(
    topic text, payloads jsonb[], priority int, delay interval,
    deliver_at timestamptz default null
) returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if topic is null then
        perform pgq._check_topic(topic);
    elsif array_position(payloads, null) is not null then
        raise exception 'a message needs a payload'
            using errcode = 'null_value_not_allowed',
                  hint = 'For a message without content use ''null''::jsonb or ''{}''.';
    elsif priority is null or priority not between -1000 and 1000 then
        raise exception 'priority % is out of range', coalesce(priority::text, 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'Use -1000 to 1000; higher is delivered first, 0 is usual.';
    elsif delay < interval '0' then
        raise exception 'delay must not be negative'
            using errcode = 'invalid_parameter_value',
                  hint = 'Leave it out to deliver at once.';
    elsif num_nonnulls(delay, deliver_at) = 2 then
        raise exception 'a message has a delay or a deliver_at, not both'
            using errcode = 'invalid_parameter_value',
                  hint = 'delay counts from now, deliver_at is a point in time.';
    else
        raise exception 'expires_in must be longer than zero'
            using errcode = 'invalid_parameter_value',
                  hint = 'Leave it out for a message that does not expire.';
    end if;
end
$$;
comment on function pgq._refuse_publish(text, jsonb[], int, interval, timestamptz) is
    'Raises the error for bad arguments of publish.';
