-- The ids without those that the queue has had; had and queues are parallel arrays.
create or replace function pgq._without(
    ids bigint[], had bigint[], queues int[], queue_id int
) returns bigint[]
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return array(
        select unnest(ids)
        except
        select u.id from unnest(had, queues) u (id, queue_id)
        where u.queue_id = _without.queue_id
        order by 1);
end
$$;
comment on function pgq._without(bigint[], bigint[], int[], int) is
    'The ids without those that the queue has had.';
