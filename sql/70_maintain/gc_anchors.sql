-- Creates the anchors that a restored dump does not have. Until then these filters are tested on
-- every message.
create or replace function pgq._gc_anchors(most int) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_binding pgq.binding;
    v_count int := 0;
begin
    for v_binding in
        select b.* from pgq.binding b
        where b.anchors > 0
          and not exists (select from pgq.anchor a where a.binding_id = b.binding_id)
        order by b.binding_id limit most for update skip locked
    loop
        begin
            perform pgq._set_anchors(v_binding);
        exception
            when sqlstate 'QU004' then
                -- a filter from a version with other limits
                update pgq.binding b set anchors = 0 where b.binding_id = v_binding.binding_id;
        end;
        v_count := v_count + 1;
    end loop;
    if v_count > 0 then
        perform pgq._rerouted();
    end if;
    return v_count;
end
$$;
comment on function pgq._gc_anchors(int) is 'Creates anchors that a restored dump does not have.';
