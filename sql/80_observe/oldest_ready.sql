-- The lowest id of a ready message of a queue: the minimum over the first rows of all rank ranges,
-- by index.
create or replace function pgq._oldest_ready(queue_id int) returns bigint
language plpgsql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_after bigint := pgq._rank_first();
    v_rank bigint;
    v_oldest bigint;
begin
    loop
        select r.rank into v_rank from pgq.ready r
        where r.queue_id = _oldest_ready.queue_id and r.rank >= v_after order by r.rank limit 1;
        exit when not found;
        v_oldest := least(v_oldest, pgq._rank_id(v_rank));
        v_after := pgq._rank_of(pgq._rank_class(v_rank) + 1, 0);
    end loop;
    return v_oldest;
end
$$;
comment on function pgq._oldest_ready(int) is 'The lowest id of a ready message of a queue.';
