-- What a filter means for a queue, in rows for a person.
create or replace function pgq.explain_filter(
    topic text, filter jsonb, caller pgq.caller default current_user
) returns table (item text, value text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', explain_filter.topic);
    v_filter pgq.filter := pgq._find_filter(
        coalesce(explain_filter.filter, '{}'), v_queue.lane_keys);
    v_kept record := pgq._keep_lanes(v_queue, v_filter);
    v_all int;
    v_fields text[];
    v_testing bigint;
    v_sure bigint;
    v_tested bigint;
    v_matched bigint;
    v_more boolean;
begin
    return query values
        ('filter', v_filter.document::text),
        ('compiled', v_filter.path::text),
        ('looks at', v_filter.scope);

    select count(*)::int into v_all from pgq.lane l where l.queue_id = v_queue.queue_id;
    if v_queue.lane_keys is null then
        return query values ('lanes', 'the queue has no lane keys');
    else
        return query values
            ('lane keys', array_to_string(v_queue.lane_keys, ', ')),
            ('lane test', v_filter.lane_path::text),
            ('lanes kept', format('%s of %s', cardinality(v_kept.lanes), v_all));
        return query
            select 'kept', coalesce(l.headers::text, 'mixed values')
            from pgq.lane l where l.lane_id = any (v_kept.lanes) order by l.lane_id limit 20;
        return query
            select 'pruned', l.headers::text
            from pgq.lane l
            where l.queue_id = v_queue.queue_id and l.lane_id <> all (v_kept.lanes)
            order by l.lane_id limit 20;
    end if;
    return query values ('final', case
        when v_filter.lane_final then 'yes: the lane keys decide, no message is tested'
        else 'no: messages of the kept lanes are tested one by one' end);

    -- A sample of what a claim would look at: as many as can be tested in some milliseconds.
    select coalesce(sum(p.size) filter (where p.lane_id = any (v_kept.sure)), 0),
           coalesce(sum(p.size), 0),
           count(*) >= 1000
    into v_sure, v_testing, v_more
    from pgq._peek_rows(v_queue.queue_id, v_kept.lanes, v_kept.by_lane, null,
                        -9223372036854775808, null, 10000) p;
    select count(*), count(*) filter (where pgq._test_filter(
               v_filter.path, v_filter.scope, m.headers, m.payload, m.topic, m.priority, m.sender,
               m.recipient, m.reply_to, m.correlation_id, m.group_key, m.attempt + 1,
               m.published_at, m.expires_at, m.id, pgq.now()))
    into v_tested, v_matched
    from (
        select e.*, p.attempt
        from pgq._peek_rows(v_queue.queue_id, v_kept.lanes, v_kept.by_lane, null,
                            -9223372036854775808, null, 10000) p
        cross join unnest(p.ids) r
        join pgq.message e on e.id >= lower(r) and e.id < upper(r)
        limit 10000
    ) m;
    v_more := v_more or v_tested < v_testing or v_testing >= 10000;
    return query values
        ('matches now', case when v_more then format('%s of the first %s', v_matched, v_tested)
                             else v_matched::text end),
        ('estimated cost', case
            when v_filter.lane_final and v_sure = v_testing then 'as a claim without a filter'
            when v_matched = 0 then format('tests %s messages to find nothing, once; then only '
                'what is new', case when v_more then 'all ' else v_tested::text end)
            else format('tests about %s messages for each match',
                        ceil(v_tested::numeric / v_matched)) end);

    select array_agg(distinct n.key) into v_fields
    from jsonb_path_query(pgq._filter_parse(v_filter.document),
                          '$.**.path[0]') f
    cross join lateral (select f #>> '{}' as key) n
    where n.key ~ '^[a-zA-Z][a-zA-Z0-9_-]{0,127}$'
      and (v_queue.lane_keys is null or n.key <> all (v_queue.lane_keys));
    return query values ('advice', case
        when v_filter.path::text in ('true', '(true)') or v_filter.document = '{}' then
            'none: the filter selects everything'
        when v_filter.lane_final and not v_queue.unlaned_rows then
            'none: the lanes answer this filter'
        when v_queue.unlaned_rows then
            'call pgq.maintain(): messages from before the queue had lane keys are still unsorted'
        when v_tested > 0 and v_matched * 2 > v_tested then
            'none: most messages match, testing them is cheap'
        when v_filter.scope = 'headers' and v_fields is not null then format(
            'if one of %s has few values, make it a lane key with pgq.alter_queue(%L, '
            'lane_keys => ...); or give the filter a queue of its own with pgq.subscribe',
            array_to_string(v_fields, ', '), v_queue.name)
        else 'give the filter a queue of its own with pgq.subscribe(name, pattern, filter): it is '
            'then evaluated once, when a message is published'
        end);
end
$$;
comment on function pgq.explain_filter(text, jsonb, pgq.caller) is
    'What a filter means for a queue: its compiled form, the lanes kept and pruned, whether '
    'messages '
    'are tested one by one, how many match now, what a claim costs, and what to do about it.';
revoke all on function pgq.explain_filter(text, jsonb, pgq.caller) from public;
