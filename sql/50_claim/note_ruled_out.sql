-- Records that the lanes rule out every match of a filter, for pgq.filter_stats and pgq.findings():
-- at most once in five minutes, because such a claim should cost next to nothing. The time is
-- stored with the filter's scan cursor, which stays as it is.
create or replace function pgq._note_ruled_out(queue_id int, filter_id bigint, now timestamptz)
returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_old record;
begin
    select s.ctid as place, s.noted_at into v_old from pgq.filter_scan s
    where s.filter_id = _note_ruled_out.filter_id and s.queue_id = _note_ruled_out.queue_id
    order by s.noted_at desc limit 1;
    if filter_id is null or v_old.noted_at > now - interval '5 min' then
        return;
    end if;
    if v_old.place is null then
        insert into pgq.filter_scan (filter_id, queue_id, low, noted_at)
        values (_note_ruled_out.filter_id, _note_ruled_out.queue_id,
                jsonb_populate_record(null::pgq._low, '{}'), now);
    else
        update pgq.filter_scan s set noted_at = now
        where s.ctid = (select o.ctid from pgq.filter_scan o
                        where o.ctid = v_old.place for update skip locked);
    end if;
    insert into pgq.filter_hit (filter_id, queue_id, claims, tested, matched, used_at)
    values (_note_ruled_out.filter_id, _note_ruled_out.queue_id, 1, 0, 0, now);
end
$$;
comment on function pgq._note_ruled_out(int, bigint, timestamptz) is
    'Records that the lanes rule out every match of a filter.';
