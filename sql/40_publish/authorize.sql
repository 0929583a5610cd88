-- Who may INSERT here may not publish everything. With the rights of whoever inserts, because only
-- such a function knows who that is.
create or replace function pgq._authorize() returns trigger
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgq._require_topics(array(select distinct n.topic from new_message n));
    return null;
end
$$;
comment on function pgq._authorize() is 'Refuses messages of topics that their sender may not use.';
revoke all on function pgq._authorize() from public;

-- Fires before the trigger "route", which would tell who receives what: triggers go by name. Not
-- for the owner, and so not for the functions that publish: they have asked already. Who may
-- truncate the log is its owner.
create or replace trigger authorize after insert on pgq.message
    referencing new table as new_message
    for each statement when (has_table_privilege('pgq.message'::regclass, 'truncate') is not true)
    execute function pgq._authorize();
comment on trigger authorize on pgq.message is 'A publish needs a right to a queue.';
