-- A duration as readable text, such as 5 min.
create or replace function pgq._span(span interval) returns text
language sql immutable parallel safe
return (
    select case when s >= 129600 then round(s / 86400) || ' d'
                when s >= 5400 then round(s / 3600) || ' h'
                when s >= 90 then round(s / 60) || ' min'
                else greatest(round(s), 0) || ' s' end
    from extract(epoch from span) s);
comment on function pgq._span(interval) is 'A duration as readable text, such as 5 min.';

grant execute on function pgq._span to pg_monitor;
