-- The last epoch that a writer has published. Checks that the caller may publish to the topic.
create or replace function pgq.writer_epoch(
    writer text, topic text default null, caller pgq.caller default current_user
) returns bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if topic is not null and not pgq._is_owner(caller) then
        perform pgq._require_topic(caller, topic);
    end if;
    if topic is not null and not exists (
        select from pgq.binding b
        where (b.regex is null and b.pattern = writer_epoch.topic) or writer_epoch.topic ~ b.regex)
    then
        raise exception 'no queue receives topic "%"', topic
            using errcode = 'QU005',
                  hint = pgq._did_you_mean(caller, topic, true)
                      || 'Create one with pgq.create_queue(queue) or '
                         'pgq.subscribe(queue, pattern).';
    end if;
    return (select w.epoch from pgq.writer w
            where w.writer = writer_epoch.writer
              and (w.role = caller or pgq._is_owner(caller)));
end
$$;
comment on function pgq.writer_epoch(text, text, pgq.caller) is
    'The last epoch that a writer of the caller has published with pgq.publish_staged; null: '
    'none. With a topic: QU005 if no queue receives the topic, 42501 if the caller may not '
    'publish to it.';
