-- Raises 42501 unless the caller may publish to all these topics. For the trigger, which runs with
-- the rights of whoever inserts, and so for everybody who may publish something.
create or replace function pgq._require_topics(
    topics text[], caller pgq.caller default current_user
) returns void
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not pgq._is_owner(caller) then
        perform pgq._require_topic(caller, t) from unnest(topics) t;
    end if;
end
$$;
comment on function pgq._require_topics(text[], pgq.caller) is
    'Raises 42501 unless the caller may publish to all these topics.';
revoke all on function pgq._require_topics(text[], pgq.caller) from public;
