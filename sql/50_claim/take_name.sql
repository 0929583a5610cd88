-- Serializes claims of one name. A row that a transaction inserts and deletes keeps others from
-- inserting it until the transaction ends, and no row is left to be removed.
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
comment on function pgq._take_name(int, text) is 'Serializes claims of one name.';
