-- Who may consume a queue may look at its dead letters. Functions of pgq run as the table's owner,
-- for whom there is no row security.
alter table pgq.dead_letter enable row level security;

do $$
begin
    if not exists (select from pg_catalog.pg_policy
                   where polrelid = 'pgq.dead_letter'::regclass and polname = 'consumer')
    then
        create policy consumer on pgq.dead_letter for select
            using (queue_id in (select v.queue_id from pgq._visible_queue v));
    end if;
end
$$;
comment on policy consumer on pgq.dead_letter is 'Dead letters of queues that one may consume.';
