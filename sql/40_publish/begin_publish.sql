-- Transaction ids show who may still publish into a closed era, or into a queue that has changed.
-- So an INSERT needs one before it reads the era and the route.
create or replace function pgq._begin_publish() returns trigger
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pg_current_xact_id();
    return null;
end
$$;
comment on function pgq._begin_publish() is
    'Assigns a transaction id before routes are read.';

create or replace trigger begin_publish before insert on pgq.message
    for each statement execute function pgq._begin_publish();
-- Also under session_replication_role = replica, which loaders set: else nothing would be routed.
alter table pgq.message enable always trigger begin_publish;
comment on trigger begin_publish on pgq.message is 'Assigns a transaction id first.';
