-- A time as text that does not depend on session settings; also infinity.
create or replace function pgq._moment(moment timestamptz) returns text
language sql stable parallel safe
return case when isfinite(moment)
    then to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
    else moment::text end;
comment on function pgq._moment(timestamptz) is 'A time as text, in UTC.';
