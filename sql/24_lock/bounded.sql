-- A time span that can be added to any date: between zero and the given years, without negative
-- parts ('-1000000 years 365000000 days' is a short span that no date can be moved by). Others
-- count as the given years: an absurd stored value must not make calls fail. All code reads the
-- intervals of pgq.queue by this function or by _lease_span.
create or replace function pgq._bounded(span interval, years int) returns interval
language sql immutable parallel safe
return case when extract(year from span) >= 0 and extract(month from span) >= 0
                 and extract(day from span) >= 0 and extract(hour from span) >= 0
       then least(greatest(span, interval '0'), make_interval(years => years))
       else make_interval(years => years) end;
comment on function pgq._bounded(interval, int) is
    'A duration of at most the given years, which can be added to any date.';
