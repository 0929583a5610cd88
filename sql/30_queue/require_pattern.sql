-- Raises 42501 unless the caller, who is not the owner, administers a queue that receives every
-- message of the pattern. A subscription must not extend the rights of a role: neither to messages
-- to read nor to topics to publish to.
create or replace function pgq._require_pattern(caller name, pattern text, regex text)
returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (
        select from pgq.queue_right r
        join pgq.binding b on b.queue_id = r.queue_id
        where r.right = 'admin' and pg_has_role(_require_pattern.caller, r.role, 'usage')
          and b.path is null
          and (b.pattern = _require_pattern.pattern
               or (_require_pattern.regex is null and _require_pattern.pattern ~ b.regex)))
    then
        raise exception 'permission denied for topic "%"', pattern
            using errcode = 'insufficient_privilege',
                  hint = 'You can subscribe to what a queue that you administer receives without '
                      'a filter; the owner of pgq can subscribe your queue to anything.';
    end if;
end
$$;
comment on function pgq._require_pattern(name, text, text) is
    'Raises 42501 unless the caller administers a queue that receives all topics of the pattern.';
