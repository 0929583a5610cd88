-- Routes the messages of an INSERT or COPY to the queues that receive them.
create or replace function pgq._route() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
-- @publisher
as $$
declare
    v_now timestamptz := pgq.now();
    v_batch record;
    v_duplicates bigint[] := '{}';
    v_had_ids bigint[];
    v_had_queues int[];
    v_topic record;
    v_grouped record;
    v_grouped_ids bigint[] := '{}';
    v_grouped_queues int[] := '{}';
begin
    select count(*) as size, min(n.id) as low, max(n.id) as high,
           array_agg(distinct n.era) as slots, min(n.publisher) as publisher,
           bool_or(n.dedup_key is not null) as keyed, bool_or(n.headers ? 'route') as suggested,
           min(n.priority) as priority,
           min(n.priority) = max(n.priority)
           and not bool_or(num_nonnulls(n.deliver_at, n.expires_at, n.group_key) > 0) as alike
    into v_batch
    from new_message n;
    if v_batch.size = 0 then
        return null;
    end if;
    -- Rights before the route: errors must not reveal which topics exist. A role that inserts
    -- directly is the publisher of all messages; here current_user is the owner.
    if v_batch.publisher = current_user or pgq._is_owner(v_batch.publisher) then
        perform pgq._check_ids(v_batch.low, v_batch.high, v_batch.slots);
    elsif v_batch.publisher is not null then
        perform pgq._require_topic(v_batch.publisher, t.topic)
        from (select distinct n.topic from new_message n) t;
    end if;
    if v_batch.slots <> array[pg_sequence_last_value('pgq.era_number') % 3]::smallint[] then
        perform pgq._copy_late(array(
            select n.id from new_message n
            where n.era <> pg_sequence_last_value('pgq.era_number') % 3));
    end if;
    perform pgq._refuse_message(n.priority, n.headers) from new_message n
    where n.priority not between -1000 and 1000 or jsonb_typeof(n.headers) <> 'object'
       or n.headers @? '$.*.type() ? (@ == "array" || @ == "object")';
    if current_setting('transaction_isolation') <> 'read committed' then
        perform pgq._refuse_old_routing();
    end if;
    if v_batch.keyed then
        select coalesce(array_agg(d.message_id) filter (where d.queue_id is null), '{}'),
               array_agg(d.message_id) filter (where d.queue_id is not null),
               array_agg(d.queue_id) filter (where d.queue_id is not null)
        into v_duplicates, v_had_ids, v_had_queues
        from pgq._duplicates(array(
            select n.id from new_message n
            where n.dedup_key is not null and n.deliver_at is distinct from 'infinity')) d;
    end if;

    for v_topic in
        -- A message with deliver_at = infinity is stored and never delivered.
        select n.topic as name, array_agg(n.id order by n.id) as ids from new_message n
        where n.deliver_at is distinct from 'infinity'
        group by 1 order by 1
    loop
        -- EXCEPT compares sets of ids: an array would be searched from its beginning for each row.
        if v_duplicates <> '{}' then
            v_topic.ids := array(
                select unnest(v_topic.ids) except select unnest(v_duplicates) order by 1);
            continue when v_topic.ids = '{}';
        end if;
        v_grouped := pgq._route_topic(
            v_topic.name, v_topic.ids, v_had_ids, v_had_queues, v_batch.keyed,
            case when v_batch.alike then v_batch.priority end,
            coalesce(v_batch.publisher = current_user, true), v_now);
        v_grouped_ids := v_grouped_ids || v_grouped.ids;
        v_grouped_queues := v_grouped_queues || v_grouped.queues;
    end loop;
    if v_grouped_ids <> '{}' then
        perform pgq._join_queues(v_grouped_queues, v_grouped_ids, v_now);
    end if;
    if v_batch.suggested then
        perform pgq._suggest(n.id, v_now) from new_message n
        where n.headers ? 'route' and n.deliver_at is distinct from 'infinity'
          and n.id <> all (v_duplicates);
    end if;
    return null;
end
$$;
comment on function pgq._route() is
    'Routes the messages of an INSERT or COPY to the queues that receive them.';

create or replace trigger route after insert on pgq.message
    referencing new table as new_message
    for each statement execute function pgq._route();
alter table pgq.message enable always trigger route;
comment on trigger route on pgq.message is 'Any INSERT or COPY is a publish.';
