-- At most one WARNING a minute in a session, for a filter that tests many messages without a match.
create or replace function pgq._warn_of_testing(queue pgq.queue, document jsonb, tested bigint)
returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_limit text := coalesce(nullif(current_setting('pgq.warn_after_tests', true), ''), '10000');
    v_minute text := floor(extract(epoch from pgq.now()) / 60)::text;
begin
    if v_limit !~ E'^\\d{1,18}$' or v_limit::bigint = 0 or tested < v_limit::bigint
       or current_setting('pgq.warned', true) = v_minute
    then
        return;
    end if;
    perform set_config('pgq.warned', v_minute, false);
    raise warning 'a claim on queue "%" tested % messages and none matches', queue.name, tested
        using detail = format('The filter is %s.', left(document::text, 500)),
              hint = format('select * from pgq.explain_filter(%L, filter) shows what to do. '
                  'Set pgq.warn_after_tests to 0 to turn this warning off.', queue.name);
end
$$;
comment on function pgq._warn_of_testing(pgq.queue, jsonb, bigint) is
    'Warns of a filter that tests many messages and finds nothing.';
