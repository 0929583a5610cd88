-- Lets claims of one name wait for each other. A row that is inserted and deleted by a transaction
-- keeps others from inserting it until that has ended, and nothing is left to be tidied up.
create or replace function pgq._take_name(queue_id int, key text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_what text := format('key %s %s', queue_id, hashtextextended(key, 0));
begin
    insert into pgq.mutex (what) values (v_what) on conflict on constraint mutex_pkey do nothing;
    delete from pgq.mutex t where t.what = v_what;
end
$$;
comment on function pgq._take_name(int, text) is 'Lets claims of one name wait for each other.';
