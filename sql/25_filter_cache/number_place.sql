-- A number as it is stored in an index: rounded, and kept in the range for which a box has a size.
create or replace function pgq._number_place(value numeric) returns float8
language sql immutable parallel safe
return case
    when value is null then null  -- least() and greatest() skip it
    when abs(value) < 1e-100 then 0
    else least(greatest(value, -1e100), 1e100)::float8 end;
comment on function pgq._number_place(numeric) is 'A float that sorts like the given number.';
