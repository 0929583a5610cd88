-- Raises 42501 unless the caller, who is not the owner, may publish to a queue that receives the
-- topic, whatever its filter. The error is the same for a topic that the caller may not use and for
-- one that no queue receives.
create or replace function pgq._require_topic(caller name, topic text) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (
        select from pgq.binding b
        join pgq.queue_right r on r.queue_id = b.queue_id
        where b.pattern = _require_topic.topic and b.regex is null
          and r.right in ('publish', 'admin')
          and pg_has_role(_require_topic.caller, r.role, 'usage'))
    then
        return;
    end if;
    -- Tests only the patterns of queues that the caller may publish to.
    if exists (
        select from pgq.queue_right r
        join pgq.binding b on b.queue_id = r.queue_id
        where r.right in ('publish', 'admin')
          and pg_has_role(_require_topic.caller, r.role, 'usage')
          and _require_topic.topic ~ b.regex)
    then
        return;
    end if;
    raise exception 'permission denied for topic "%"', topic
        using errcode = 'insufficient_privilege',
              hint = pgq._did_you_mean(caller, topic, true)
                  || 'If a queue receives it, its owner can grant you the right: '
                  'pgq.grant_queue(queue, role, ''publish'').';
end
$$;
comment on function pgq._require_topic(name, text) is
    'Raises 42501 unless the caller may publish to a queue that receives the topic.';
