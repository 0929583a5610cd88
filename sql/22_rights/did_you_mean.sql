-- The beginning of a hint: a queue with a similar name, or a topic that a queue receives. Only of
-- queues that the caller has a right to: a hint must not reveal others. '' if there is none, or if
-- the caller is not known. Called when an error is certain.
create or replace function pgq._did_you_mean(
    caller name, name text, topic boolean default false
) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_owner boolean := pgq._is_owner(caller);
    v_near text;
begin
    select n.name into v_near
    from (
        select q.name, q.queue_id from pgq.queue q where not _did_you_mean.topic
        union all
        select b.pattern, b.queue_id from pgq.binding b
        where _did_you_mean.topic and b.regex is null
    ) n
    where n.name <> _did_you_mean.name and pgq._is_near(n.name, _did_you_mean.name)
      and (v_owner or exists (
          select from pgq.queue_right r
          where r.queue_id = n.queue_id and pg_has_role(_did_you_mean.caller, r.role, 'usage')))
    order by abs(length(n.name) - length(_did_you_mean.name)), n.name limit 1;
    return coalesce('Did you mean "' || v_near || '"? ', '');
end
$$;
comment on function pgq._did_you_mean(name, text, boolean) is
    'The beginning of a hint: a queue or topic with a similar name that the caller may see.';
