-- The rows of pgq.anchor that stand for one choice of pgq._filter_anchors.
create or replace function pgq._anchor_rows(binding_id int, pattern text, choice jsonb)
returns setof pgq.anchor
language plpgsql stable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_row pgq.anchor;
    v_piece jsonb;
    v_value jsonb;
begin
    v_row.binding_id := binding_id;
    v_row.number := 0;
    for v_piece in select distinct jsonb_array_elements(choice) loop
        v_value := v_piece -> 'value';
        v_row.number := v_row.number + 1;
        v_row.scope := v_piece ->> 'in';
        v_row.path := array(select jsonb_array_elements_text(v_piece -> 'path'));
        v_row.kind := v_piece ->> 'kind';
        v_row.field := pgq._field_hash(
            pattern, v_row.scope, array_to_string(v_row.path, E'\n'));
        v_row.size := case v_row.kind when 'prefix' then length(v_value #>> '{}') end;
        v_row.place := case v_row.kind
            when 'equal' then jsonb_hash_extended(v_value, v_row.field)
            when 'prefix' then hashtextextended((v_value #>> '{}') collate "C", v_row.field)
            when 'there' then v_row.field # 1
            when 'missing' then v_row.field # 2
            when 'several' then v_row.field # 3 end;
        v_row.area := case v_row.kind
            when 'range' then pgq._area(v_row.field, false,
                coalesce(pgq._number_place((v_value ->> 0)::numeric), -1e100),
                coalesce(pgq._number_place((v_value ->> 1)::numeric), 1e100))
            when 'text range' then pgq._area(v_row.field, true,
                coalesce(pgq._text_place(v_value ->> 0), 0),
                coalesce(pgq._text_place(v_value ->> 1), 1e100)) end;
        return next v_row;
    end loop;
end
$$;
comment on function pgq._anchor_rows(int, text, jsonb) is
    'The rows of pgq.anchor for one choice of conditions.';
