-- Explains a filter for a queue, in readable rows.
create or replace function pgq.explain_filter(
    queue text, filter jsonb, caller pgq.caller default current_user
) returns table (item text, value text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', explain_filter.queue);
    v_filter pgq.filter := pgq._find_filter(
        coalesce(explain_filter.filter, '{}'), v_queue.lane_keys);
    v_tree jsonb := pgq._filter_parse(v_filter.document);
    v_kept pgq._lanes := pgq._keep_lanes(v_queue, v_filter);
    v_all int;
    v_fields text[];
    v_testing bigint;
    v_sure bigint;
    v_tested bigint;
    v_matched bigint;
    v_more boolean;
    v_hints text[];
begin
    return query values
        ('filter', v_filter.document::text),
        ('compiled', v_filter.path::text),
        ('looks at', split_part(v_filter.scope, E'\n', 1));

    select count(*)::int into v_all from pgq.lane l where l.queue_id = v_queue.queue_id;
    if v_queue.lane_keys is null then
        return query values ('lanes', 'the queue has no lane keys');
    else
        return query values
            ('lane keys', array_to_string(v_queue.lane_keys, ', ')),
            ('lane test', v_filter.lane_path::text),
            ('lanes kept', format('%s of %s', cardinality(v_kept.kept), v_all)
                || case when v_kept.hashes is null then ''
                   else format(', by %s hashes', cardinality(v_kept.hashes)) end);
        return query
            select 'kept', coalesce(pgq._lane_text(l), 'mixed values')
            from pgq.lane l where l.lane_id = any (v_kept.kept) order by l.lane_id limit 20;
        return query
            select 'pruned', pgq._lane_text(l)
            from pgq.lane l
            where l.queue_id = v_queue.queue_id and l.lane_id <> all (v_kept.kept)
            order by l.lane_id limit 20;
    end if;
    return query
        select 'lane choice', format('%s %s, because %s', c.key, case when c.used
            then 'added' else 'dropped' end, c.reason)
        from pgq.lane_choice c where c.queue_id = v_queue.queue_id and v_queue.auto_lanes
        order by c.chosen_at, c.key;
    return query values ('final', case
        when v_filter.lane_final then 'yes: the lane keys decide, no message is tested'
        else 'no: messages of the kept lanes are tested one by one' end);

    -- A sample of the messages that a claim would test: as many as take some milliseconds.
    select coalesce(sum(p.size) filter (where p.lane_id = any (v_kept.sure)), 0),
           coalesce(sum(p.size), 0),
           count(*) >= 1000
    into v_sure, v_testing, v_more
    from pgq._peek_rows(v_queue.queue_id, v_kept, pgq._rank_first(), 10000) p;
    select count(*), count(*) filter (where pgq._test_filter(
               v_filter.path, v_filter.scope, m.headers, m.payload, m.topic, m.priority, m.sender,
               m.recipient, m.reply_to, m.correlation_id, m.group_key, m.attempt + 1,
               m.published_at, m.expires_at, m.id, pgq.now()))
    into v_tested, v_matched
    from (
        select e.*, p.attempt
        from pgq._peek_rows(v_queue.queue_id, v_kept, pgq._rank_first(), 10000) p
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
                'what is new', case when v_more then 'all' else v_tested::text end)
            else format('tests about %s messages for each match',
                        ceil(v_tested::numeric / v_matched)) end);

    if v_matched = 0 then
        v_hints := array(select h from pgq._explain_values(v_queue, v_tree) h);
        return query select 'hint', h from unnest(v_hints) h;
    end if;
    v_fields := array(
        select f from pgq._filter_fields(v_tree) f
        where f <> all (coalesce(v_queue.lane_keys, '{}'))
          and '#' || f <> all (coalesce(v_queue.lane_keys, '{}')) order by 1);
    return query values ('advice', case
        when v_filter.path::text in ('true', '(true)') or v_filter.document = '{}' then
            'none: the filter selects everything'
        when v_hints <> '{}' then 'correct the filter first: see the hint'
        when v_filter.lane_final and not v_queue.unlaned_rows then
            'none: the lanes answer this filter'
        when v_queue.unlaned_rows then
            'call pgq.maintain(): messages from before the queue had lane keys are still unsorted'
        when v_tested > 0 and v_matched * 2 > v_tested then
            'none: most messages match, testing them is cheap'
        when v_kept.hashes is not null and v_kept.by_lane then
            'none: a hash leads to the messages, only those are tested'
        when v_fields <> '{}' and v_queue.auto_lanes then
            'none: the queue makes a lane key of what filters test much'
        when v_fields <> '{}' and coalesce(cardinality(v_queue.lane_keys), 0) < 4 then format(
            'make %s a lane key: pgq.alter_queue(%L, lane_keys => %L), or let the queue choose '
            'with ''{auto}''; or give the filter a queue of its own with pgq.subscribe',
            case when cardinality(v_fields) = 1 then v_fields[1]
                 else 'one of ' || array_to_string(v_fields, ', ') end,
            v_queue.name, v_queue.lane_keys || v_fields[1])
        else 'give the filter a queue of its own with pgq.subscribe(queue, pattern, filter): it is '
            'then evaluated once, when a message is published'
        end);
end
$$;
comment on function pgq.explain_filter(text, jsonb, pgq.caller) is
    'Explains a filter for a queue: its compiled form, the lanes kept and pruned, whether '
    'messages are tested one by one, how many match now, the cost of a claim, advice, and fields '
    'or values that no recent message has.';
