-- Makes the anchors of a binding. It prefers values that the fewest other filters have as anchors:
-- a value that all filters test would find all of them.
create or replace function pgq._set_anchors(binding pgq.binding) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_most constant int := 1000;
    v_choice jsonb;
    v_count int := 0;
begin
    delete from pgq.anchor a where a.binding_id = binding.binding_id;
    if binding.filter is not null then
        select c.choice into v_choice
        from jsonb_array_elements(pgq._filter_anchors(pgq._filter_parse(binding.filter)))
            with ordinality as c (choice, position)
        cross join lateral (
            select sum(case
                       when r.kind = 'several' then 0
                       when r.area is not null then (
                           select count(*) from (
                               select from pgq.anchor a where a.area && r.area limit v_most) f)
                       when r.kind in ('there', 'missing') then (
                           select count(*) from (
                               select from pgq.anchor a where a.field = r.field limit v_most) f)
                       else (
                           select count(*) from (
                               select from pgq.anchor a where a.place = r.place limit v_most) f)
                       end) as others,
                   max(array_position('{equal,prefix,range,text range,there,missing}', r.kind))
                       as weakest
            from pgq._anchor_rows(null, binding.pattern, c.choice) r
        ) s
        order by s.others, s.weakest, c.position limit 1;
        insert into pgq.anchor
        select * from pgq._anchor_rows(binding.binding_id, binding.pattern, v_choice);
        get diagnostics v_count = row_count;
    end if;
    update pgq.binding b set anchors = v_count
    where b.binding_id = binding.binding_id and b.anchors <> v_count;
end
$$;
comment on function pgq._set_anchors(pgq.binding) is 'Makes the anchors of a binding.';
