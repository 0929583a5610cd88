-- Whether a schedule can have this interval: one second to ten years, without negative parts.
create or replace function pgq._is_step(every interval) returns boolean
language sql immutable parallel safe
return every >= interval '1 s' and every <= make_interval(years => pgq._limit('policy_years'))
    and extract(year from every) >= 0 and extract(month from every) >= 0
    and extract(day from every) >= 0 and date_trunc('day', every) <= every;
comment on function pgq._is_step(interval) is 'Whether a schedule can have this interval.';
