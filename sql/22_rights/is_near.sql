-- Whether two names are similar: they differ only in case, in _ or -, or in one letter.
create or replace function pgq._is_near(a text, b text) returns boolean
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_a text := translate(lower(a), '_- ', '');
    v_b text := translate(lower(b), '_- ', '');
begin
    if v_a = v_b then
        return true;
    elsif abs(length(v_a) - length(v_b)) > 1 or length(v_a) not between 3 and 64 then
        return false;
    end if;
    -- One letter added, removed, replaced or moved: equal after one letter of each is left out.
    return array(select overlay(v_a placing '' from i for 1)
                 from generate_series(1, length(v_a)) i) || v_a
        && (array(select overlay(v_b placing '' from i for 1)
                  from generate_series(1, length(v_b)) i) || v_b);
end
$$;
comment on function pgq._is_near(text, text) is 'Whether two names are similar.';
